"""Which bytes of a storage one tensor covers, counted exactly over any part of it, and never element by element."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from tensortui.analysis.layout.place import Place
from tensortui.model.strided import intervals, merged

MAX_PIECES = 1 << 12
Piece = tuple[int, int]


class Pieces:
    """Byte ranges, sorted and apart."""

    def __init__(self, pieces: list[Piece]) -> None:
        """Ranges as `strided.union` gives them."""
        self.pieces = pieces
        self._starts = [start for start, _ in pieces]
        self._before = [0, *accumulate(end - start for start, end in pieces)]

    def below(self, byte: int) -> int:
        """How many of the bytes before `byte` are covered."""
        at = bisect_right(self._starts, byte)
        if not at:
            return 0
        return self._before[at] - max(0, self.pieces[at - 1][1] - byte)


class Steps:
    """The same runs over and over, at steps longer than what they repeat: countable whatever their number."""

    def __init__(self, start: int, dims: list[tuple[int, int]]) -> None:
        """From byte `start` on; `dims` are (stride, size) in bytes, the shortest first."""
        self._start = start
        self._given = dims
        self._dims = []
        inside = 1
        for stride, size in dims:
            self._dims.append((stride, size, inside))
            inside *= size
        self._dims.reverse()

    def moved(self, by: int) -> Steps:
        """The same `by` bytes farther on."""
        return Steps(self._start + by, self._given)

    def below(self, byte: int) -> int:
        """How many of the bytes before `byte` are covered."""
        rest = byte - self._start
        if rest <= 0:
            return 0
        total = 0
        for stride, size, inside in self._dims:
            before = min(rest // stride, size - (stride > 1))
            total += before * inside
            rest -= before * stride
        return total


Cover = Pieces | Steps


def moved(found: Cover, by: int) -> Cover:
    """The same bytes, seen from `by` bytes before: those of a storage that starts there on another."""
    if not by:
        return found
    if isinstance(found, Steps):
        return found.moved(by)
    return Pieces([(start + by, end + by) for start, end in found.pieces])


def cover(place: Place, limit: int = MAX_PIECES) -> Cover | None:
    """The bytes of a place; None where they cannot be counted but one by one."""
    if place.packed > 1:
        whole = place.contiguous and not place.offset
        return Pieces([(0, place.bytes)] if place.bytes else []) if whole else None
    pieces = intervals(place.shape, place.strides, place.offset, place.itemsize, limit)
    if pieces is not None:
        return Pieces(pieces)
    size = place.itemsize
    steps = [(stride * size, n) for stride, n in zip(place.strides, place.shape, strict=True) if n > 1 and stride]
    dims = merged(sorted([(1, size), *steps]))
    reach = 0
    for stride, n in dims:
        if stride <= reach:
            return None
        reach += stride * (n - 1)
    return Steps(place.offset * size, dims)


def between(found: Cover, start: int, end: int) -> int:
    """How many of the bytes from `start` to before `end` are covered."""
    return found.below(end) - found.below(start)
