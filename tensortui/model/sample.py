"""What a sample is: the tensors and storages of one process at one moment, immutable.

The field names are those of the JSON document (schema 1). `None` means "could not be read", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType

# First that fits decides the category of a storage (and of a tensor with several roles); the index is what the
# agent sends over the wire, so entries are only ever appended.
CATEGORIES = ("parameter", "buffer", "optimizer", "gradient", "saved", "activation", "input", "other")
CATEGORY_RANK = {name: rank for rank, name in enumerate(CATEGORIES)}

# Options of the interpreter whose value is a word of its own.
_TAKES_A_VALUE = ("-W", "-X", "--check-hash-based-pycs")

BACKINGS = ("memory", "shared", "file", "none")


@dataclass(frozen=True, slots=True)
class Process:
    """The process a sample comes from. `None` where the source does not know."""

    pid: int
    command: tuple[str, ...] = ()
    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None

    @property
    def program(self) -> str:
        """What runs, in a word: the script or module rather than the interpreter; "" where nothing is known."""
        words = iter(self.command[1:])
        for word in words:
            if word in _TAKES_A_VALUE:
                next(words, None)
            elif word == "-m":
                return f"-m {next(words, '')}".strip()
            elif word == "-c":
                break
            elif not word.startswith("-"):
                return PurePath(word).name or word
        return PurePath(self.command[0]).name if self.command else ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether every live tensor was seen, and if not, why not, one sentence a reason."""

    complete: bool = True
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What the agent costs the target, measured by itself.

    `share` is the fraction of the target's wall time that the agent held (0.003 is 0.3 %), over about the last
    ten seconds; `budget` the fraction it may use; `longest_slice` the longest piece of work in one go, in seconds.
    """

    share: float = 0.0
    budget: float = 0.01
    longest_slice: float = 0.0


@dataclass(frozen=True, slots=True)
class Storage:
    """One block of memory that tensors share. `bytes` is its size; `address` is 0 or None where it has none."""

    id: int
    device: str
    address: int | None
    bytes: int | None
    backing: str = "memory"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One live tensor. `strides` and `offset` are in elements, `bytes` and `distinct_bytes` in bytes.

    `bytes` is numel * itemsize, `distinct_bytes` counts every address once (an expanded tensor has few). `flags` are
    those of the schema: view base-only transposed expanded overlapping conj neg inference quantized nested sparse meta
    fake subclass. `python` is False where only C++ holds it.
    """

    id: int
    storage: int | None
    names: tuple[str, ...]
    type: str
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    offset: int | None
    dtype: str | None
    device: str | None
    layout: str | None
    bytes: int | None
    distinct_bytes: int | None
    contiguous: bool | None
    memory_format: str | None
    flags: tuple[str, ...]
    requires_grad: bool | None
    is_leaf: bool | None
    version: int | None
    grad_fn: str | None
    category: str
    python: bool = True


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """A tensor that a graph node saved for backward.

    `version_saved` is None where it could not be read safely; `stale` is True when the tensor was changed in place
    since, so that backward will raise. `hook` marks one packed by a saved-tensor hook (checkpoint, offload), and
    `unpacked_by` is the module and name of the function that would unpack it.
    """

    name: str
    tensor: int | None
    version_saved: int | None
    version: int | None
    stale: bool
    hook: bool
    unpacked_by: str = ""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of the autograd graph; `next` are node ids, `leaf` the tensor an AccumulateGrad node fills.

    `tensors` are those that the node made, of the ones the graph was asked for. `function` is the module and class of a
    Function written in Python. `freed`: a backward has released what the node saved. `hooks` are on the leaf,
    or on the node and the tensors it made; `retained` of these keep their gradient, as `retain_grad` makes them. `cut`:
    some of the nodes that follow are not in the graph.
    """

    id: int
    name: str
    next: tuple[int | None, ...] = ()
    leaf: int | None = None
    saved: tuple[SavedTensor, ...] = ()
    tensors: tuple[int, ...] = ()
    function: str = ""
    freed: bool = False
    hooks: int = 0
    cut: bool = False
    retained: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """The autograd graph reachable from `roots`; `cut` when the walk stopped at its safe size.

    `reasons` say why it is not the whole truth, one sentence each. `tensors` and `storages` are what it held when it
    was read, of what may be gone before any sample tells of it; such storages have ids below zero.
    """

    roots: tuple[int, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    cut: bool = False
    reasons: tuple[str, ...] = ()
    tensors: Mapping[int, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    storages: Mapping[int, Storage] = field(default_factory=lambda: MappingProxyType({}))


# How a holder holds what comes after it. Those that begin a chain: global, local, class, C++, unreachable, unknown.
HOLDER_KINDS = (
    "global", "local", "class", "attribute", "key", "index", "tuple", "element", "closure", "default", "generator",
    "coroutine", "frame", "traceback", "cache", "hook", "array", "graph", "gradient", "base", "C++", "unreachable",
    "unknown", "object",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HolderStep:
    """One holder of a chain: `kind` is one of HOLDER_KINDS, `label` how it is written, such as `.logs` or `[3]`."""

    kind: str
    label: str


@dataclass(frozen=True, slots=True)
class Holders:
    """What keeps a tensor alive. Each chain goes from its root to the last holder before the tensor.

    `complete` is False where the search could not follow everything; `reasons` say why, one sentence each.
    """

    tensor: int
    chains: tuple[tuple[HolderStep, ...], ...] = ()
    reasons: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """Which tensor ids are new, changed or gone since the sample numbered `since`.

    `storages` are the storages that are any of the three. `since` is None where the source does not say what the
    sample is compared with.
    """

    new: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()
    storages: frozenset[int] = frozenset()
    since: int | None = None

    def then(self, later: Change) -> Change:
        """What changed over two samples in a row."""
        gone = (self.gone - later.new) | (later.gone - self.new)
        new = (self.new - later.gone) | (later.new - self.gone)
        changed = (self.changed | later.changed | (self.gone & later.new)) - new - gone
        return Change(new, changed, gone, self.storages | later.storages, self.since)


WAITING, SCANNING, LIVE = "waiting", "scanning", "live"


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of one process at `taken_at` (seconds since the epoch, UTC); `seq` counts up within one source.

    `phase` is "waiting" (torch is not imported yet), "scanning" (the first scan is under way; `progress` 0..1) or
    "live". `tensors` and `storages` map ids to records; ids are never reused within one source. `depths` are the nodes
    of the longest path in the graph behind a tensor, for a few of those with the longest.
    """

    seq: int
    taken_at: float
    process: Process
    phase: str = LIVE
    progress: float | None = None
    coverage: Coverage = Coverage()
    cost: Cost = Cost()
    storages: Mapping[int, Storage] = field(default_factory=lambda: MappingProxyType({}))
    tensors: Mapping[int, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    change: Change = Change()
    depths: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Ended:
    """The source will give no more samples. `reason` is one sentence; `expected` False when the target was lost."""

    reason: str
    at: float
    expected: bool = True
