"""Findings about parameters: one tensor under several names, several tensors on the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from tensortui.analysis.findings.finding import Facts, Finding, label
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_bytes
from tensortui.model import Tensor
from tensortui.model.strided import PACKED, intervals, itemsize, union


def tied(facts: Facts) -> Iterator[Finding]:
    """One parameter that two modules of a model use."""
    pairs = {}
    composite: set[tuple[str, str]] = set()
    for tensor in facts.sample.tensors.values():
        if tensor.category != "parameter" or len(tensor.names) < 2:
            continue
        found = _pairs(tensor.names)
        pairs[tensor.id] = found
        composite.update((one, two) for one, two, suffix in found if suffix > 1)
    for tid, found in pairs.items():
        # Two paths to one whole model (a wrapper and what it wraps) are no tie: they agree on modules inside too.
        real = [(one, two) for one, two, _ in found if (one, two) not in composite]
        if not real:
            continue
        tensor = facts.sample.tensors[tid]
        names = [safe(name) for name in tensor.names]
        yield Finding(
            "tied",
            "note",
            f"{names[0]} has {len(names)} names: it is one tensor, counted once",
            (tid,),
            () if tensor.storage is None else (tensor.storage,),
            {"names": names, "bytes": tensor.bytes},
            "Nothing to do if that is meant; a copy of one of the modules would untie it.",
            tensor.bytes or 0,
        )


def _pairs(names: Iterable[str]) -> list[tuple[str, str, int]]:
    """Pairs of module paths in one object that lead to the same tensor, and how many words behind them agree."""
    paths = [name.split(".") for name in names if "@" not in name and " of " not in name and "[" not in name]
    out = []
    for at, one in enumerate(paths):
        for two in paths[at + 1 :]:
            if one[0] != two[0]:
                continue  # two variables that lead to the same model
            suffix = 0
            while suffix < min(len(one), len(two)) - 1 and one[-1 - suffix] == two[-1 - suffix]:
                suffix += 1
            left, right = one[: len(one) - suffix], two[: len(two) - suffix]
            if len(left) == 1 or len(right) == 1:
                continue  # one contains the other
            out.append((".".join(left), ".".join(right), suffix))
    return out


_MAX_PIECES = 1 << 16  # ranges of the parameters on one storage


class _Part(NamedTuple):
    """A parameter, and the byte ranges of its storage that it covers."""

    tensor: Tensor
    ranges: list[tuple[int, int]]

    @property
    def start(self) -> int:
        return self.ranges[0][0]

    @property
    def end(self) -> int:
        return self.ranges[-1][1]


def overlap(facts: Facts) -> Iterator[Finding]:
    """Two parameters that are different tensors on the same bytes."""
    by_storage: dict[int, list[Tensor]] = {}
    for tensor in facts.sample.tensors.values():
        if tensor.category == "parameter" and tensor.is_leaf and tensor.requires_grad and tensor.storage is not None:
            by_storage.setdefault(tensor.storage, []).append(tensor)
    for storage, tensors in by_storage.items():
        account = facts.accounts.account(storage)
        if len(tensors) < 2 or account is None or not account.bytes:
            continue
        parts = _parts(tensors)
        flat = _flat(parts)
        apart = ([part for part in parts if (part.tensor.id in flat) is chosen] for chosen in (False, True))
        for one, two, shared in chain.from_iterable(map(_overlaps, apart)):
            yield Finding(
                "overlap",
                "warning",
                f"{label(one)} and {label(two)} are two parameters on the same {format_bytes(shared)}",
                (one.id, two.id),
                (storage,),
                {"shared_bytes": shared},
                "Each has a gradient and optimizer state of its own and changes both; assign the parameter itself.",
                shared,
            )


def _parts(tensors: Iterable[Tensor]) -> list[_Part]:
    """Where parameters lie, without those of which it cannot be told or is too many pieces."""
    parts = []
    left = _MAX_PIECES
    for tensor in tensors:
        size = itemsize(tensor.dtype)
        if tensor.shape is None or tensor.strides is None or tensor.offset is None or size is None:
            continue
        if tensor.dtype in PACKED or len(tensor.shape) != len(tensor.strides):
            continue
        ranges = intervals(tensor.shape, tensor.strides, tensor.offset, size, left)
        if ranges:
            left -= len(ranges)
            parts.append(_Part(tensor, ranges))
    return parts


def _flat(parts: Iterable[_Part]) -> set[int]:
    """The flat parameters of sharded or fused training: the module's parameters are views of them.

    Such a one has one dimension without gaps, and is more than half filled by others that lie in it whole and are not
    of its shape. An optimizer is given either it or the others.
    """
    ordered = sorted(parts, key=lambda part: (part.start, -part.end, len(part.tensor.shape or ()) != 1))
    out: set[int] = set()
    first = 0
    while first < len(ordered):
        whole, last = ordered[first], first + 1
        reach = whole.end
        while last < len(ordered) and ordered[last].start < reach:
            reach = max(reach, ordered[last].end)
            last += 1
        group, first = ordered[first:last], last
        shape = whole.tensor.shape
        if reach == whole.end and shape is not None and len(shape) == 1 and len(whole.ranges) == 1:
            alike = {part.tensor.id for part in group if part.tensor.shape == shape and part.ranges == whole.ranges}
            inside = chain.from_iterable(part.ranges for part in group if part.tensor.id not in alike)
            if 2 * sum(end - start for start, end in union(inside)) > whole.end - whole.start:
                out |= alike
    return out


def _overlaps(parts: Sequence[_Part]) -> list[tuple[Tensor, Tensor, int]]:
    """Pairs that share bytes, and how many; of each range only with the one before it that reaches farthest."""
    pieces = sorted((start, end, at) for at, part in enumerate(parts) for start, end in part.ranges)
    shared: dict[tuple[int, int], int] = {}
    reach, owner = 0, 0
    for start, end, at in pieces:
        if start < reach and owner != at:
            pair = min(owner, at), max(owner, at)
            shared[pair] = shared.get(pair, 0) + min(reach, end) - start
        if end > reach:
            reach, owner = end, at
    return [(parts[one].tensor, parts[two].tensor, size) for (one, two), size in shared.items()]
