"""What PyTorch's shape operations would do to a tensor: which share its memory, which copy, and which refuse.

Each takes a place and the plain arguments, and raises LayoutError under the conditions under which PyTorch raises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tensortui.analysis.layout.outcome import Outcome, copy, same, view
from tensortui.analysis.layout.place import LayoutError, Place
from tensortui.analysis.layout.refusing import refuse_beyond
from tensortui.analysis.layout.reshaping import MergeError, view_strides, wanted_shape
from tensortui.analysis.units import format_many
from tensortui.model.strided import MEMORY_FORMATS, dense_strides, is_contiguous, kept_strides

Ints = tuple[int, ...]


def dim_of(dim: int, dims: int) -> int:
    """A dimension as a number from 0; a tensor without dimensions lets 0 and -1 pass."""
    most = max(dims, 1)
    if not -most <= dim < most:
        has = format_many(dims, "dimension")
        raise LayoutError(f"there is no dim {dim}: the tensor has {has}, -{most} to {most - 1}")
    return dim % most


def moved(place: Place, shape: Sequence[int], strides: Sequence[int]) -> Place:
    """The same bytes in another shape."""
    return replace(place, shape=tuple(shape), strides=tuple(strides))


def restrided(place: Place, shape: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Outcome:
    """A view that PyTorch makes by `as_strided`, which looks whether it lies inside the storage."""
    made = replace(moved(place, shape, strides), offset=place.offset if offset is None else offset)
    refuse_beyond(made)
    return view(made)


def fresh(place: Place, shape: Sequence[int], strides: Sequence[int], **more: str) -> Place:
    """New memory; a copy has nothing left to do when it is read."""
    return replace(place, shape=tuple(shape), strides=tuple(strides), offset=0, lazy=(), room=None, **more)


def format_strides(place: Place, memory_format: str) -> Ints:
    """The strides of a copy of a place in a memory format; what is quantised keeps none."""
    shape = place.shape
    if memory_format == "preserve" and not place.quantised:
        return kept_strides(shape, place.strides)
    if memory_format in ("contiguous", "preserve"):
        return dense_strides(shape)
    order = MEMORY_FORMATS.get(memory_format)
    if order is None:
        raise LayoutError(f"{memory_format} is no memory format: contiguous, channels_last or channels_last_3d")
    if len(shape) != len(order):
        raise LayoutError(f"{memory_format} is for {len(order)} dimensions, the tensor has {len(shape)}")
    return dense_strides(shape, order, least=0)


def contiguous(place: Place, memory_format: str = "contiguous") -> Outcome:
    """`contiguous(memory_format=...)`."""
    if memory_format == "preserve" and not place.contiguous:
        raise LayoutError("contiguous() keeps no format: that is what clone() and to() do")
    strides = format_strides(place, memory_format)
    if is_contiguous(place.shape, place.strides, MEMORY_FORMATS.get(memory_format)):
        return same(place, "it is that already")
    return copy(place, fresh(place, place.shape, strides))


def clone(place: Place, memory_format: str = "preserve") -> Outcome:
    """`clone(memory_format=...)`."""
    return copy(place, fresh(place, place.shape, format_strides(place, memory_format)))


def view_shape(place: Place, sizes: Ints) -> Outcome:
    """`view(sizes)`."""
    shape = wanted_shape(sizes, place.numel)
    return view(moved(place, shape, view_strides(place.shape, place.strides, shape)))


def reshape(place: Place, sizes: Ints) -> Outcome:
    """`reshape(sizes)`: a view where there is one, else a copy."""
    shape = wanted_shape(sizes, place.numel)
    try:
        return view(moved(place, shape, view_strides(place.shape, place.strides, shape)))
    except MergeError as error:
        return copy(place, fresh(place, shape, dense_strides(shape)), str(error))


def ravel(place: Place) -> Outcome:
    """`ravel()`: `contiguous().view(-1)`, so that it copies where `reshape(-1)` need not."""
    if place.contiguous:
        return view_shape(place, (-1,))
    return copy(place, fresh(place, (place.numel,), (1,)), "it is not contiguous")


def flatten(place: Place, start: int = 0, end: int = -1) -> Outcome:
    """`flatten(start, end)`."""
    dims = len(place.shape)
    first, last = dim_of(start, dims), dim_of(end, dims)
    if first > last:
        raise LayoutError(f"flatten ends at dim {last}, before it starts at dim {first}")
    if not dims:
        return reshape(place, (1,))
    if first == last:
        return same(place, f"dim {first} alone is flat already")
    inside = math.prod(place.shape[first : last + 1])
    return reshape(place, (*place.shape[:first], inside, *place.shape[last + 1 :]))


def unflatten(place: Place, dim: int, sizes: Ints) -> Outcome:
    """`unflatten(dim, sizes)`: one dimension split into several, always a view."""
    at = dim_of(dim, len(place.shape))
    if not place.shape:
        raise LayoutError("the tensor has no dimension to split")
    if not sizes:
        raise LayoutError("unflatten needs the sizes to split into")
    try:
        parts = wanted_shape(sizes, place.shape[at])
    except LayoutError as error:
        raise LayoutError(f"dim {at} of size {place.shape[at]} cannot be split: {error}") from None
    return view_shape(place, (*place.shape[:at], *parts, *place.shape[at + 1 :]))


def permute(place: Place, order: Ints) -> Outcome:
    """`permute(order)`."""
    dims = len(place.shape)
    if len(order) != dims:
        raise LayoutError(f"permute needs each of {format_many(dims, 'dimension')} once, {len(order)} given")
    plain = [dim_of(dim, dims) for dim in order]
    if len(set(plain)) != dims:
        raise LayoutError(f"permute needs each dimension once, {list(order)} repeats one")
    return restrided(place, [place.shape[dim] for dim in plain], [place.strides[dim] for dim in plain])


def transpose(place: Place, one: int, two: int) -> Outcome:
    """`transpose(one, two)`."""
    dims = len(place.shape)
    first, second = dim_of(one, dims), dim_of(two, dims)
    if first == second:
        return view(place)
    order = list(range(dims))
    order[first], order[second] = second, first
    return permute(place, tuple(order))


def t(place: Place) -> Outcome:
    """`t()`."""
    if len(place.shape) > 2:
        raise LayoutError(f"t() is for at most 2 dimensions, the tensor has {len(place.shape)}")
    return transpose(place, 0, len(place.shape) - 1) if place.shape else view(place)


def movedim(place: Place, source: Ints, target: Ints) -> Outcome:
    """`movedim(source, target)`."""
    dims = len(place.shape)
    if len(source) != len(target):
        raise LayoutError("movedim needs as many targets as sources")
    froms, tos = ([dim_of(dim, dims) for dim in each] for each in (source, target))
    if len(set(froms)) != len(froms) or len(set(tos)) != len(tos):
        raise LayoutError("movedim names a dimension twice")
    if not dims:
        return view(place)
    rest = iter(dim for dim in range(dims) if dim not in froms)
    order = [froms[tos.index(slot)] if slot in tos else next(rest) for slot in range(dims)]
    return permute(place, tuple(order))


def squeeze(place: Place, which: Ints | None = None) -> Outcome:
    """`squeeze()` and `squeeze(dims)`: sizes of 1 go."""
    dims = len(place.shape)
    chosen = set(range(dims)) if which is None else {dim_of(dim, dims) for dim in which}
    if which is not None and len(chosen) != len(which):
        raise LayoutError(f"squeeze names a dimension twice in {list(which)}")
    kept = [dim for dim in range(dims) if dim not in chosen or place.shape[dim] != 1]
    return restrided(place, [place.shape[dim] for dim in kept], [place.strides[dim] for dim in kept])


def unsqueeze(place: Place, dim: int) -> Outcome:
    """`unsqueeze(dim)`: a size of 1 comes in."""
    dims = len(place.shape)
    at = dim_of(dim, dims + 1)
    stride = place.shape[at] * place.strides[at] if at < dims else 1
    shape, strides = list(place.shape), list(place.strides)
    shape.insert(at, 1)
    strides.insert(at, stride)
    return restrided(place, shape, strides)


def select(place: Place, dim: int, index: int) -> Outcome:
    """`select(dim, index)`: one index of a dimension, which goes."""
    if not place.shape:
        raise LayoutError("the tensor has no dimension to select from")
    at = dim_of(dim, len(place.shape))
    size = place.shape[at]
    if not -size <= index < size:
        raise LayoutError(f"there is no index {index} along dim {at} of size {size}")
    offset = place.offset + index % size * place.strides[at]
    return restrided(place, _without(place.shape, at), _without(place.strides, at), offset)


def _without(numbers: Ints, at: int) -> Ints:
    return numbers[:at] + numbers[at + 1 :]


def narrow(place: Place, dim: int, start: int, length: int) -> Outcome:
    """`narrow(dim, start, length)`: a part of a dimension."""
    if not place.shape:
        raise LayoutError("the tensor has no dimension to narrow")
    at = dim_of(dim, len(place.shape))
    size = place.shape[at]
    if length < 0:
        raise LayoutError(f"length {length} is negative")
    if not -size <= start <= size:
        raise LayoutError(f"start {start} is not inside dim {at} of size {size}")
    first = start + size if start < 0 else start
    if first + length > size:
        raise LayoutError(f"{first} and {length:,} more reach over the end of dim {at} of size {size}")
    shape = (*place.shape[:at], length, *place.shape[at + 1 :])
    return restrided(place, shape, place.strides, place.offset + first * place.strides[at])


def expand(place: Place, sizes: Ints) -> Outcome:
    """`expand(sizes)`: sizes of 1 are repeated without taking memory."""
    new = len(sizes) - len(place.shape)
    if new < 0:
        raise LayoutError(f"expand needs at least {len(place.shape)} sizes, {len(sizes)} given")
    shape, strides = list(sizes), [0] * len(sizes)
    for at in range(len(sizes) - 1, -1, -1):
        own = place.shape[at - new] if at >= new else 1
        if at >= new:
            strides[at] = place.strides[at - new]
        elif place.shape:
            strides[at] = shape[at + 1] * strides[at + 1]
        if sizes[at] == -1:
            if at < new:
                raise LayoutError("-1 keeps a size, and a new dimension has none to keep")
            shape[at] = own
        elif sizes[at] < 0:
            raise LayoutError(f"size {sizes[at]} is negative")
        elif sizes[at] != own:
            if own != 1:
                raise LayoutError(f"dim {at - new} of size {own} cannot become {sizes[at]}: only a size of 1 expands")
            strides[at] = 0
    return restrided(place, shape, strides)
