"""What a layout is, in words: contiguous, permuted, sliced, expanded, overlapping, and of what."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tensortui.analysis.layout.place import READ_LAZILY, Place
from tensortui.analysis.units import format_many
from tensortui.model.strided import MEMORY_FORMATS, distinct_count, memory_format

_NARROW = re.compile(r"u?int([1-7])")


@dataclass(frozen=True, slots=True)
class Gap:
    """Along `dim` the next element is `stride` elements on, where what lies inside the step takes only `inside`.

    `span` is from the first of that to its last, without the gap behind it.
    """

    dim: int
    stride: int
    inside: int
    span: int


@dataclass(frozen=True, slots=True)
class Kind:
    """What a layout is made of. All but `memory_format` leave out what has no say: sizes 1 and empty tensors.

    `permutation` and `base` say of which row-major shape it is the permutation, the expanded dimensions left where
    they are; None where the order is row-major or there is none. `interleaved` dimensions run through each other
    and yet meet nowhere. `windows` are (outer, inner, step): `outer` moves on by `step` along
    `inner`, which is longer than that. `overlapping` is None where that is too large to count.
    """

    memory_format: str
    permutation: tuple[int, ...] | None = None
    base: tuple[int, ...] = ()
    gaps: tuple[Gap, ...] = ()
    expanded: tuple[int, ...] = ()
    overlapping: bool | None = False
    interleaved: bool = False
    windows: tuple[tuple[int, int, int], ...] = ()


@lru_cache(maxsize=64)
def kind(place: Place) -> Kind:
    """What the strides say of a place."""
    shape, strides = place.shape, place.strides
    form = memory_format(shape, strides)
    if form == "contiguous":
        return Kind(form)
    expanded = tuple(dim for dim, size in enumerate(shape) if size > 1 and not strides[dim])
    real = [dim for dim, size in enumerate(shape) if size > 1 and strides[dim]]
    order = sorted(real, key=lambda dim: (-strides[dim], dim))
    count = distinct_count(shape, strides)
    overlapping = None if count is None else count < math.prod(shape[dim] for dim in real)
    if overlapping is not False:
        return Kind(form, expanded=expanded, overlapping=overlapping, windows=tuple(_windows(place, order)))
    gaps, interleaved = _gaps(place, order)
    if interleaved:  # there is no inside whose end could be told
        return Kind(form, expanded=expanded, interleaved=True)
    permutation, base = _permutation(shape, real, order)
    return Kind(form, permutation, base, gaps, expanded)


def memory_order(place: Place) -> tuple[int, ...]:
    """The dimensions that move through memory, the one with the longest steps first."""
    real = [dim for dim, size in enumerate(place.shape) if size > 1 and place.strides[dim]]
    return tuple(sorted(real, key=lambda dim: (-place.strides[dim], dim)))


def _permutation(
    shape: tuple[int, ...], real: list[int], order: list[int]
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    if order == real:
        return None, ()
    at_base = list(range(len(shape)))  # which dimension stands at each place of the base
    for slot, dim in zip(real, order, strict=True):
        at_base[slot] = dim
    permutation = [0] * len(shape)
    for slot, dim in enumerate(at_base):
        permutation[dim] = slot
    return tuple(permutation), tuple(shape[dim] for dim in at_base)


def _gaps(place: Place, order: list[int]) -> tuple[tuple[Gap, ...], bool]:
    """Where a step is longer than what lies inside it, and whether any is shorter."""
    out = []
    interleaved = False
    inside = span = 1
    for dim in reversed(order):
        stride = place.strides[dim]
        if stride > inside:
            out.append(Gap(dim, stride, inside, span))
        interleaved |= stride < span
        inside = stride * place.shape[dim]  # with the gap behind the last one, which may be cut short
        span += stride * (place.shape[dim] - 1)
    return tuple(reversed(out)), interleaved


def _windows(place: Place, order: list[int]) -> list[tuple[int, int, int]]:
    """Pairs of dimensions of which one moves on within the length of the other."""
    out = []
    for outer, inner in pairwise(order):
        step, rest = divmod(place.strides[outer], place.strides[inner])
        if not rest and step < place.shape[inner]:
            out.append((outer, inner, step))
    return out


def headline(place: Place) -> str:
    """The layout in one line: "not contiguous: transposed (1, 0) of a contiguous (64, 32)"."""
    if not place.shape:
        return "one element, without dimensions"
    if 0 in place.shape:
        return "empty: no element, no memory"
    what = kind(place)
    if what.memory_format == "contiguous":
        return "contiguous: row by row, without gaps"
    if what.memory_format != "other":
        order = ", ".join(f"dim {dim}" for dim in reversed(MEMORY_FORMATS[what.memory_format]))
        return f"{what.memory_format}: without gaps, but in the order {order}"
    parts = []
    if what.permutation is not None:
        parts.append(_permuted(place, what))
    if what.gaps:
        parts.append(f"sliced: gaps along {_dims([gap.dim for gap in what.gaps])}")
    if what.interleaved:
        parts.append("interleaved: its dimensions run through each other and share no element")
    if what.expanded:
        parts.append(f"expanded along {_dims(what.expanded)}")
    if what.overlapping:
        parts.append("overlapping: several indices lead to one element")
    elif what.overlapping is None:
        parts.append("too large to say whether elements overlap")
    return "not contiguous: " + ", ".join(parts)


def _permuted(place: Place, what: Kind) -> str:
    assert what.permutation is not None
    moved = [dim for dim, slot in enumerate(what.permutation) if dim != slot]
    verb = "transposed" if len(moved) == 2 else "permuted"
    dense = not (what.gaps or what.expanded)
    return f"{verb} {what.permutation} of a {'contiguous' if dense else 'row-major'} {what.base}"


def details(place: Place) -> tuple[str, ...]:
    """A sentence for each thing that makes a layout what it is, with its numbers; what is contiguous has none."""
    if 0 in place.shape or not place.shape:
        return _element_words(place)
    what = kind(place)
    lines = []
    order = memory_order(place)
    if what.permutation is not None:
        own, usual = (", then ".join(f"dim {dim}" for dim in dims) for dims in (order[::-1], sorted(order)[::-1]))
        lines.append(f"memory runs along {own} (contiguous: {usual})")
    lines.extend(_gap_words(gap) for gap in what.gaps)
    for dim in what.expanded:
        lines.append(f"dim {dim} has stride 0: its {place.shape[dim]:,} indices are one and the same memory")
    for outer, inner, step in what.windows:
        lines.append(
            f"windows: dim {outer} moves on by {step} along dim {inner}, which is {place.shape[inner]:,} long,"
            f" so neighbours share {place.shape[inner] - step:,}"
        )
    return (*lines, *_element_words(place))


def _element_words(place: Place) -> tuple[str, ...]:
    """What an element is, where that is not one number as it lies in memory."""
    lines = [READ_LAZILY[flag] for flag in place.lazy]
    if place.quantised:
        lines.append("quantised: an element is an integer that stands for scale * (integer - zero point)")
    if place.packed > 1:
        lines.append(f"{place.packed} elements share a byte along the last dimension")
    elif (bits := _NARROW.fullmatch(place.dtype)) is not None:
        lines.append(f"an element of {place.dtype} takes a whole byte for its {format_many(int(bits[1]), 'bit')}")
    elif place.dtype.startswith(("float4", "bits1x", "bits2x", "bits4x")):
        lines.append(f"an element of {place.dtype} is a byte that holds several numbers")
    return tuple(lines)


def _gap_words(gap: Gap) -> str:
    if gap.inside == 1:
        return f"dim {gap.dim} takes one element of every {gap.stride:,}"
    return f"a step along dim {gap.dim} moves {gap.stride:,} elements, what it steps over spans {gap.span:,}"


def _dims(dims: tuple[int, ...] | list[int]) -> str:
    words = [str(dim) for dim in dims]
    return f"dim {words[0]}" if len(words) == 1 else f"dims {', '.join(words[:-1])} and {words[-1]}"
