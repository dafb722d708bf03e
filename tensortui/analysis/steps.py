"""The steps of a program, counted by what each of them changes in place."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping

from tensortui.model import Sample, Tensor

_MOST = 1024  # moments that are remembered; where there are more, every second one is dropped
_LATELY = 128  # of them
_PATIENCE = 2  # looks at a counter that has not risen yet


class StepClock:
    """Counts the steps of the program: by the version of the optimizer's own counter, else by that of a parameter.

    What the first sample says of a tensor may be old. So a counter counts from the second one on, which is the first
    for which it was watched; the rate after that tells what was before.

    A model that is not trained has parameters too. So a counter that stands still gives way to one that was seen to
    rise: only a few of those that are not watched are read with each sample, but those that change come by in time.
    """

    def __init__(self) -> None:
        """Start without any."""
        self.tensor: int | None = None  # that tells the steps, if it is read with every sample
        self._own = False  # whether it is an optimizer's own counter
        self._still = 0  # looks since it was taken, or since it rose
        self._patience = _PATIENCE  # how many of them until another one may take its place
        self._tensors: Mapping[int, Tensor] = {}  # of the sample before
        self._begun: float | None = None  # when there first was one
        self._version: int | None = None  # as it was last read
        self._times: list[float] = []
        self._counts: list[float] = []  # of the steps by then, since any time
        self._lately: deque[tuple[float, float]] = deque(maxlen=_LATELY)

    def look(self, sample: Sample, now: float, touched: Iterable[int]) -> None:
        """Take a sample into account, in which some tensors have come, changed or gone."""
        before = self.tensor
        tensor = sample.tensors.get(before) if before is not None else None
        tensor = _counter(sample.tensors.values()) if tensor is None else self._better(tensor, sample, touched)
        self._tensors = sample.tensors
        if tensor is None or tensor.version is None:
            self.tensor = self._version = None
            return
        self.tensor, self._own = tensor.id, _is_own(tensor)
        if self._begun is None:
            self._begun = now
        if tensor.id != before:
            self._version, self._still, self._patience = None, 0, _PATIENCE
            return
        count = self._counts[-1] if self._counts else 0.0
        self._still += 1
        if self._version is not None:
            count += max(tensor.version - self._version, 0)
            if tensor.version > self._version:
                self._still, self._patience = 0, _LATELY
        elif self._times:
            count += (self.per_second or 0.0) * (now - self._times[-1])  # while nothing counted
        self._version = tensor.version
        self._note(now, count)

    def _better(self, tensor: Tensor, sample: Sample, touched: Iterable[int]) -> Tensor:
        """The counter, or another: the optimizer's own for a parameter, one that rises for one that stands still."""
        moving = [
            one
            for tid in touched
            if (one := sample.tensors.get(tid)) is not None and _moves(self._tensors.get(tid), one)
        ]
        own = [one for one in moving if _is_own(one)]
        stands = self._still >= self._patience and not any(one.id == tensor.id for one in moving)
        if not moving or not (stands or (own and not self._own)):
            return tensor
        if stands and self._counts and self._counts[0] == self._counts[-1]:
            self._times, self._counts = [], []  # what stood still from the beginning told nothing of the steps
            self._lately.clear()
        return min(own or moving, key=lambda one: one.id)

    def _note(self, now: float, count: float) -> None:
        self._lately.append((now, count))
        self._times.append(now)
        self._counts.append(count)
        if len(self._times) > _MOST:
            del self._times[1:-1:2], self._counts[1:-1:2]

    @property
    def per_second(self) -> float | None:
        """Steps a second, as they came lately; None where that is not known."""
        if len(self._lately) < 2 or self._lately[-1][0] <= self._lately[0][0]:
            return None
        (begun, first), (ended, last) = self._lately[0], self._lately[-1]
        return (last - first) / (ended - begun) or None

    def steps(self, begun: float, ended: float) -> int | None:
        """How many steps there were between two moments; None where that is not known."""
        if len(self._times) < 2:
            return None
        return round(self._at(ended) - self._at(begun)) or None

    def _at(self, moment: float) -> float:
        """The count at a moment: between two others it lies between theirs."""
        assert self._begun is not None
        moment = max(moment, self._begun)
        after = min(max(bisect_right(self._times, moment), 1), len(self._times) - 1)
        (begun, ended), (first, last) = self._times[after - 1 : after + 1], self._counts[after - 1 : after + 1]
        return first + (last - first) * (moment - begun) / (ended - begun) if ended > begun else last


def _is_own(tensor: Tensor) -> bool:
    return tensor.category == "optimizer" and bool(tensor.names) and tensor.names[0].startswith("step of ")


def _moves(before: Tensor | None, now: Tensor) -> bool:
    """Whether it tells of a step since the sample before: an optimizer's own counter does so when it comes, too."""
    own = _is_own(now)
    if before is None or (own and not _is_own(before)):
        return own
    if not own and not (now.category == "parameter" and now.requires_grad):
        return False
    return now.version is not None and before.version is not None and now.version > before.version


def _counter(tensors: Iterable[Tensor]) -> Tensor | None:
    """The tensor whose version tells the steps: the first that fits best."""
    best: Tensor | None = None
    for tensor in tensors:
        if _is_own(tensor):
            return tensor
        if best is None and tensor.category == "parameter" and tensor.requires_grad:
            best = tensor
    return best
