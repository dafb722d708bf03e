"""Whether a tensor can be seen in another shape without a copy, and if not, which dimensions stand in the way."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensortui.analysis.layout.place import LayoutError
from tensortui.analysis.units import format_many
from tensortui.model.strided import dense_strides


class MergeError(LayoutError):
    """A dimension of the new shape would reach over two dimensions that do not lie one inside the other."""


def wanted_shape(sizes: Sequence[int], numel: int) -> tuple[int, ...]:
    """A shape with its -1 filled in."""
    text = list(sizes)
    unknown = [at for at, size in enumerate(sizes) if size == -1]
    if len(unknown) > 1:
        raise LayoutError(f"only one dimension of {text} can be -1")
    if any(size < -1 for size in sizes):
        raise LayoutError(f"a size in {text} is negative")
    known = math.prod(size for size in sizes if size != -1)
    if not unknown:
        if known != numel:
            raise LayoutError(f"{text} has {format_many(known, 'element')}, the tensor has {numel:,}")
        return tuple(sizes)
    if not known:
        why = "the tensor is empty" if not numel else f"the tensor has {format_many(numel, 'element')}, not 0"
        raise LayoutError(f"-1 in {text} could be any size" if not numel else f"{text} has no element: {why}")
    if numel % known:
        elements = format_many(numel, "element")
        raise LayoutError(f"{elements} cannot be divided by {known:,}, the product of the other sizes of {text}")
    return tuple(numel // known if size == -1 else size for size in sizes)


def view_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """The strides of `view(new)`; MergeError where there is no such view. The numbers of elements are the same.

    From the last dimension on, those that lie one inside the other form a block; each block must be used up by whole
    dimensions of the new shape.
    """
    if not shape:
        return (1,) * len(new)
    if 0 in shape:
        return tuple(strides) if tuple(shape) == tuple(new) else dense_strides(new)
    out = [0] * len(new)
    at = len(new) - 1
    step, block, used = strides[-1], 1, 1
    for dim in range(len(shape) - 1, -1, -1):
        block *= shape[dim]
        if dim and (shape[dim - 1] == 1 or strides[dim - 1] == block * step):
            continue
        while at >= 0 and (used < block or new[at] == 1):
            out[at] = used * step
            used *= new[at]
            at -= 1
        if used != block:
            raise MergeError(_why(shape, strides, dim, step * block, new[at + 1]))
        if dim:
            step, block, used = strides[dim - 1], 1, 1
    return tuple(out)


def _why(shape: Sequence[int], strides: Sequence[int], dim: int, inside: int, size: int) -> str:
    outer = dim - 1
    if shape[dim] == 1:
        return f"dim {outer} cannot merge with those after it into {size}: stride {strides[outer]}, not {inside}"
    product = f"{shape[dim]}*{strides[dim]}"
    return f"dims {outer}, {dim} cannot merge into {size}: stride {strides[outer]}, not {product}"
