"""What grows: groups of tensors that become more with time, told by what they are, never by their ids or addresses.

In a training loop nearly everything comes and goes with each step. What grows is what does not go back: the least that
there was of a group, over each of several parts of the time, rises from part to part.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple

from tensortui.analysis.changes import unlike
from tensortui.analysis.grouping import NO_HOLDER, holder_of, without_line
from tensortui.model import LIVE, Sample, Tensor

BUCKETS = 64  # parts of time that are remembered; where there are more, two become one
PARTS = 4  # parts of the time in which the least has to rise
NEWEST = 3  # tensors of a group that are remembered by id
MOST_GROUPS = 20_000  # more of them are not followed
_NUMBER = re.compile(r"\d+")


class Kind(NamedTuple):
    """What the tensors of a group have in common. `name` is that of the first with its numbers left out."""

    name: str
    holder: str
    category: str
    shape: tuple[int, ...] | None
    dtype: str | None
    device: str | None


@dataclass(frozen=True, slots=True)
class Grown:
    """One group over the time compared. Counts and bytes are the least in its first and in its last part, less what
    there was when the source was first looked at.

    `bytes` are apparent ones (elements times their size), so that a group of views grows too. Per step is None where
    the program's steps are not known.
    """

    kind: Kind
    seconds: float
    count_before: int
    count: int
    bytes_before: int
    bytes: int
    steps: int | None
    tensors: tuple[int, ...]  # some of the newest

    @property
    def count_per_second(self) -> float:
        """How many more there are each second."""
        return (self.count - self.count_before) / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """How many bytes more they have each second."""
        return (self.bytes - self.bytes_before) / self.seconds

    @property
    def count_per_step(self) -> float | None:
        """How many more there are with each step of the optimizer."""
        return None if not self.steps else (self.count - self.count_before) / self.steps

    @property
    def bytes_per_step(self) -> float | None:
        """How many bytes more they have with each step of the optimizer."""
        return None if not self.steps else (self.bytes - self.bytes_before) / self.steps


class _Series:
    """One group: what more there is than at first, and the least of that in each part of time in which it changed."""

    __slots__ = ("bytes", "count", "last", "least", "newest")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.last = (0, 0)  # count and bytes at the sample before
        self.least: dict[int, tuple[int, int, int, int]] = {}  # by part: least count and bytes, and those at its end
        self.newest: deque[int] = deque(maxlen=NEWEST)

    def note(self, part: int) -> None:
        """Take the state at a moment in `part` into account, and that before it: it lasted until now."""
        now = (self.count, self.bytes)
        low = [pair for pair in (now, self.last, self.least.get(part)) if pair is not None]
        self.least[part] = (min(pair[0] for pair in low), min(pair[1] for pair in low), *now)
        self.last = now

    def halve(self) -> None:
        """Make one part of two."""
        merged: dict[int, tuple[int, int, int, int]] = {}
        for part in sorted(self.least):
            one = self.least[part]
            other = merged.get(part // 2)
            if other is not None:
                one = (min(one[0], other[0]), min(one[1], other[1]), one[2], one[3])
            merged[part // 2] = one
        self.least = merged

    def minima(self, parts: int) -> list[tuple[int, int]]:
        """The least count and bytes of each part so far."""
        found = []
        now: tuple[int, ...] = (0, 0)
        for part in range(parts):
            known = self.least.get(part)
            if known is None:
                found.append((now[0], now[1]))
            else:
                found.append((known[0], known[1]))
                now = known[2:]
        return found


class Growth:
    """Follows a source: takes sample after sample, and works on what changed alone, not on what was there at first."""

    def __init__(self, seconds: float = 1.0) -> None:
        """Start with parts of time of so many seconds; they become longer with time."""
        self._seconds = seconds
        self._seq: int | None = None
        self._begun = 0.0
        self._now = 0.0
        self._tensors: Mapping[int, Tensor] = {}
        self._kinds: dict[int, Kind] = {}
        self._series: dict[Kind, _Series] = {}
        self._clock = _StepClock()

    @property
    def seconds(self) -> float:
        """For how long the source has been followed."""
        return self._now - self._begun

    def update(self, sample: Sample) -> None:
        """Move on to `sample`."""
        if sample.phase != LIVE:
            return
        if self._seq is None:
            self._begun = self._now = sample.taken_at
            self._seq, self._tensors = sample.seq, sample.tensors
            self._clock.look(sample, self._now)
            return
        self._now = max(sample.taken_at, self._begun)
        while self._part() >= BUCKETS:
            self._seconds *= 2
            for series in self._series.values():
                series.halve()
        if sample.change.since == self._seq:
            change = sample.change
            touched: Iterable[int] = chain(change.new, change.changed, change.gone)
        else:
            touched = unlike(self._tensors, sample.tensors)
        dirty: set[Kind] = set()
        for number in touched:
            self._move(number, sample.tensors.get(number), dirty)
        part = self._part()
        for kind in dirty:
            self._series[kind].note(part)
        self._clock.look(sample, self._now)
        self._seq, self._tensors = sample.seq, sample.tensors

    def _part(self) -> int:
        return int(self.seconds / self._seconds)

    def _move(self, number: int, tensor: Tensor | None, dirty: set[Kind]) -> None:
        old = self._tensors.get(number)
        if old is not None:
            known = self._kinds.pop(number) if number in self._kinds else kind_of(old)
            self._count(known, -1, old, dirty)
        if tensor is not None:
            kind = self._kinds[number] = kind_of(tensor)
            series = self._count(kind, 1, tensor, dirty)
            if series is not None and number not in series.newest:
                series.newest.append(number)

    def _count(self, kind: Kind, step: int, tensor: Tensor, dirty: set[Kind]) -> _Series | None:
        series = self._series.get(kind)
        if series is None:
            if len(self._series) >= MOST_GROUPS:
                return None
            series = self._series[kind] = _Series()
        series.count += step
        series.bytes += step * (tensor.bytes or 0)
        dirty.add(kind)
        return series

    def grown(self, least: int = 8) -> list[Grown]:
        """The groups that grow, the most bytes a second first: those of which there are `least` more at the end."""
        parts = self._part()  # the one under way may not have seen its least yet,
        size = (parts - 1) // PARTS  # and nobody knows what there was before the first
        if size < 1:
            return []
        found = [grown for kind in self._series if (grown := self._judge(kind, parts, size, least)) is not None]
        return sorted(found, key=lambda one: (-one.bytes_per_second, -one.count_per_second, one.kind.name))

    def _judge(self, kind: Kind, parts: int, size: int, least: int) -> Grown | None:
        series = self._series[kind]
        if series.count < least:
            return None
        minima = series.minima(parts)[parts - PARTS * size :]
        counts = [min(one for one, _ in group) for group in _split(minima, size)]
        if any(after <= before for before, after in pairwise(counts)):
            return None
        if counts[-1] - counts[0] < least:
            return None
        sizes = [min(one for _, one in group) for group in _split(minima, size)]
        seconds = (PARTS - 1) * size * self._seconds
        return Grown(
            kind, seconds, counts[0], counts[-1], sizes[0], sizes[-1], self._clock.steps(seconds), tuple(series.newest)
        )


class _StepClock:
    """Counts the steps of the program: by the version of the optimizer's own counter, else by that of a parameter."""

    def __init__(self) -> None:
        self._tensor: int | None = None
        self._seen: deque[tuple[float, int]] = deque(maxlen=2 * BUCKETS)  # when it had which version

    def look(self, sample: Sample, now: float) -> None:
        tensor = sample.tensors.get(self._tensor) if self._tensor is not None else None
        if tensor is None:
            tensor = _counter(sample)
            self._seen.clear()
            self._tensor = None if tensor is None else tensor.id
        if tensor is None or tensor.version is None:
            return
        if not self._seen or self._seen[-1][1] != tensor.version:
            self._seen.append((now, tensor.version))

    def steps(self, seconds: float) -> int | None:
        """How many steps there were in so many seconds, from how they came so far; None where that is not known."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (begun, first), (ended, last) = self._seen[0], self._seen[-1]
        return round((last - first) / (ended - begun) * seconds) or None


def _counter(sample: Sample) -> Tensor | None:
    """The tensor whose version tells the steps."""
    best: Tensor | None = None
    for tensor in sample.tensors.values():
        if tensor.category == "optimizer" and tensor.names and tensor.names[0].startswith("step of "):
            return tensor
        if best is None and tensor.category == "parameter" and tensor.requires_grad:
            best = tensor
    return best


def kind_of(tensor: Tensor) -> Kind:
    """What a tensor is, apart from which one."""
    name = tensor.names[0] if tensor.names else ""
    path, at, frame = name.partition(" @ ")
    pattern = _NUMBER.sub("*", path) + at + without_line(frame)
    holder = _NUMBER.sub("*", holder_of(name)) if name else NO_HOLDER
    return Kind(pattern, holder, tensor.category, tensor.shape, tensor.dtype, tensor.device)


def _split(values: list[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    return (values[start : start + size] for start in range(0, len(values), size))
