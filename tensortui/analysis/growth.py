"""What grows: groups of tensors that become more with time, told by what they are, never by their ids or addresses."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tensortui.analysis.changes import unlike
from tensortui.analysis.deepening import Deepening, Deeper, Depth
from tensortui.analysis.kinds import Kind, Place, alike, kind_of
from tensortui.analysis.steps import StepClock
from tensortui.analysis.windows import Amount, Rise, Window
from tensortui.model import LIVE, Sample, Tensor
from tensortui.wire.messages import NOT_YET

NEWEST = 3  # tensors of a group that are remembered by id
MOST_GROUPS = 20_000  # more of them are not followed
MOST_ROWS = 500  # of those that grew, the largest
MOST_SHAPES = 3  # of what has one name are told one by one


@dataclass(frozen=True, slots=True)
class Grown:
    """One group over the time compared: the least that there was of it in the first part and in the last.

    `bytes` are apparent ones (elements times their size), so that a group of views grows too. Per step is None where
    the program's steps are not known. A list of tensors of many shapes is one group, whose kind has no shape. Tensors
    without a name that had one before, or will have one soon, are not new: they count from the first.
    """

    kind: Kind
    seconds: float
    count_before: int
    count: int
    bytes_before: int
    bytes: int
    steps: int | None
    tensors: tuple[int, ...]  # some of the newest
    start: Amount  # the least there was at the beginning of the window
    now: Amount
    steady: bool  # there is more in each part of the time than in the one before
    once: bool  # there is more in one part than in the one before, and never else
    trend: tuple[int, ...]  # over the window: bytes, or tensors where the bytes stay
    shapes: int  # how many shapes its tensors have
    in_all: Amount | None = None  # of no name: how much more there is of its shape, dtype and device, named or not

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


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a window shows so far: `rows` is None where it is too early to say."""

    begun: float
    now: float
    patience: float  # seconds after which there is something to say
    rows: tuple[Grown, ...] | None = None
    others: int = 0  # groups that grew too, the smaller ones
    once: int = 0  # groups that rose once, as the first step of a program does, and are no rows
    changed: int = 0  # groups of which something came or went
    steps_per_second: float | None = None
    deepest: Depth | None = None  # graph of the newest sample


_UNKNOWN = Amount(-1, -1)


class _Total:
    """How much there is now of one shape, dtype and device."""

    __slots__ = ("bytes", "count", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.count = self.bytes = 0

    @property
    def size(self) -> Amount:
        return Amount(self.count, self.bytes)

    def add(self, step: int, tensor: Tensor) -> None:
        self.count += step
        self.bytes += step * (tensor.bytes or 0)

    def begin(self, now: Amount) -> Amount:
        """Take what there is now; gives what there was before that which was added until now."""
        before = Amount(now.tensors - self.count, now.bytes - self.bytes)
        self.count, self.bytes = now
        return before


class _Group(_Total):
    """One kind: how much there is of it now, and its newest tensors."""

    __slots__ = ("kind", "newest", "total")

    def __init__(self, kind: Kind, total: _Total) -> None:
        super().__init__(total.place)
        self.kind = kind
        self.total = total  # of all kinds with its place
        self.newest: deque[int] = deque(maxlen=NEWEST)


class _Before:
    """What there was before a sample of that of which something comes or goes with it."""

    def __init__(self) -> None:
        self.kinds: dict[Kind, Amount] = {}
        self.totals: dict[_Total, Amount] = {}


class Growth:
    """Follows a source: takes sample after sample, and works on what changed alone, not on what was there at first."""

    def __init__(self, seconds: float = 1.0) -> None:
        """Start with parts of time of so many seconds; they become longer with time."""
        self._seconds = seconds
        self._seq: int | None = None
        self._tensors: Mapping[int, Tensor] = {}
        self._kinds: dict[int, Kind] = {}  # of tensors that have come or changed
        self._groups: dict[Kind, _Group] = {}  # those of which something came or went
        self._totals: dict[Place, _Total] = {}  # of their places
        self._whole = Window(0.0, seconds)
        self._deepening = Deepening(0.0, seconds)
        self._marked: Window | None = None
        self._clock = StepClock()
        self._rows: list[Grown] | None = None  # what grew in the whole window, once it was asked for

    @property
    def seconds(self) -> float:
        """For how long the source has been followed."""
        return self._whole.seconds

    @property
    def counter(self) -> int | None:
        """The tensor that tells the steps of the program; None where there is none."""
        return self._clock.tensor

    def mark(self) -> None:
        """Begin a second window, at the newest sample."""
        self._marked = Window(self._whole.now, self._seconds) if self._seq is not None else None

    def unmark(self) -> None:
        """End the second window."""
        self._marked = None

    def update(self, sample: Sample) -> None:
        """Move on to `sample`."""
        if sample.phase != LIVE:
            return
        self._rows = None
        if self._seq is None and NOT_YET in sample.coverage.reasons:
            return  # what gets its name with the next sample would be taken for new
        if self._seq is None:
            self._whole = Window(sample.taken_at, self._seconds)
            self._deepening = Deepening(sample.taken_at, self._seconds)
            self._deepening.update(sample)
            self._clock.look(sample, sample.taken_at, ())
            self._seq, self._tensors = sample.seq, sample.tensors
            return
        windows = [window for window in (self._whole, self._marked) if window is not None]
        for window in windows:
            window.move(sample.taken_at)
        if sample.change.since == self._seq:
            change = sample.change
            touched = [*change.new, *change.changed, *change.gone]
        else:
            touched = unlike(self._tensors, sample.tensors)
        before = _Before()
        if len(self._groups) >= MOST_GROUPS:
            self._forget()
        for number in touched:
            self._move(number, sample.tensors.get(number), before)
        self._find(before, sample)
        for window in windows:
            for kind, size in before.kinds.items():
                window.note(kind, size, self._groups[kind].size)
            for total, size in before.totals.items():
                window.note_total(total.place, size, total.size)
        self._deepening.update(sample)
        self._clock.look(sample, self._whole.now, touched)
        self._seq, self._tensors = sample.seq, sample.tensors

    def _move(self, number: int, tensor: Tensor | None, before: _Before) -> None:
        old = self._tensors.get(number)
        if old is not None:
            if tensor is not None and alike(old, tensor):
                return
            known = self._kinds.pop(number) if number in self._kinds else kind_of(old)
            self._count(known, -1, old, before)
        if tensor is not None:
            group = self._count(kind := kind_of(tensor), 1, tensor, before)
            self._kinds[number] = kind if group is None else group.kind  # one object for all of a kind
            if group is not None and number not in group.newest:
                group.newest.append(number)

    def _count(self, kind: Kind, step: int, tensor: Tensor, before: _Before) -> _Group | None:
        group = self._groups.get(kind)
        if group is None and len(self._groups) < MOST_GROUPS:
            place = kind.place
            if place not in self._totals:
                self._totals[place] = _Total(place)
                before.totals[self._totals[place]] = _UNKNOWN
            group = self._groups[kind] = _Group(kind, self._totals[place])
            before.kinds[kind] = _UNKNOWN
        total = group.total if group is not None else self._totals.get(kind.place)
        if total is not None:
            if total not in before.totals:
                before.totals[total] = total.size
            total.add(step, tensor)
        if group is not None:
            if kind not in before.kinds:
                before.kinds[kind] = group.size
            group.add(step, tensor)
        return group

    def _find(self, before: _Before, sample: Sample) -> None:
        """Count all tensors of the groups that are followed from now on; what came and went tells what there was."""
        kinds = {kind: Amount(0, 0) for kind, size in before.kinds.items() if size is _UNKNOWN}
        if not kinds:
            return
        totals = {total.place: Amount(0, 0) for total, size in before.totals.items() if size is _UNKNOWN}
        places = {kind.place for kind in kinds}
        categories = {kind[2:] for kind in kinds}
        for tensor in sample.tensors.values():
            if (place := (tensor.shape, tensor.dtype, tensor.device)) not in places:
                continue
            if place in totals:
                totals[place] = totals[place].plus(tensor.bytes)
            if (tensor.category, *place) in categories:
                size = kinds.get(kind := self._kinds.get(tensor.id) or kind_of(tensor))
                if size is not None:
                    kinds[kind] = size.plus(tensor.bytes)
        before.kinds.update((kind, self._groups[kind].begin(size)) for kind, size in kinds.items())
        for place, size in totals.items():
            before.totals[self._totals[place]] = self._totals[place].begin(size)

    def _forget(self) -> None:
        """Make room: of some groups nothing is left."""
        windows = [window for window in (self._whole, self._marked) if window is not None]
        for kind in [kind for kind, group in self._groups.items() if not group.count]:
            del self._groups[kind]
            for window in windows:
                window.series.pop(kind, None)
        for place in [place for place, total in self._totals.items() if not total.count]:
            del self._totals[place]
            for window in windows:
                window.totals.pop(place, None)

    def grown(self, least: int = 8) -> list[Grown]:
        """The groups that grow, the most bytes a second first: those of which there are `least` more at the end."""
        if self._rows is None:
            self._rows = self._judge(self._whole)
        return [
            row
            for row in self._rows
            if row.steady and row.count - row.count_before >= least and row.now.tensors - row.start.tensors >= least
        ]

    def deeper(self) -> list[Deeper]:
        """The graphs that become deeper, the deepest first."""
        return self._deepening.deeper(self._clock)

    def since_start(self) -> Comparison:
        """What grew since the source was first looked at, and more than once."""
        if self._rows is None:
            self._rows = self._judge(self._whole)
        rows = [row for row in self._rows if not row.once]
        return self._compare(self._whole, rows, len(self._rows) - len(rows))

    def since_mark(self) -> Comparison | None:
        """What grew since the mark; None where there is none."""
        return None if self._marked is None else self._compare(self._marked, self._judge(self._marked))

    def _compare(self, window: Window, rows: list[Grown], once: int = 0) -> Comparison:
        told = tuple(rows[:MOST_ROWS]) if window.size else None
        rate = self._clock.per_second
        return Comparison(
            window.begun, window.now, window.patience, told, len(rows[MOST_ROWS:]), once, len(window.series), rate,
            self._deepening.deepest(),
        )  # fmt: skip

    def _judge(self, window: Window) -> list[Grown]:
        """All that is more at the end of a window: what rises all the time first, then the most bytes a second.

        Tensors that differ in their shapes alone are looked at as one where many of these groups grow, or none of them
        steadily: a list of results of many lengths holds few of each.
        """
        found = []
        families: dict[Kind, list[Kind]] = {}
        for kind in window.grew():
            families.setdefault(kind._replace(shape=None), []).append(kind)
        for family, kinds in families.items():
            rows: list[Grown] = []
            if len(kinds) <= MOST_SHAPES or not family.name:
                rows = self._rows_of(window, kinds)
            if len(kinds) > 1 and family.name and not any(row.steady for row in rows):
                together = self._row(window, family, kinds)
                rows = [together] if together is not None and together.steady else rows or self._rows_of(window, kinds)
            found += rows
        return sorted(
            found, key=lambda one: (not one.steady, -one.bytes_per_second, -one.count_per_second, one.kind.name)
        )

    def _rows_of(self, window: Window, kinds: Iterable[Kind]) -> list[Grown]:
        return [row for kind in kinds if (row := self._row(window, kind, [kind])) is not None]

    def _row(self, window: Window, kind: Kind, kinds: Sequence[Kind]) -> Grown | None:
        rise = window.rise([window.series[one] for one in kinds])
        if rise is None:
            return None
        groups = [self._groups[one] for one in kinds]
        newest = sorted(chain.from_iterable(group.newest for group in groups))[-NEWEST:]
        now = Amount(sum(group.count for group in groups), sum(group.bytes for group in groups))
        in_all = None
        if not kind.name and kind.place in window.totals:
            total = window.rise([window.totals[kind.place]])
            if total is None:
                return None
            in_all = total.after.more(total.before)
            rise = _without_renamed(rise, now, total, self._totals[kind.place].size)
        if now.tensors <= rise.start.tensors and now.bytes <= rise.start.bytes:
            return None  # it has gone back by now
        before, after, (begun, ended) = rise.before, rise.after, window.compared
        return Grown(
            kind,
            ended - begun,
            before.tensors,
            after.tensors,
            before.bytes,
            after.bytes,
            self._clock.steps(begun, ended),
            tuple(newest),
            rise.start,
            now,
            rise.steady,
            rise.once,
            rise.trend,
            len(kinds),
            in_all,
        )


def _without_renamed(rise: Rise, now: Amount, total: Rise, total_now: Amount) -> Rise:
    """What became of a group without names, apart from tensors that had one before, or will have one soon.

    One group is less by as many as the other is more of those, so what is new is more in the total.
    """
    return rise._replace(
        start=rise.start.at_least(now.less(total_now.more(total.start))),
        before=rise.before.at_least(rise.after.less(total.after.more(total.before))),
        steady=rise.steady and total.steady,
        once=rise.once or total.once,
    )


def youngest(row: Grown, sample: Sample) -> Tensor | None:
    """The newest tensor of a group that is in `sample`; None where none is left."""
    for number in reversed(row.tensors):
        if number in sample.tensors:
            return sample.tensors[number]
    kind = row.kind
    start = re.split(r"\*| @ ", kind.name, maxsplit=1)[0]  # cheap to look for in names
    likely = [
        tensor
        for tensor in sample.tensors.values()
        if (tensor.category, tensor.dtype, tensor.device) == (kind.category, kind.dtype, kind.device)
        and (row.shapes > 1 or tensor.shape == kind.shape)
        and (tensor.names[0].startswith(start) if tensor.names else not kind.name)
    ]
    likely.sort(key=lambda tensor: -tensor.id)
    return next((tensor for tensor in likely if kind_of(tensor)._replace(shape=kind.shape) == kind), None)
