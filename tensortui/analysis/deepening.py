"""Graphs that become deeper with time: what is carried from step to step drags all the steps before along.

Such a graph may hold next to nothing, so that no number or size of tensors tells of it. Its tensor is another one with
each step, and has no name yet in some samples; so what is followed is the longest path behind the tensors of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensortui.analysis.kinds import Kind, pattern_of
from tensortui.analysis.steps import StepClock
from tensortui.analysis.windows import Amount, Window
from tensortui.model import Sample, Tensor

MOST_KINDS = 1000  # more of them are not followed


@dataclass(frozen=True, slots=True)
class Depth:
    """How deep the graph behind tensors of one shape is, in nodes one behind the other, and how deep it was at first.

    `name` is that of such a tensor, its numbers left out; "" where none had one.
    """

    name: str
    tensor: int
    start: int
    now: int


@dataclass(frozen=True, slots=True)
class Deeper:
    """A graph that is deeper in each part of the time than in the one before.

    `before` and `after` are the least depth in the first part compared and in the last, `seconds` apart. `steps` is
    None where the program's steps are not known.
    """

    depth: Depth
    seconds: float
    steps: int | None
    before: int
    after: int
    trend: tuple[int, ...]


class Deepening:
    """Takes sample after sample."""

    def __init__(self, begun: float, seconds: float) -> None:
        """Begin at a moment, with parts of so many seconds."""
        self._window = Window(begun, seconds)
        self._names: dict[Kind, str] = {}
        self._now: dict[Kind, tuple[int, int]] = {}  # of the newest sample: the depth, and behind which tensor

    def update(self, sample: Sample) -> None:
        """Move on to `sample`."""
        window = self._window
        window.move(sample.taken_at)
        deepest: dict[Kind, tuple[int, Tensor]] = {}
        for number, depth in sample.depths.items():
            tensor = sample.tensors[number]
            kind = Kind("", "", "", tensor.shape, tensor.dtype, tensor.device)
            if depth > deepest.get(kind, (0, tensor))[0]:
                deepest[kind] = depth, tensor
        self._now = {}
        for kind, (depth, tensor) in deepest.items():
            series = window.series.get(kind)
            if series is None and len(window.series) >= MOST_KINDS:
                continue
            now = Amount(depth, 0)
            window.note(kind, now if series is None else series.last, now)
            self._now[kind] = depth, tensor.id
            if tensor.names:
                self._names[kind] = pattern_of(tensor.names[0])

    def deepest(self) -> Depth | None:
        """The deepest graph of the newest sample."""
        return max(map(self._depth, self._now), key=lambda one: one.now, default=None)

    def _depth(self, kind: Kind) -> Depth:
        now, tensor = self._now[kind]
        return Depth(self._names.get(kind, ""), tensor, self._window.series[kind].minima(1)[0][0], now)

    def deeper(self, clock: StepClock) -> list[Deeper]:
        """Those that became deeper all the time, the deepest first."""
        found = []
        for kind in self._now:
            rise = self._window.rise([self._window.series[kind]])
            if rise is not None and rise.steady:
                begun, ended = self._window.compared
                before, after = rise.before.tensors, rise.after.tensors
                found.append(
                    Deeper(self._depth(kind), ended - begun, clock.steps(begun, ended), before, after, rise.trend)
                )
        return sorted(found, key=lambda one: -one.depth.now)
