"""The arithmetic of strided tensors, against PyTorch itself and against counting by hand."""

import itertools
import math

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from strided_tensors import addresses, any_tensors, as_strided, everyday_tensors, strided_tensors

from tensortui.model import strided

DTYPES = sorted({str(d).removeprefix("torch.") for d in vars(torch).values() if isinstance(d, torch.dtype)})


def torch_format(tensor):
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels_last"
    if tensor.dim() == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d):
        return "channels_last_3d"
    return "other"


@pytest.mark.parametrize("name", DTYPES)
def test_itemsize_is_what_torch_says_of_every_dtype_it_has(name):
    assert strided.itemsize(name) == getattr(torch, name).itemsize


@pytest.mark.parametrize("name", [None, "", "float7", "float32 ", "torch.float32", "int9", "bits3x2"])
def test_itemsize_of_an_unknown_dtype_is_unknown(name):
    assert strided.itemsize(name) is None


@given(strided_tensors())
def test_contiguity_and_memory_format_are_what_torch_says(layout):
    shape, strides, offset = layout
    tensor = as_strided(shape, strides, offset)
    assert strided.memory_format(shape, strides) == torch_format(tensor)
    assert strided.is_contiguous(shape, strides) == tensor.is_contiguous()


@settings(max_examples=400)
@given(any_tensors())
def test_a_copy_that_keeps_the_format_has_the_strides_that_torch_gives_it(tensor):
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    assert strided.kept_strides(shape, strides) == tensor.clone().stride()
    assert strided.dense_strides(shape) == torch.empty(shape).stride()
    assert strided.is_dense(shape, strides) == torch.ops.aten.is_non_overlapping_and_dense(tensor)


@given(everyday_tensors())
def test_layout_of_everyday_tensors_is_what_torch_says(tensor):
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    found = strided.layout(shape, strides, "float32")
    assert found.bytes == tensor.nbytes
    assert found.contiguous == tensor.is_contiguous()
    assert found.memory_format == torch_format(tensor)
    assert found.distinct_bytes == 4 * len(addresses(shape, strides))
    nonzero = [size for size, stride in zip(shape, strides, strict=True) if size > 1 and stride]
    repeated = any(size > 1 and not stride for size, stride in zip(shape, strides, strict=True))
    assert ("expanded" in found.flags) == (repeated and 0 not in shape)
    assert ("overlapping" in found.flags) == (len(addresses(shape, strides)) < math.prod(nonzero) and 0 not in shape)


@settings(max_examples=400)
@given(strided_tensors())
@example(((3, 4, 5), (6, 10, 15), 0))
@example(((4, 4), (2, 3), 0))
@example(((5, 5, 5), (3, 3, 3), 1))
def test_distinct_count_is_the_number_of_addresses(layout):
    shape, strides, _ = layout
    assert strided.distinct_count(shape, strides) == len(addresses(shape, strides))


@given(strided_tensors(max_dims=4, max_stride=5), st.integers(0, 400))
def test_distinct_count_is_exact_or_unknown_whatever_the_bound(layout, bits):
    shape, strides, _ = layout
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strided, "MAX_MASK_BITS", bits)
        assert strided.distinct_count(shape, strides) in (None, len(addresses(shape, strides)))


@pytest.mark.parametrize(
    ("shape", "strides", "count"),
    [
        ((65536, 1024), (0, 1), 1024),
        ((1 << 40, 1 << 20), (1 << 20, 1), 1 << 60),
        ((1 << 30, 512), (1, 1), (1 << 30) + 511),
        ((1 << 30, 1 << 30), (7, 3), (1 << 60) - ((1 << 30) - 3) * ((1 << 30) - 7)),
        ((8, 1 << 20, 16), (1 << 30, 64, 1), 8 << 24),
        ((1 << 20, 1 << 20, 1 << 20), (1_000_003, 999_983, 999_979), None),
    ],
)
def test_distinct_count_of_huge_tensors_takes_no_walk(shape, strides, count):
    assert strided.distinct_count(shape, strides) == count


@given(strided_tensors(), st.sampled_from((1, 2, 4, 8)))
def test_intervals_cover_exactly_the_bytes_of_a_tensor(layout, size):
    shape, strides, offset = layout
    covered = strided.intervals(shape, strides, offset, size, limit=1 << 20)
    expected = {at * size + byte for at in addresses(shape, strides, offset) for byte in range(size)}
    assert {byte for start, end in covered for byte in range(start, end)} == expected
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(covered))  # sorted, joined, apart


@given(strided_tensors())
def test_intervals_beyond_the_limit_are_not_listed(layout):
    shape, strides, offset = layout
    found = strided.intervals(shape, strides, offset, 1, limit=3)
    assert found is None or len(found) <= 3


@given(strided_tensors(), st.sampled_from(((1, 1), (4, 1), (4, 2), (4, 4), (8, 4))))
def test_mask_has_a_bit_for_every_unit_of_a_tensor(layout, sizes):
    shape, strides, offset = layout
    size, unit = sizes
    expected = {at * size // unit + part for at in addresses(shape, strides, offset) for part in range(size // unit)}
    mask = strided.mask(shape, strides, offset, size, unit)
    assert {bit for bit in range(mask.bit_length()) if mask >> bit & 1} == expected


@pytest.mark.parametrize(
    ("make", "flags"),
    [
        (lambda: torch.zeros(3, 4), ()),
        (lambda: torch.zeros(3, 4).t(), ("transposed",)),
        (lambda: torch.zeros(2, 8, 16, 4).transpose(1, 2), ("transposed",)),
        (lambda: torch.zeros(3, 4)[:, ::2], ()),
        (lambda: torch.zeros(1, 4).expand(3, 4), ("expanded",)),
        (lambda: torch.zeros(4, 1).t().expand(3, 4), ("expanded",)),
        (lambda: torch.zeros(10).unfold(0, 4, 1), ("overlapping",)),
        (lambda: torch.zeros(10).unfold(0, 4, 4), ()),
        (lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), ()),
        (lambda: torch.zeros(0, 3).t(), ()),
        (lambda: torch.zeros(()), ()),
        (lambda: torch.zeros(()).expand(10, 10), ("expanded",)),
    ],
)
def test_flags_name_what_was_done_to_a_tensor(make, flags):
    tensor = make()
    assert strided.layout(tuple(tensor.shape), tuple(tensor.stride()), "float32").flags == flags


def test_what_is_not_known_stays_unknown():
    assert strided.layout(None, None, "float32") == (None, None, None, None, ())
    assert strided.layout((3, 4), None, "float32") == (48, None, None, None, ())
    assert strided.layout((3, 4), (4, 1), "novel32") == (None, None, True, "contiguous", ())
    assert strided.layout((3, 4), (1,), "float32").contiguous is None


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", [(4, 5), (4, 6), (7,)])
def test_packed_dtypes_take_the_bytes_that_torch_gives_them(shape):
    tensor = torch.zeros(shape)
    channels = shape[0]
    packed = torch.quantize_per_channel(tensor, torch.ones(channels), torch.zeros(channels), 0, torch.quint4x2)
    assert strided.byte_count(shape, "quint4x2") == packed.untyped_storage().nbytes()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair)))))
def test_union_joins_what_touches(ranges):
    assume(all(start < end for start, end in ranges))
    joined = strided.union(ranges)
    expected = {byte for start, end in ranges for byte in range(start, end)}
    assert {byte for start, end in joined for byte in range(start, end)} == expected
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(joined))
