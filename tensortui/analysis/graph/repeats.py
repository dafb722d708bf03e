"""Repetition in a sequence: which stretch is the same few things over and over."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

LEAST_COUNT = 3  # times
LEAST_HIDDEN = 4  # things that need not be shown then
_CANDIDATES = 24  # of the next places with the same thing, as periods
_LONGEST = 512  # period
_CELL = array("q").itemsize


class Repeat(NamedTuple):
    """`times` the same `period` things, from `start` on."""

    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        """Where it is over."""
        return self.start + self.period * self.times


def repeats(things: Sequence[int]) -> list[Repeat]:
    """The repetitions in `things`, in order and apart from each other; those within the first period follow theirs."""
    packed = array("q", things).tobytes()
    places: dict[int, list[int]] = {}
    rank = []
    for at, thing in enumerate(things):
        found = places.setdefault(thing, [])
        rank.append(len(found))
        found.append(at)
    out: list[Repeat] = []
    waiting = [(0, len(things))]
    while waiting:
        at, end = waiting.pop()
        while at < end:
            nexts = places[things[at]][rank[at] + 1 : rank[at] + 1 + _CANDIDATES]
            best = _best(packed, at, end, [one - at for one in nexts])
            if best is None:
                at += 1
                continue
            out.append(best)
            if best.period > LEAST_HIDDEN:
                waiting.append((best.start, best.start + best.period))
            at = best.end
    return sorted(out, key=lambda one: (one.start, -one.period))


def _best(packed: bytes, at: int, end: int, periods: Sequence[int]) -> Repeat | None:
    """The repetition at a place that covers most; of two that cover the same the one with the shorter period."""
    best: Repeat | None = None
    for period in periods:
        if period > _LONGEST or at + LEAST_COUNT * period > end:
            break
        first = packed[at * _CELL : (at + period) * _CELL]
        count = 1
        while (
            at + (count + 1) * period <= end
            and packed[(at + count * period) * _CELL : (at + (count + 1) * period) * _CELL] == first
        ):
            count += 1
        if count < LEAST_COUNT or (count - 1) * period < LEAST_HIDDEN:
            continue
        if best is None or count * period > best.times * best.period:
            best = Repeat(at, period, count)
    return best
