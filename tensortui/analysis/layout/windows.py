"""A window on a tensor: the elements of two of its dimensions, each with where it lies and when memory comes to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensortui.analysis.layout.place import LayoutError, Place


@dataclass(frozen=True, slots=True)
class Window:
    """What of a tensor is looked at: rows of dimension `down`, columns of `across`, the others fixed at `index`.

    A dimension is None where the tensor has fewer than two. `top` and `left` are the first row and column.
    """

    down: int | None
    across: int | None
    index: tuple[int, ...]
    top: int
    left: int
    offsets: tuple[tuple[int, ...], ...]
    walk: tuple[tuple[int, ...], ...]

    @property
    def height(self) -> int:
        """Rows."""
        return len(self.offsets)

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.offsets[0]) if self.offsets else 0

    def at(self, row: int, column: int) -> tuple[int, ...]:
        """The index of the element in a row and column of the window."""
        index = list(self.index)
        if self.down is not None:
            index[self.down] = self.top + row
        if self.across is not None:
            index[self.across] = self.left + column
        return tuple(index)


def last_two(dims: int) -> tuple[int | None, int | None]:
    """The dimensions that are looked at where none were chosen: the last two."""
    return (dims - 2 if dims > 1 else None, dims - 1 if dims else None)


def window(
    place: Place,
    height: int,
    width: int,
    *,
    dims: tuple[int | None, int | None] | None = None,
    index: Sequence[int] = (),
    top: int = 0,
    left: int = 0,
) -> Window:
    """At most `height` by `width` elements from (`top`, `left`) on, which is moved to where the window is full.

    It costs what it shows, whatever the tensor's size. `offsets` are in elements of the storage; `walk` numbers the
    shown elements from 0 in the order of their addresses: two of one number are the same memory.
    """
    count = len(place.shape)
    down, across = last_two(count) if dims is None else dims
    for dim in (down, across):
        if dim is not None and not 0 <= dim < count:
            raise LayoutError(f"there is no dim {dim}: the tensor has {count}")
    if down is not None and down == across:
        raise LayoutError("rows and columns are two different dimensions")
    fixed = [min(max(at, 0), max(size - 1, 0)) for at, size in zip([*index, *[0] * count], place.shape, strict=False)]
    top, rows = _part(place, down, top, height)
    left, columns = _part(place, across, left, width)
    for dim, first in ((down, top), (across, left)):
        if dim is not None:
            fixed[dim] = first
    start = place.offset + sum(at * stride for at, stride in zip(fixed, place.strides, strict=True))
    if 0 in place.shape:
        return Window(down, across, tuple(fixed), top, left, (), ())
    step_down = place.strides[down] if down is not None else 0
    step_across = place.strides[across] if across is not None else 0
    offsets = tuple(tuple(start + r * step_down + c * step_across for c in range(columns)) for r in range(rows))
    ranks = {offset: rank for rank, offset in enumerate(sorted({offset for row in offsets for offset in row}))}
    walk = tuple(tuple(ranks[offset] for offset in row) for row in offsets)
    return Window(down, across, tuple(fixed), top, left, offsets, walk)


def _part(place: Place, dim: int | None, first: int, most: int) -> tuple[int, int]:
    """From where on, and how many, of a dimension."""
    size = 1 if dim is None else place.shape[dim]
    shown = min(size, max(most, 0))
    return min(max(first, 0), size - shown), shown
