"""The address of an element, and back: from a byte of a storage to the indices that lead to it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from tensortui.analysis.layout.place import LayoutError, Place

MAX_STEPS = 5_000  # a search for indices that takes more is given up
FIRST = 8  # indices of one byte that are listed


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its index (never negative), where it lies, and its memory address where the storage has one.

    `offset` is in elements from the start of the storage, `byte` is its first byte there.
    """

    index: tuple[int, ...]
    offset: int
    byte: int
    address: int | None


def element(place: Place, index: Sequence[int], storage_address: int | None = None) -> Element:
    """The element at an index; negative ones count from the end, as in Python."""
    if len(index) != len(place.shape):
        raise LayoutError(_count_words(place, index))
    plain = []
    for dim, (at, size) in enumerate(zip(index, place.shape, strict=True)):
        if not -size <= at < size:
            inside = f"it goes from 0 to {size - 1}, or from -{size} to -1" if size else "it has no element"
            raise LayoutError(f"index {at} is out of range for dim {dim} of size {size}: {inside}")
        plain.append(at % size)
    offset = place.offset + sum(at * stride for at, stride in zip(plain, place.strides, strict=True))
    byte = _packed_byte(place, plain) if place.packed > 1 else offset * place.itemsize
    return Element(tuple(plain), offset, byte, storage_address + byte if storage_address else None)


def _count_words(place: Place, index: Sequence[int]) -> str:
    dims = len(place.shape)
    if not dims:
        return "this tensor has no dimensions: its one element is []"
    example = list(index[:dims]) + [0] * (dims - len(index))
    given = "1 index" if len(index) == 1 else f"{len(index)} indices"
    return f"{given} given, but this tensor has {dims} {'dimension' if dims == 1 else 'dimensions'}: try {example}"


def _packed_byte(place: Place, index: Sequence[int]) -> int:
    """Packed elements fill bytes along the last dimension, each row from a byte of its own."""
    _packed_only_whole(place)
    if not index:
        return 0
    row = 0
    for at, size in zip(index[:-1], place.shape[:-1], strict=True):
        row = row * size + at
    return row * -(-place.shape[-1] // place.packed) + index[-1] // place.packed


def _packed_only_whole(place: Place) -> None:
    if not place.contiguous or place.offset:
        raise LayoutError(f"elements of {place.dtype} share bytes: the address is known where all are contiguous")


def formula(place: Place, found: Element) -> str:
    """How the offset of an element comes about: "0 + 3*1 + 5*32 = 163"."""
    terms = [f"{at}*{stride}" for at, stride in zip(found.index, place.strides, strict=True)]
    return " + ".join([str(place.offset), *terms]) + (f" = {found.offset}" if terms else "")


@dataclass(frozen=True, slots=True)
class Hits:
    """The indices of one tensor that lead to a byte: how many (None where counting takes too long), the first ones.

    `within` is which byte of the element it is.
    """

    count: int | None
    first: tuple[tuple[int, ...], ...]
    within: int


def hits(place: Place, byte: int, limit: int = FIRST) -> Hits:
    """Which indices lead to a byte of the storage; the first in order where there are few, some where many."""
    if 0 in place.shape or byte < 0:
        return Hits(0, (), 0)
    if place.packed > 1:
        return _packed_hits(place, byte, limit)
    target, within = divmod(byte, place.itemsize)
    search = _Search(place, target - place.offset)
    count = search.count()
    found = sorted(islice(search.indices(), limit))
    if count is None and not search.exhausted and len(found) < limit:
        count = len(found)
    return Hits(count, tuple(found), within)


def _packed_hits(place: Place, byte: int, limit: int) -> Hits:
    _packed_only_whole(place)
    if not place.shape:
        return Hits(1, ((),), 0) if byte == 0 else Hits(0, (), 0)
    row, column = divmod(byte, -(-place.shape[-1] // place.packed))
    if row >= math.prod(place.shape[:-1]):
        return Hits(0, (), 0)
    index: list[int] = []
    for size in reversed(place.shape[:-1]):
        row, at = divmod(row, size)
        index.insert(0, at)
    first = column * place.packed
    last = min(first + place.packed, place.shape[-1])
    found = [(*index, at) for at in range(first, last)]
    return Hits(len(found), tuple(found[:limit]), 0)


class _Search:
    """Solves sum(index * stride) == target, dimension by dimension, the longest strides first."""

    def __init__(self, place: Place, target: int) -> None:
        self._dims = len(place.shape)
        self._target = target
        moving = [
            (stride, size, dim) for dim, (stride, size) in enumerate(zip(place.strides, place.shape, strict=True))
        ]
        self._still = [(size, dim) for stride, size, dim in moving if not stride]
        self._repeats = math.prod(size for size, _ in self._still)
        self._moving = sorted(((s, n, d) for s, n, d in moving if s), key=lambda each: (-each[0], each[2]))
        # What the dimensions from each one on reach together, and what divides all their strides.
        self._reach = [0]
        self._divisor = [0]
        for stride, size, _ in reversed(self._moving):
            self._reach.insert(0, self._reach[0] + stride * (size - 1))
            self._divisor.insert(0, math.gcd(self._divisor[0], stride))
        self._steps = 0
        self.exhausted = False

    def count(self) -> int | None:
        """How many there are; None where that takes too many steps."""
        self._steps, self.exhausted = 0, False
        found = self._count(0, self._target)
        return None if found is None else found * self._repeats

    def _count(self, at: int, rest: int) -> int | None:
        if len(self._moving) - at == 2:
            return self._pairs(at, rest)
        if at == len(self._moving):
            return 0 if rest else 1
        total = 0
        for value in self._values(at, rest):
            self._steps += 1
            if self._steps > MAX_STEPS:
                self.exhausted = True
                return None
            inner = self._count(at + 1, rest - value * self._moving[at][0])
            if inner is None:
                return None
            total += inner
        return total

    def _pairs(self, at: int, rest: int) -> int:
        """Of two dimensions, i*a + j*b == rest, by arithmetic alone."""
        return len(self._values(at, rest))

    def _values(self, at: int, rest: int) -> range:
        """The indices of one dimension that leave what the ones after it can reach, and divides by their strides."""
        stride, size, _ = self._moving[at]
        low = max(0, -(-(rest - self._reach[at + 1]) // stride))
        high = min(size - 1, rest // stride)
        divisor = self._divisor[at + 1]
        if not divisor:  # the last one has to fit exactly
            return range(low, high + 1) if rest % stride == 0 else range(0)
        common = math.gcd(stride, divisor)
        if rest % common:
            return range(0)
        step = divisor // common
        first = rest // common * pow(stride // common, -1, step) % step if step > 1 else 0
        return range(low + (first - low) % step, high + 1, step)

    def indices(self) -> Iterator[tuple[int, ...]]:
        """The indices; they end early, `exhausted`, where the search takes too many steps."""
        self._steps, self.exhausted = 0, False
        index = [0] * self._dims
        for _ in self._walk(0, self._target, index):
            for number in range(self._repeats):
                rest = number
                for size, dim in reversed(self._still):
                    rest, index[dim] = divmod(rest, size)
                yield tuple(index)

    def _walk(self, at: int, rest: int, index: list[int]) -> Iterator[None]:
        if at == len(self._moving):
            if not rest:
                yield
            return
        stride, _, dim = self._moving[at]
        for value in self._values(at, rest):
            self._steps += 1
            if self._steps > MAX_STEPS:
                self.exhausted = True
                return
            index[dim] = value
            yield from self._walk(at + 1, rest - value * stride, index)
