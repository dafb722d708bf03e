"""The arithmetic of strided tensors: sizes, distinct addresses, memory formats, and the bytes a tensor covers.

Pure functions of shape, strides, offset and dtype, exact or `None`: nothing here guesses, and each is bounded in time.
Shapes and strides are in elements, as PyTorch gives them; `intervals` and `mask` are in bytes and units of bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ITEMSIZES = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("float32", "int32", "uint32", "complex32", "qint32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "bits16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool", "qint8", "quint8", "bits8"), 1),
    "complex128": 16,
}
# One byte an element by PyTorch's account (float8_*, int1..7, uint1..7, float4_*_x2, bits1x8, bits2x4, bits4x2).
_ONE_BYTE = re.compile(r"float8_\w+|float4_\w+|u?int[1-7]|bits[124]x[248]|quint(4x2|2x4)")
# Several elements share a byte: the last dimension is packed.
PACKED = {"quint4x2": 2, "quint2x4": 4}

# Dimensions of memory formats other than contiguous, fastest first.
MEMORY_FORMATS = {"channels_last": (1, 3, 2, 0), "channels_last_3d": (1, 4, 3, 2, 0)}

MAX_MASK_BITS = 1 << 24  # beyond it, sets of addresses that no closed form describes are not counted
MAX_INTERVALS = 4096
_DIMENSION_WORK = 1 << 6  # what comparing two dimensions takes, in bits counted


class Work:
    """How much may still be spent on counting addresses, in bits; what would take more is not counted."""

    def __init__(self, left: int) -> None:
        """Start with `left`."""
        self.left = left

    def spend(self, bits: int) -> bool:
        """Whether there was that much left."""
        self.left -= bits
        return self.left >= 0


class Layout(NamedTuple):
    """What follows from shape, strides and dtype alone. `flags` are transposed, expanded, overlapping."""

    bytes: int | None
    distinct_bytes: int | None
    contiguous: bool | None
    memory_format: str | None
    flags: tuple[str, ...]


def itemsize(dtype: str | None) -> int | None:
    """Bytes of one element of `dtype` ("float32", without "torch."), None for a name we do not know."""
    if dtype is None:
        return None
    size = ITEMSIZES.get(dtype)
    return size if size is not None else (1 if _ONE_BYTE.fullmatch(dtype) else None)


def numel(shape: Sequence[int]) -> int:
    """Elements of a tensor of this shape."""
    return math.prod(shape)


def byte_count(shape: Sequence[int], dtype: str | None) -> int | None:
    """Apparent bytes: numel * itemsize; packed dtypes share bytes along the last dimension."""
    size = itemsize(dtype)
    if size is None:
        return None
    packed = PACKED.get(dtype or "", 1)
    if packed > 1 and shape:
        return numel(shape[:-1]) * -(-shape[-1] // packed)
    return numel(shape) * size


def is_contiguous(shape: Sequence[int], strides: Sequence[int], order: Sequence[int] | None = None) -> bool:
    """Whether the strides are those of a dense tensor whose dimensions vary in `order`, fastest first.

    Without `order` it is row-major and an empty tensor is contiguous, both as PyTorch says.
    """
    if order is None:
        if 0 in shape:
            return True
        order = range(len(shape) - 1, -1, -1)
    expected = 1
    for dim in order:
        if shape[dim] != 1:
            if strides[dim] != expected:
                return False
            expected *= shape[dim]
    return True


def memory_format(shape: Sequence[int], strides: Sequence[int]) -> str:
    """contiguous, channels_last, channels_last_3d or other; contiguous wins where several hold."""
    if is_contiguous(shape, strides):
        return "contiguous"
    for name, order in MEMORY_FORMATS.items():
        if len(shape) == len(order) and is_contiguous(shape, strides, order):
            return name
    return "other"


def dense_strides(shape: Sequence[int], order: Sequence[int] | None = None, least: int = 1) -> tuple[int, ...]:
    """The strides of a new tensor without gaps whose dimensions vary in `order`, fastest first; row-major without.

    Sizes below `least` count as that much: PyTorch has 1 there, and 0 for the channels_last formats.
    """
    strides = [1] * len(shape)
    step = 1
    for dim in range(len(shape) - 1, -1, -1) if order is None else order:
        strides[dim] = step
        step *= max(shape[dim], least)
    return tuple(strides)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill their memory without gaps and repeats, in whatever order of dimensions."""
    if 0 in shape:
        return True
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1):
        if stride != step:
            return False
        step *= size
    return True


def kept_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of a copy that keeps the format (`torch.preserve_format`): those of a dense tensor, else the order.

    PyTorch orders by insertion and takes a stride of 0 to be comparable with none, so where such a dimension ends up
    depends on the steps taken: the steps here are the same.
    """
    if is_dense(shape, strides):
        return tuple(strides)
    order = list(range(len(shape) - 1, -1, -1))
    for new in range(1, len(order)):
        at = new
        for before in range(new - 1, -1, -1):
            one, two = order[before], order[at]
            if not strides[one] or not strides[two]:
                continue
            if (strides[one], shape[one]) > (strides[two], shape[two]):
                order[before], order[at] = two, one
                at = before
            elif strides[one] < strides[two]:
                break
    return dense_strides(shape, order)


def distinct_count(shape: Sequence[int], strides: Sequence[int], work: Work | None = None) -> int | None:
    """How many different elements the indices reach: exact, or None where that would take too long.

    Repeated addresses come from stride 0 (expand) and from overlapping windows (as_strided, unfold).
    """
    if 0 in shape:
        return 0
    if is_contiguous(shape, strides):
        return math.prod(shape)
    dims = sorted((abs(stride), size) for size, stride in zip(shape, strides, strict=True) if size > 1 and stride)
    return _count(merged(dims), work)


def merged(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join (stride, size) dimensions, ascending, whose sums form one arithmetic progression."""
    out: list[tuple[int, int]] = []
    for stride, size in dims:
        if out:
            low, count = out[-1]
            if stride % low == 0 and stride <= low * count:
                out[-1] = (low, count + (size - 1) * (stride // low))
                continue
        out.append((stride, size))
    return out


def _count(dims: list[tuple[int, int]], work: Work | None) -> int | None:
    if not dims:
        return 1
    if len(dims) == 1:
        return dims[0][1]
    if work is not None and not work.spend(_DIMENSION_WORK * len(dims) ** 2):
        return None
    # Where every outer stride is a multiple of one step longer than all that lies inside, the counts multiply.
    reach = 0
    for at in range(1, len(dims)):
        reach += dims[at - 1][0] * (dims[at - 1][1] - 1)
        outer = dims[at:]
        if math.gcd(*(stride for stride, _ in outer)) > reach:
            inside, outside = _count(dims[:at], work), _count(outer, work)
            return None if inside is None or outside is None else inside * outside
    unit = math.gcd(*(stride for stride, _ in dims))
    if len(dims) == 2:
        (a, m), (b, n) = ((stride // unit, size) for stride, size in dims)
        return m * n - max(0, m - b) * max(0, n - a)  # (i, j) and (i + b, j - a) are one address
    extent = sum(stride * (size - 1) for stride, size in dims) // unit + 1
    if extent > MAX_MASK_BITS or (work is not None and not work.spend(extent)):
        return None
    return _spread(1, [(stride // unit, size) for stride, size in dims]).bit_count()


def _spread(mask: int, dims: Sequence[tuple[int, int]]) -> int:
    """The set of addresses `mask` repeated `size` times at every `stride`, by doubling."""
    for stride, size in dims:
        done = 1
        while done < size:
            step = min(done, size - done)
            mask |= mask << (stride * step)
            done += step
    return mask


def layout(
    shape: Sequence[int] | None, strides: Sequence[int] | None, dtype: str | None, work: Work | None = None
) -> Layout:
    """Everything that follows from shape, strides and dtype; None where it does not, or would take more than `work`."""
    if shape is None:
        return Layout(None, None, None, None, ())
    total = byte_count(shape, dtype)
    if strides is None or len(strides) != len(shape):
        return Layout(total, None, None, None, ())
    form = memory_format(shape, strides)
    if form == "contiguous":
        return Layout(total, total, True, form, ())
    flags = []
    real = [(stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1 and stride]
    if form == "other" and any(real[i][0] < real[i + 1][0] for i in range(len(real) - 1)):
        flags.append("transposed")
    if any(size > 1 and not stride for size, stride in zip(shape, strides, strict=True)):
        flags.append("expanded")
    distinct = distinct_count(shape, strides, work)
    if distinct is not None and distinct < math.prod(size for _, size in real) and 0 not in shape:
        flags.append("overlapping")
    size = itemsize(dtype)
    known = distinct is not None and size is not None and dtype not in PACKED
    return Layout(total, distinct * size if known else None, False, form, tuple(flags))  # type: ignore[operator]


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last address, both included; 0 for an empty tensor. Strides are not negative."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def intervals(
    shape: Sequence[int], strides: Sequence[int], offset: int, size: int, limit: int = MAX_INTERVALS
) -> list[tuple[int, int]] | None:
    """The byte ranges [start, end) of a storage that a tensor covers, sorted and joined; None beyond `limit`."""
    if 0 in shape:
        return []
    start = offset * size
    if is_contiguous(shape, strides):
        return [(start, start + math.prod(shape) * size)]
    dims = merged(sorted((stride, n) for n, stride in zip(shape, strides, strict=True) if n > 1 and stride > 0))
    run = size
    if dims and dims[0][0] == 1:
        run = dims.pop(0)[1] * size
    if math.prod(n for _, n in dims) > limit:
        return None
    starts = [start]
    for stride, n in dims:
        starts = [base + i * stride * size for i in range(n) for base in starts]
    return union((at, at + run) for at in starts)


def union(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort ranges and join those that touch or overlap."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and start <= out[-1][1]:
            if end > out[-1][1]:
                out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def mask(shape: Sequence[int], strides: Sequence[int], offset: int, size: int, unit: int) -> int | None:
    """The addresses of a tensor as bits, one a `unit` of bytes; None when the set would be too large.

    `unit` must divide `size`. For tensors whose addresses are too many pieces for `intervals`.
    """
    if 0 in shape:
        return 0
    scale = size // unit
    if (offset + extent(shape, strides)) * scale > MAX_MASK_BITS:
        return None
    dims = sorted((stride * scale, n) for n, stride in zip(shape, strides, strict=True) if n > 1 and stride > 0)
    return _spread(((1 << scale) - 1) << (offset * scale), dims)


def range_mask(bits: int, ranges: Iterable[tuple[int, int]]) -> int:
    """The bits [start, end) of every range, in one pass however many there are."""
    out = bytearray(bits // 8 + 1)
    for start, end in ranges:
        first, last = start >> 3, end >> 3
        if first == last:
            out[first] |= ((1 << (end - start)) - 1) << (start & 7)
        else:
            out[first] |= 0xFF << (start & 7) & 0xFF
            out[first + 1 : last] = b"\xff" * (last - first - 1)
            out[last] |= (1 << (end & 7)) - 1
    return int.from_bytes(out, "little")
