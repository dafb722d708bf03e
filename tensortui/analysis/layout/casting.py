"""What it would cost to change the dtype or the device of a tensor, and when another dtype is but another view."""

from __future__ import annotations

from dataclasses import replace

from tensortui.analysis.layout.operations import format_strides, fresh
from tensortui.analysis.layout.outcome import NOTHING, Outcome, copy, same, view
from tensortui.analysis.layout.place import LayoutError, Place
from tensortui.analysis.units import format_many
from tensortui.model.strided import MEMORY_FORMATS, itemsize

# What PyTorch calls some dtypes besides their names.
DTYPE_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
}


def dtype_of(name: str) -> str | None:
    """A dtype by its name or alias, None for a word that is none."""
    plain = DTYPE_ALIASES.get(name, name)
    return plain if itemsize(plain) is not None else None


def view_dtype(place: Place, dtype: str) -> Outcome:
    """`view(dtype)`: the same bytes read as other numbers."""
    if place.lazy:
        raise LayoutError(f"the bytes of a {place.lazy[0]} tensor are not its values: resolve_{place.lazy[0]}() first")
    if dtype == place.dtype:
        return view(place)
    old, new = place.itemsize, itemsize(dtype) or 1
    if old == new:
        return view(replace(place, dtype=dtype))
    sizes = f"{place.dtype} has {format_many(old, 'byte')}, {dtype} {new}"
    if not place.shape:
        raise LayoutError(f"{sizes}: without dimensions there is none to take up the difference")
    if place.strides[-1] != 1:
        raise LayoutError(
            f"{sizes}: the last dimension would change its size, but its stride is {place.strides[-1]}, not 1"
        )
    if old > new:
        return view(_narrower(place, dtype, old // new))
    return view(_wider(place, dtype, new // old))


def _narrower(place: Place, dtype: str, parts: int) -> Place:
    shape = (*place.shape[:-1], place.shape[-1] * parts)
    strides = (*(stride * parts for stride in place.strides[:-1]), 1)
    return replace(place, shape=shape, strides=strides, offset=place.offset * parts, dtype=dtype)


def _wider(place: Place, dtype: str, parts: int) -> Place:
    numbers = [(f"the last size {place.shape[-1]}", place.shape[-1]), (f"the offset {place.offset}", place.offset)]
    numbers += [(f"stride {stride} of dim {dim}", stride) for dim, stride in enumerate(place.strides[:-1])]
    for name, number in numbers:
        if number % parts:
            raise LayoutError(
                f"{parts} elements of {place.dtype} make one of {dtype}, but {name} does not divide by {parts}"
            )
    shape = (*place.shape[:-1], place.shape[-1] // parts)
    strides = (*(stride // parts for stride in place.strides[:-1]), 1)
    return replace(place, shape=shape, strides=strides, offset=place.offset // parts, dtype=dtype)


def to(
    place: Place,
    dtype: str | None = None,
    device: str | None = None,
    memory_format: str = "preserve",
    *,
    always: bool = False,
) -> Outcome:
    """`to(dtype)`, `to(device)` and both; `always` is copy=True."""
    new_dtype, new_device = dtype or place.dtype, device or place.device
    if new_dtype != place.dtype and (place.quantised or new_dtype.startswith("q")):
        raise LayoutError("quantised dtypes are made by quantize_per_tensor() and left by dequantize()")
    strides = format_strides(place, memory_format)
    kept = memory_format in ("preserve", _suggested(place))
    here = _same_device(place.device, new_device)
    if kept and new_dtype == place.dtype and here and not always:
        where = "" if new_device == place.device else f" if {place.device} is the current device"
        return same(place, f"it is that already{where}")
    outcome = copy(place, fresh(place, place.shape, strides, dtype=new_dtype, device=new_device))
    if new_dtype != place.dtype and outcome.link not in ("", NOTHING):
        return replace(outcome, why=f"becomes {new_dtype} on {place.device} first, then goes over")
    return outcome


def _suggested(place: Place) -> str:
    """The memory format that PyTorch takes a tensor to be in, which `to` compares: contiguous whatever fits no other.

    It goes by the order of the strides, gaps and all. A first dimension that steps no farther than the channels, as
    sizes of 1 make it, does not count.
    """
    for name, order in MEMORY_FORMATS.items():
        if len(place.shape) != len(order) or 0 in place.shape or not place.strides[1]:
            continue
        least = 0
        for dim in order:
            if place.strides[dim] < least or (not dim and least == place.strides[1]):
                break
            least = place.strides[dim] * place.shape[dim]
        else:
            return name
    return "contiguous"


def _same_device(one: str, two: str) -> bool:
    """Whether two names can be one device: "cuda" is the current one of several."""
    kinds = one.partition(":"), two.partition(":")
    if kinds[0][0] != kinds[1][0]:
        return False
    return not kinds[0][2] or not kinds[1][2] or kinds[0][2] == kinds[1][2]
