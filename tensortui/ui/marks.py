"""What the table marks for a moment: tensors that are new, read otherwise, or have gone since the sample before."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensortui.model import Change, Sample, Tensor

MARK_SECONDS = 2.0


class Marks:
    """The marks of the newest sample."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without any; `clock` says when their moment is over."""
        self._clock = clock
        self._news: Change | None = None
        self._before: Mapping[int, Tensor] = {}  # the tensors of the sample before
        self._until = 0.0

    def begin(self, news: Change | None, before: Sample | None) -> None:
        """Mark what `news` says has changed since the sample `before`."""
        self._news, self._until = news, self._clock() + MARK_SECONDS
        self._before = before.tensors if before is not None else {}

    def expire(self) -> bool:
        """Take the marks off when their moment is over; whether there were any to be taken off."""
        if self._news is None or self._clock() < self._until:
            return False
        self._news, self._before = None, {}
        return True

    def of(self, tensor: Tensor | None) -> str:
        """ "new", "changed", "gone", or "" for a tensor without a mark."""
        news = self._news
        if news is None or tensor is None:
            return ""
        if tensor.id in news.gone or tensor.id in news.new:
            return "gone" if tensor.id in news.gone else "new"
        if tensor.id not in news.changed:
            return ""
        # An optimizer step changes every parameter in place: a mark at each would tell nothing that `ver` does not.
        old = self._before.get(tensor.id)
        return "changed" if old is None or _read(old) != _read(tensor) else ""


def _read(tensor: Tensor) -> tuple[object, ...]:
    """What a line of the table says of a tensor, but for the count of in-place changes."""
    place = (tensor.storage, tensor.shape, tensor.strides, tensor.offset, tensor.dtype)
    return (*place, tensor.names, tensor.category, tensor.grad_fn)
