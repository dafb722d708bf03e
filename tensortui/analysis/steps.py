"""The steps of a program, counted by what each of them changes in place."""

from __future__ import annotations

from collections import deque

from tensortui.model import Sample, Tensor

_MOST = 128  # moments that are remembered


class StepClock:
    """Counts the steps of the program: by the version of the optimizer's own counter, else by that of a parameter."""

    def __init__(self) -> None:
        """Start without any."""
        self._tensor: int | None = None
        self._seen: deque[tuple[float, int]] = deque(maxlen=_MOST)  # when it had which version

    def look(self, sample: Sample, now: float) -> None:
        """Take a sample into account."""
        tensor = sample.tensors.get(self._tensor) if self._tensor is not None else None
        if tensor is None:
            tensor = _counter(sample)
            self._seen.clear()
            self._tensor = None if tensor is None else tensor.id
        if tensor is None or tensor.version is None:
            return
        if not self._seen or self._seen[-1][1] != tensor.version:
            self._seen.append((now, tensor.version))

    @property
    def per_second(self) -> float | None:
        """Steps a second, as they came lately; None where that is not known."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (begun, first), (ended, last) = self._seen[0], self._seen[-1]
        return max(last - first, 0) / (ended - begun) or None

    def steps(self, seconds: float) -> int | None:
        """How many steps there were in so many seconds; None where that is not known."""
        rate = self.per_second
        return None if rate is None else round(rate * seconds) or None


def _counter(sample: Sample) -> Tensor | None:
    """The tensor whose version tells the steps."""
    best: Tensor | None = None
    for tensor in sample.tensors.values():
        if tensor.category == "optimizer" and tensor.names and tensor.names[0].startswith("step of "):
            return tensor
        if best is None and tensor.category == "parameter" and tensor.requires_grad:
            best = tensor
    return best
