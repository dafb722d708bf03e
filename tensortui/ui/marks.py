"""What the table marks for a moment: tensors that are new, read otherwise, or have gone since the sample before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from tensortui.analysis.grouping import without_line
from tensortui.model import Change, Sample, Tensor

MARK_SECONDS = 2.0
MOST_GONE = 8  # one in so many lines of the screen may show a tensor that has gone


class Marks:
    """The marks of the newest sample."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start without any; `clock` says when their moment is over."""
        self._clock = clock
        self._news: Change | None = None
        self._before: Mapping[int, Tensor] = {}  # the tensors of the sample before
        self._came: frozenset[int] = frozenset()  # what was new in that sample
        self._until = 0.0

    def begin(self, news: Change | None, before: Sample | None) -> None:
        """Mark what `news` says has changed since the sample `before`."""
        self._news, self._until = news, self._clock() + MARK_SECONDS
        self._before = before.tensors if before is not None else {}
        self._came = news.new if news is not None else frozenset()

    def expire(self) -> bool:
        """Take the marks off when their moment is over; whether there were any to be taken off."""
        if self._news is None or self._clock() < self._until:
            return False
        self._news, self._before = None, {}
        return True

    def leaving(self, shown: Iterable[Tensor], gone: Collection[int], held: int | None, lines: int) -> list[Tensor]:
        """Which of the tensors `shown` on so many lines keep their rows for a moment although they are `gone`.

        Always the one under the cursor, `held`. Of the others not those that a single sample showed: they come and go
        with every step of a training loop. Of what is left as many as leave the table readable, named and large first.
        """
        left = [tensor for tensor in shown if tensor.id in gone]
        kept = [tensor for tensor in left if tensor.id == held]
        others = [tensor for tensor in left if tensor.id != held and tensor.id not in self._came]
        others.sort(key=lambda tensor: (not tensor.names, -(tensor.bytes or 0)))
        return kept + others[: max(lines // MOST_GONE, 1) - len(kept)]

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
    """What a line of the table says of a tensor, but for what each step changes.

    That is the count of in-place changes, the line at which the function is that holds the tensor, and the names that
    other functions give it while they run.
    """
    place = (tensor.storage, tensor.shape, tensor.strides, tensor.offset, tensor.dtype)
    name = without_line(tensor.names[0]) if tensor.names else ""
    return (*place, name, tensor.category, tensor.grad_fn)
