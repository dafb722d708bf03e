"""The time since a moment in equal parts, and the least that there was of each group in each of them.

In a training loop nearly everything comes and goes with each step. What grows is what does not go back: the least that
there was of a group, over each of several parts of the time, rises from part to part.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from operator import add
from typing import NamedTuple, TypeVar

from tensortui.analysis.kinds import Kind, Place

BUCKETS = 64  # parts of time that are remembered; where there are more, two become one
PARTS = 4  # parts of the time in which the least has to rise
_LARGEST = (1 << 63) - 1  # that fits into eight bytes
_Key = TypeVar("_Key")


class Amount(NamedTuple):
    """How much there is of a group."""

    tensors: int
    bytes: int

    def plus(self, size: int | None) -> Amount:
        """With one tensor more."""
        return Amount(self.tensors + 1, self.bytes + (size or 0))

    def more(self, before: Amount) -> Amount:
        """How much more it is than before."""
        return Amount(max(self.tensors - before.tensors, 0), max(self.bytes - before.bytes, 0))

    def less(self, other: Amount) -> Amount:
        """Without the other."""
        return Amount(self.tensors - other.tensors, self.bytes - other.bytes)

    def at_least(self, other: Amount) -> Amount:
        """The larger of both."""
        return Amount(max(self.tensors, other.tensors), max(self.bytes, other.bytes))


class Rise(NamedTuple):
    """The least of a group in the first and in the last part compared, and on the way."""

    start: Amount  # the least there was at the beginning of the window
    before: Amount
    after: Amount
    steady: bool  # there was more in each part than in the one before
    once: bool  # there was more in one part than in the one before, and never else
    trend: tuple[int, ...]  # the least of each part of the window: bytes, or tensors where the bytes stay


class Series:
    """The least count and bytes of one group in each part of a window, as far as it has changed there."""

    __slots__ = ("_bytes", "_counts", "last")

    def __init__(self, start: Amount) -> None:
        """Begin with what there was before the first change."""
        self.last = start
        self._counts = array("q")
        self._bytes = array("q")

    def note(self, part: int, now: Amount) -> None:
        """Take the state at a moment in `part` into account; that before it lasted until now."""
        for values, before, after in ((self._counts, *self._pair(0, now)), (self._bytes, *self._pair(1, now))):
            values.extend([before] * (part + 1 - len(values)))
            values[part] = min(values[part], before, after)
        self.last = now

    def _pair(self, at: int, now: Amount) -> tuple[int, int]:
        return min(self.last[at], _LARGEST), min(now[at], _LARGEST)

    def halve(self) -> None:
        """Make one part of two."""
        for values in (self._counts, self._bytes):
            values[:] = array("q", [min(values[at : at + 2]) for at in range(0, len(values), 2)])

    def minima(self, parts: int) -> tuple[list[int], list[int]]:
        """The least count and bytes of each part so far."""
        left = max(parts - len(self._counts), 0)
        last = [min(value, _LARGEST) for value in self.last]
        return [*self._counts[:parts], *[last[0]] * left], [*self._bytes[:parts], *[last[1]] * left]

    def grew(self, first: int, parts: int, size: int) -> bool:
        """Whether the least over the last of the parts is more than over those from `first` on, `size` parts each."""
        if len(self._counts) <= first:
            return False  # it has not changed since
        for values, last in zip((self._counts, self._bytes), self.last, strict=True):
            late = values[parts - size : parts]
            if (min(late) if late else last) > min(values[first : first + size]):
                return True
        return False


class Window:
    """What became of the groups since it began. The parts of its time become longer with time."""

    def __init__(self, begun: float, seconds: float = 1.0) -> None:
        """Begin at a moment, with parts of so many seconds."""
        self.begun = self.now = begun
        self.part_seconds = seconds
        self.series: dict[Kind, Series] = {}
        self.totals: dict[Place, Series] = {}  # of all kinds of one shape, dtype and device
        self._looks = Series(_moment(begun))

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.now - self.begun

    @property
    def parts(self) -> int:
        """How many parts are over."""
        return int(self.seconds / self.part_seconds)

    @property
    def size(self) -> int:
        """How many of them make one of those that are compared; 0 where it is too early for that.

        The part under way may not have seen its least yet, and nobody knows what there was before the first.
        """
        return max(self.parts - 1, 0) // PARTS

    @property
    def patience(self) -> float:
        """After how many seconds there is something to compare."""
        return (PARTS + 1) * self.part_seconds

    @property
    def compared(self) -> tuple[float, float]:
        """The two moments that are compared: what rises is least where a part begins, as the look before that saw it.

        The same twice where it is too early for that.
        """
        rise = self.rise([self._looks])
        return (self.now, self.now) if rise is None else (_seconds(rise.before), _seconds(rise.after))

    def move(self, now: float) -> None:
        """Go on to a moment."""
        self.now = max(now, self.now)
        while self.parts >= BUCKETS:
            self.part_seconds *= 2
            for series in chain((self._looks,), self.series.values(), self.totals.values()):
                series.halve()
        self._looks.note(self.parts, _moment(self.now))

    def note(self, kind: Kind, before: Amount, now: Amount) -> None:
        """A group has changed."""
        self._note(self.series, kind, before, now)

    def note_total(self, place: Place, before: Amount, now: Amount) -> None:
        """So has what there is of one shape, dtype and device in all."""
        self._note(self.totals, place, before, now)

    def _note(self, kept: dict[_Key, Series], key: _Key, before: Amount, now: Amount) -> None:
        series = kept.get(key)
        if series is None:
            series = kept[key] = Series(before)
        series.note(self.parts, now)

    def grew(self) -> Iterator[Kind]:
        """The groups of which there is more in the last part compared than in the first."""
        parts, size = self.parts, self.size
        first = parts - PARTS * size
        if size:
            yield from (kind for kind, series in self.series.items() if series.grew(first, parts, size))

    def rise(self, series: Sequence[Series]) -> Rise | None:
        """What became of groups, taken as one; None where they did not grow, or it is too early to say."""
        parts, size = self.parts, self.size
        if size < 1:
            return None
        counts, sizes = series[0].minima(parts)
        for one in series[1:]:
            more, larger = one.minima(parts)
            counts, sizes = list(map(add, counts, more)), list(map(add, sizes, larger))
        first = parts - PARTS * size
        least = [Amount(*pair) for pair in zip(_least(counts[first:], size), _least(sizes[first:], size), strict=True)]
        before, after = least[0], least[-1]
        if after.tensors <= before.tensors and after.bytes <= before.bytes:
            return None
        steady = all(two.tensors > one.tensors for one, two in pairwise(least))
        once = sum(two.tensors > one.tensors or two.bytes > one.bytes for one, two in pairwise(least)) < 2
        trend = counts if after.bytes == before.bytes else sizes
        return Rise(Amount(counts[0], sizes[0]), before, after, steady, once, tuple(trend))


def _moment(at: float) -> Amount:
    """A moment, to be kept as the amounts are."""
    return Amount(round(at * 1e6), 0)


def _seconds(moment: Amount) -> float:
    return moment.tensors / 1e6


def _least(values: list[int], size: int) -> Iterator[int]:
    return (min(values[start : start + size]) for start in range(0, len(values), size))
