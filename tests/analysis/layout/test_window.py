"""The grid of a tensor, against torch's own numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from places import place_of
from strided_tensors import any_tensors

from tensortui.analysis.layout import LayoutError, Place, element, window


@given(any_tensors(), st.data())
def test_a_window_shows_the_offsets_that_the_elements_have(tensor, data):
    place = place_of(tensor)
    dims = tensor.dim()
    chosen = None
    if dims > 1 and data.draw(st.booleans()):
        chosen = tuple(data.draw(st.permutations(range(dims)))[:2])
    index = data.draw(st.lists(st.integers(-2, 8), max_size=dims))
    some = st.integers(-2, 9)
    height, width = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
    seen = window(place, height, width, dims=chosen, index=index, top=data.draw(some), left=data.draw(some))
    if not tensor.numel():
        assert seen.offsets == ()
        return
    sizes = [1 if dim is None else tensor.shape[dim] for dim in (seen.down, seen.across)]
    assert (seen.height, seen.width if seen.height else 0) == (
        min(height, sizes[0]),
        min(width, sizes[1]) if height else 0,
    )
    for row, offsets in enumerate(seen.offsets):
        for column, offset in enumerate(offsets):
            assert element(place, seen.at(row, column)).offset == offset
    flat = [offset for row in seen.offsets for offset in row]
    ranks = {offset: rank for rank, offset in enumerate(sorted(set(flat)))}
    assert [rank for row in seen.walk for rank in row] == [ranks[offset] for offset in flat]


def test_the_walk_of_a_transposed_tensor_goes_down_its_columns():
    seen = window(Place((3, 2), (1, 3)), 9, 9)
    assert seen.walk == ((0, 3), (1, 4), (2, 5))
    assert window(Place((3, 2), (0, 1)), 9, 9).walk == ((0, 1),) * 3


def test_the_last_part_of_a_huge_tensor_costs_what_is_shown():
    seen = window(Place((10**6, 10**6), (10**6, 1)), 4, 3, top=10**6, left=10**6)
    assert (seen.top, seen.left) == (10**6 - 4, 10**6 - 3)
    assert seen.offsets[-1][-1] == 10**12 - 1


@pytest.mark.parametrize("dims", [(0, 0), (0, 2), (-1, 1), (None, 5)])
def test_dimensions_that_are_not_there_are_refused(dims):
    with pytest.raises(LayoutError):
        window(Place((2, 3), (3, 1)), 2, 2, dims=dims)


def test_dimensions_can_be_looked_at_in_any_order():
    tensor = torch.arange(24).view(2, 3, 4)
    seen = window(place_of(tensor), 9, 9, dims=(2, 0), index=(0, 1, 0))
    assert [list(row) for row in seen.offsets] == tensor[:, 1, :].t().tolist()
    assert math.prod((seen.height, seen.width)) == 8
