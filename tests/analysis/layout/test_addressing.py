"""The address of an element and back, against walking all indices."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from places import place_of
from strided_tensors import any_tensors

from tensortui.analysis.layout import LayoutError, Place, addressing, element, formula, hits


@given(any_tensors(), st.data())
def test_an_element_lies_where_torch_finds_it(tensor, data):
    place = place_of(tensor)
    storage = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
    numbers = storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    if not tensor.numel():
        return
    index = tuple(data.draw(st.integers(-size, size - 1)) for size in tensor.shape)
    found = element(place, index, 1 << 40)
    assert found.offset == int(numbers[index])
    assert found.byte == found.offset * tensor.element_size()
    assert found.address == (1 << 40) + found.byte
    assert int(numbers[found.index]) == found.offset and all(at >= 0 for at in found.index)
    assert eval(formula(place, found).partition(" = ")[0]) == found.offset


@settings(max_examples=500)
@given(any_tensors(max_dims=4, max_stride=9), st.integers(-3, 160))
def test_a_byte_leads_back_to_every_index_that_covers_it(tensor, byte):
    place = place_of(tensor)
    size = tensor.element_size()
    expected = sorted(
        index
        for index in itertools.product(*map(range, tensor.shape))
        if byte // size == place.offset + sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
    )
    found = hits(place, byte, limit=10_000)
    assert (found.count, list(found.first)) == (len(expected), expected)
    few = hits(place, byte, limit=2)
    assert few.count == len(expected) and len(few.first) == min(2, len(expected)) and set(few.first) <= set(expected)
    if expected:
        assert found.within == byte % size


@given(any_tensors(max_dims=4, max_stride=9), st.integers(0, 60), st.integers(0, 30))
def test_what_takes_too_long_is_not_counted_and_never_wrong(tensor, byte, steps):
    place = place_of(tensor)
    full = hits(place, byte, limit=10_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addressing, "MAX_STEPS", steps)
        found = hits(place, byte, limit=3)
    assert found.count in (None, full.count)
    assert set(found.first) <= set(full.first)


@pytest.mark.parametrize(
    ("place", "byte", "count", "first"),
    [
        (Place((10**6, 10**6), (10**6, 1)), 4 * 123_456_789_012, 1, (123_456, 789_012)),
        (Place((10**6, 10**6), (1, 10**6)), 4 * 123_456_789_012, 1, (789_012, 123_456)),
        (Place((10**12,), (0,)), 0, 10**12, (0,)),
        (Place((10**6, 10**6), (0, 1)), 40, 10**6, (0, 10)),
        (Place((10**9, 512), (1, 1)), 4 * 10**6, 512, None),
        (Place((10**6, 10**6, 3), (7, 5, 1)), 4 * 3_000_000, None, None),
        (Place((10**4, 10**4, 10**4), (10**8 + 3, 10**4 + 1, 1)), 4, 1, (0, 0, 1)),
    ],
)
def test_tensors_of_a_million_million_elements_take_no_walk(place, byte, count, first):
    found = hits(place, byte)
    if count is not None:
        assert found.count == count
    assert len(found.first) <= 8
    assert first is None or found.first[0] == first
    for index in found.first:
        assert element(place, index).byte == byte


@pytest.mark.parametrize(
    ("place", "index", "words"),
    [
        (
            Place((2, 3), (3, 1)),
            (2, 0),
            "index 2 is out of range for dim 0 of size 2: it goes from 0 to 1, or from -2 to -1",
        ),
        (Place((2, 3), (3, 1)), (0, -4), "dim 1 of size 3"),
        (Place((2, 3), (3, 1)), (1,), r"1 index given, but this tensor has 2 dimensions: try \[1, 0\]"),
        (Place((2,), (1,)), (1, 0), r"2 indices given, but this tensor has 1 dimension: try \[1\]"),
        (Place((), ()), (0,), r"its one element is \[\]"),
        (Place((0,), (1,)), (0,), "it has no element"),
    ],
)
def test_an_index_that_leads_nowhere_is_explained(place, index, words):
    with pytest.raises(LayoutError, match=words):
        element(place, index)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 4), (), (3, 0)])
def test_packed_elements_share_bytes_along_the_last_dimension(shape):
    place = Place(shape, torch.empty(shape).stride(), dtype="quint4x2")
    indices = list(itertools.product(*map(range, shape)))
    by_byte = {}
    for index in indices:
        by_byte.setdefault(element(place, index).byte, []).append(index)
    assert set(by_byte) == set(range(place.bytes))
    for byte in range(place.bytes + 2):
        expected = by_byte.get(byte, [])
        assert (hits(place, byte).count, list(hits(place, byte).first)) == (len(expected), expected)


def test_packed_elements_out_of_order_have_no_known_address():
    with pytest.raises(LayoutError, match="share bytes"):
        element(Place((3, 4), (1, 3), dtype="quint4x2"), (0, 0))
