"""A storage as a ribbon of cells: which of its bytes each tensor covers, which none does, and which several do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from tensortui.analysis.layout.cover import MAX_PIECES, Cover, Pieces, between, cover, moved
from tensortui.analysis.layout.place import Place
from tensortui.model.strided import MAX_MASK_BITS, mask, range_mask, union

FULL, PART, NONE, UNKNOWN = "full", "part", "none", "unknown"

_MAX_PIECES = 1 << 16  # of all tensors together
_MAX_WORK = 1 << 28  # bits touched where pieces are too many
_MAX_LOOKS = 1 << 16  # tensors times cells, where even bits are too many

Cells = tuple[str, ...]
At = tuple[Place, int]  # a place, and the byte at which its storage starts on the one that is drawn


@dataclass(frozen=True, slots=True)
class Strip:
    """One tensor on the ribbon. `bytes` are those it covers inside the storage; None where they cannot be counted.

    `beyond` says that it reaches past the end of the storage, as after `resize_` of what it was made of.
    """

    cells: Cells
    bytes: int | None
    beyond: bool


@dataclass(frozen=True, slots=True)
class Ribbon:
    """A storage of `size` bytes in cells that begin at `edges`, of which the last is its end.

    `covered` says where any tensor lies, `shared` where several do; their bytes are None where that cannot be told.
    """

    size: int
    edges: tuple[int, ...]
    strips: Mapping[int, Strip]
    covered: Cells
    covered_bytes: int | None
    shared: Cells
    shared_bytes: int | None

    @property
    def gap_bytes(self) -> int | None:
        """Bytes that no tensor covers."""
        return None if self.covered_bytes is None else self.size - self.covered_bytes


def ribbon(
    size: int,
    places: Mapping[int, Place | None],
    width: int,
    shown: Iterable[int] | None = None,
    starts: Mapping[int, int] = MappingProxyType({}),
) -> Ribbon:
    """Draw a storage of `size` bytes in at most `width` cells.

    `places` has every tensor on it by its id, None for one that has no strides; strips are made of those `shown`, all
    without. `starts` has the tensors whose storage is another one over the same memory, with the byte at which that
    starts. A storage of fewer elements than cells has a cell each.
    """
    known = Counter((place, starts.get(tid, 0)) for tid, place in places.items() if place is not None)
    unit = (math.gcd(size, *(math.gcd(place.itemsize, start) for place, start in known)) or 1) if known else 1
    units = size // unit
    count = max(min(width, units), 1)
    edges = tuple(at * units // count * unit for at in range(count + 1))
    covers: dict[At, Cover | None] = {}
    left = _MAX_PIECES
    for place, start in known:
        found = cover(place, min(left, MAX_PIECES))
        left -= len(found.pieces) if isinstance(found, Pieces) else 0
        covers[place, start] = None if found is None else moved(found, start)
    strips: dict[tuple[Place | None, int | None], Strip] = {}
    drawn = {}
    for tid in places if shown is None else shown:
        lies, at = key = places[tid], starts.get(tid)
        if key not in strips:
            own = covers[lies, at or 0] if lies is not None else None
            strips[key] = _strip(own, edges, beyond=lies is not None and at is None and lies.end > size)
        drawn[tid] = strips[key]
    dark = any(place is None for place in places.values())  # a tensor of which nothing is known may lie anywhere
    covered, shared = _together(known, covers, edges, unit)
    if dark:
        covered = tuple(state if state == FULL else UNKNOWN for state in covered[0]), None
        shared = tuple(state if state == FULL else UNKNOWN for state in shared[0]), None
    return Ribbon(size, edges, drawn, *covered, *shared)


def _strip(found: Cover | None, edges: Sequence[int], *, beyond: bool) -> Strip:
    if found is None:
        return Strip((UNKNOWN,) * (len(edges) - 1), None, beyond)
    below = [found.below(edge) for edge in edges]
    return Strip(_states(below, edges), below[-1] - below[0], beyond)


def _states(below: Sequence[int], edges: Sequence[int]) -> Cells:
    """The state of each cell, from the bytes covered before each edge."""
    inside = (after - before for before, after in pairwise(below))
    return tuple(
        FULL if count >= end - start and end > start else PART if count else NONE
        for count, (start, end) in zip(inside, pairwise(edges), strict=True)
    )


Told = tuple[Cells, int | None]


def _together(
    known: Counter[At], covers: Mapping[At, Cover | None], edges: Sequence[int], unit: int
) -> tuple[Told, Told]:
    """Where at least one tensor lies, and where at least two do."""
    pieces = [(found.pieces, known[place]) for place, found in covers.items() if isinstance(found, Pieces)]
    loose = [place for place, found in covers.items() if not isinstance(found, Pieces)]
    if not loose:
        once, twice = _sweep(pieces)
        return _told(Pieces(once).below, edges), _told(Pieces(twice).below, edges)
    masks = _masks(known, covers, edges[-1], unit)
    if masks is not None:
        return tuple(_told_bits(bits, edges, unit) for bits in masks)  # type: ignore[return-value]
    if len(covers) * len(edges) > _MAX_LOOKS:
        unknown: Told = (UNKNOWN,) * (len(edges) - 1), None
        return unknown, unknown
    return _by_cell(known, covers, edges)


def _told(below: Callable[[int], int], edges: Sequence[int]) -> Told:
    counts = [below(edge) for edge in edges]
    return _states(counts, edges), counts[-1] - counts[0]


def _sweep(pieces: Iterable[tuple[list[tuple[int, int]], int]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The ranges where the depth is at least one, and at least two."""
    pieces = list(pieces)
    steps = sorted(step for each, many in pieces for start, end in each for step in ((start, -many), (end, many)))
    twice = []
    depth = last = 0
    for at, change in steps:
        if depth > 1 and at > last:
            twice.append((last, at))
        depth -= change
        last = at
    return union(piece for each, _ in pieces for piece in each), union(twice)


def _masks(known: Counter[At], covers: Mapping[At, Cover | None], size: int, unit: int) -> tuple[int, int] | None:
    """Both as sets of bits, one a unit; None where they would be too large, or too many."""
    bits = size // unit
    if bits > MAX_MASK_BITS or bits * len(known) > _MAX_WORK:
        return None
    once = twice = 0
    inside = (1 << bits) - 1
    for (place, at), many in known.items():
        found = covers[place, at]
        if isinstance(found, Pieces):
            ends = ((max(start, 0) // unit, min(end // unit, bits)) for start, end in found.pieces)
            part: int | None = range_mask(bits, ((start, end) for start, end in ends if start < end))
        elif at or place.packed > 1:
            return None
        else:
            part = mask(place.shape, place.strides, place.offset, place.itemsize, unit)
        if part is None:
            return None
        part &= inside
        twice |= part if many > 1 else once & part
        once |= part
    return once, twice


def _told_bits(bits: int, edges: Sequence[int], unit: int) -> Told:
    below = [0]
    for start, end in pairwise(edges):
        count = (end - start) // unit
        below.append(below[-1] + (bits >> (start // unit) & ((1 << count) - 1)).bit_count() * unit)
    return _states(below, edges), below[-1]


def _by_cell(known: Counter[At], covers: Mapping[At, Cover | None], edges: Sequence[int]) -> tuple[Told, Told]:
    """What counts alone can tell of each cell: it is exact where one tensor fills it, or one alone touches it."""
    covered, shared = [], []
    covered_bytes: int | None = 0
    shared_bytes: int | None = 0
    for start, end in pairwise(edges):
        whole = end - start
        found = [(known[place], None if one is None else between(one, start, end)) for place, one in covers.items()]
        counts = [count for _, count in found if count is not None]
        dark = any(count is None for _, count in found)
        state, size = _once(sorted(counts, reverse=True), whole, dark=dark)
        covered.append(state)
        covered_bytes = None if covered_bytes is None or size is None else covered_bytes + size
        state, size = _twice(found, whole, dark=dark)
        shared.append(state)
        shared_bytes = None if shared_bytes is None or size is None else shared_bytes + size
    return (tuple(covered), covered_bytes), (tuple(shared), shared_bytes)


def _once(counts: list[int], whole: int, *, dark: bool) -> tuple[str, int | None]:
    if counts and counts[0] == whole:
        return FULL, whole
    if dark:
        return UNKNOWN, None
    touching = [count for count in counts if count]
    if not touching:
        return NONE, 0
    if len(touching) == 1:
        return PART, touching[0]
    return (PART if sum(touching) < whole else UNKNOWN), None


def _twice(found: list[tuple[int, int | None]], whole: int, *, dark: bool) -> tuple[str, int | None]:
    counts = sorted((count for many, count in found if count for _ in range(min(many, 2))), reverse=True)
    if len(counts) > 1 and counts[1] == whole:
        return FULL, whole
    if dark:
        return UNKNOWN, None
    if len(counts) < 2:
        return NONE, 0
    if counts[0] == whole and len(counts) == 2:
        return PART, counts[1]
    if len([count for _, count in found if count]) == 1:
        return PART, counts[0]  # the same place several times
    # Too many bytes not to meet; and what is shared lies on another than the largest, which together are too few.
    return (PART if sum(counts) > whole > sum(counts[1:]) else UNKNOWN), None
