"""What the agent says, read loosely: unknown keys are ignored, a field of the wrong type becomes its default."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tensortui.errors import TensortuiError
from tensortui.model import (
    LIVE,
    SCANNING,
    WAITING,
    Change,
    Cost,
    Coverage,
    Ended,
    Graph,
    GraphNode,
    Process,
    Sample,
    SavedTensor,
    Storage,
    Tensor,
)
from tensortui.sources.held import Held
from tensortui.sources.tables import clean_text, integer
from tensortui.wire.frames import Header, WireError

MAX_NODES = 200_000
MAX_PARTS = 4_000_000  # successors, saved tensors and tensors made, of all nodes of a graph together
MAX_LIST = 4096
TOO_MANY = f"the nodes of the graph have more than {MAX_PARTS:,} successors and tensors: the rest is left out"
_LATEST = 253_402_300_000  # the year 9999

_BYE = {
    "exit": ("the process is exiting", True),
    "detached": ("the agent was detached", True),
    "idle": ("the agent ended: it had no viewer", True),
    "forked": ("the process forked and this is the child", False),
    "error": ("the agent failed", False),
}


class AgentError(TensortuiError):
    """The agent refused or failed; cause and next step are its own words."""

    kind = "agent"


def failure(header: Header) -> AgentError:
    """The error of an `error` or `failed` message."""
    cause = clean_text(header.get("cause")) or "The agent could not do that."
    kind = clean_text(header.get("kind"))
    return AgentError(cause, clean_text(header.get("next_step")) or "", kind=kind or None)


def farewell(header: Header) -> Ended:
    """The end that a `bye` message announces."""
    reason = header.get("reason")
    text, expected = _BYE.get(reason if isinstance(reason, str) else "", ("the agent ended", True))
    detail = clean_text(header.get("detail"))
    return Ended(f"{text}: {detail}" if detail else text, time.time(), expected)


def process(value: dict[str, Any], pid: int) -> Process:
    """The process of a `welcome` or `sample` message; `pid` is how this side numbers it."""
    command = value.get("command")
    return Process(
        pid,
        tuple(clean_text(part) or "" for part in command[:MAX_LIST]) if isinstance(command, list) else (),
        clean_text(value.get("python")),
        clean_text(value.get("torch")),
        clean_text(value.get("cuda")),
        integer(value.get("rank")),
        integer(value.get("local_rank")),
        integer(value.get("world_size")),
    )


def title(known: Process) -> str:
    """A short title: what runs, and the pid."""
    name = known.program
    return f"{name}  pid {known.pid}" if name else f"pid {known.pid}"


def sample(
    header: Header,
    known: Process,
    batch: tuple[int, Mapping[int, Tensor], Mapping[int, Storage], Change],
) -> Sample:
    """The sample that a `sample` message closes."""
    seq, tensors, storages, change = batch
    phase = header.get("phase")
    taken_at = number(header.get("taken_at"))
    progress = number(header.get("progress"))
    coverage = header.get("coverage")
    cost = header.get("cost")
    return Sample(
        seq,
        time.time() if taken_at is None or not 0 < taken_at < _LATEST else taken_at,
        known,
        phase if phase in (LIVE, SCANNING, WAITING) else LIVE,
        None if progress is None else min(1.0, max(0.0, progress)),
        _coverage(coverage) if isinstance(coverage, dict) else Coverage(complete=False),
        _cost(cost) if isinstance(cost, dict) else Cost(),
        storages,
        tensors,
        change,
        _depths(header.get("depths"), tensors),
    )


def _depths(value: Any, tensors: Mapping[int, Tensor]) -> Mapping[int, int]:
    pairs = [one for one in value[:MAX_LIST] if isinstance(one, list)] if isinstance(value, list) else []
    found = {one[0]: one[1] for one in pairs if len(one) == 2 and all(integer(part) is not None for part in one)}
    return MappingProxyType({number: depth for number, depth in found.items() if number in tensors and depth > 0})


def _coverage(value: dict[str, Any]) -> Coverage:
    return Coverage(value.get("complete") is True, _texts(value.get("reasons")))


def _texts(value: Any) -> tuple[str, ...]:
    texts = [clean_text(one) for one in value[:MAX_LIST]] if isinstance(value, list) else []
    return tuple(text for text in texts if text)


def _cost(value: dict[str, Any]) -> Cost:
    default = Cost()
    share, budget, longest = (number(value.get(key)) for key in ("share", "budget", "longest_slice"))
    return Cost(
        default.share if share is None else max(0.0, share),
        default.budget if budget is None else max(0.0, budget),
        default.longest_slice if longest is None else max(0.0, longest),
    )


class GraphParts:
    """The graph, from the chunks it comes in. What is over the bounds of its lists is left out, and said."""

    def __init__(self) -> None:
        """Start with no chunk."""
        self._roots: dict[int, None] = {}
        self._nodes: dict[int, GraphNode] = {}
        self._made: dict[int, list[int]] = {}  # by nodes, besides what is told with them
        self._cut = False
        self._reasons: dict[str, None] = {}
        self._held = Held()
        self._room = MAX_PARTS

    def add(self, header: Header) -> None:
        """Add one `graph` message."""
        self._cut = self._cut or header.get("cut") is True
        self._reasons.update(dict.fromkeys(_texts(header.get("reasons"))))
        self._roots.update(dict.fromkeys(_integers(_list(header.get("roots")))))
        for value in _list(header.get("nodes")):
            node = self._node(value)
            if node is not None:
                self._nodes[node.id] = node
                self._held.add(_more(value).get("held"))
        for entry in _list(header.get("made")):
            if isinstance(entry, list) and len(entry) == 2 and integer(entry[0]) is not None:
                self._made.setdefault(entry[0], []).extend(_integers(self._take(entry[1])))
        if max(len(self._nodes), len(self._roots), len(self._made)) > MAX_NODES:
            raise WireError(f"a graph of more than {MAX_NODES} nodes")

    def _take(self, value: Any) -> list[Any]:
        """The list `value`, as far as there is room for it."""
        given = _list(value)
        taken = given[: self._room]
        self._room -= len(taken)
        if len(taken) < len(given):
            self._cut = True
            self._reasons[TOO_MANY] = None
        return taken

    def _node(self, value: Any) -> GraphNode | None:
        if not isinstance(value, list) or len(value) < 5 or integer(value[0]) is None:
            return None
        more = _more(value)
        return GraphNode(
            value[0],
            clean_text(value[1]) or "?",
            tuple(map(integer, self._take(value[2]))),
            integer(value[3]),
            tuple(one for one in map(_saved, self._take(value[4])) if one is not None),
            tuple(_integers(self._take(more.get("tensors")))),
            clean_text(more.get("function")) or "",
            more.get("freed") is True,
            max(integer(more.get("hooks")) or 0, 0),
            more.get("cut") is True,
            max(integer(more.get("retained")) or 0, 0),
        )

    def graph(self) -> Graph:
        """The whole."""
        held = self._held
        return Graph(
            tuple(self._roots), tuple(map(self._whole, self._nodes.values())), self._cut,
            tuple(self._reasons)[:MAX_LIST], MappingProxyType(held.tensors), MappingProxyType(held.storages),
        )  # fmt: skip

    def _whole(self, node: GraphNode) -> GraphNode:
        further = self._made.get(node.id)
        return node if further is None else replace(node, tensors=tuple(dict.fromkeys((*node.tensors, *further))))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _integers(values: list[Any]) -> list[int]:
    return [one for one in values if integer(one) is not None]


def _more(value: list[Any]) -> dict[str, Any]:
    return value[5] if len(value) > 5 and isinstance(value[5], dict) else {}


def _saved(value: Any) -> SavedTensor | None:
    if not isinstance(value, list) or len(value) < 6:
        return None
    name, tensor, at, now, stale, hook = value[:6]
    unpacked_by = clean_text(value[6]) if len(value) > 6 else None
    return SavedTensor(
        clean_text(name) or "?", integer(tensor), integer(at), integer(now), stale is True, hook is True,
        unpacked_by or "",
    )  # fmt: skip


def number(value: Any) -> float | None:
    """A finite number of the peer; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
