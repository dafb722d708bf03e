"""A storage in cells, against looking at every byte."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strided_tensors import addresses, strided_tensors

from tensortui.analysis.layout import FULL, NONE, PART, UNKNOWN, Place, ribbon, ribbons

PLACES = st.tuples(
    strided_tensors(max_dims=3, max_size=5, max_stride=12), st.sampled_from(("int8", "int16", "float32"))
).map(lambda pair: Place(*pair[0], dtype=pair[1]))


def bytes_of(place):
    size = place.itemsize
    return {at * size + byte for at in addresses(place.shape, place.strides, place.offset) for byte in range(size)}


def state(covered, start, end):
    count = sum(byte in covered for byte in range(start, end))
    return FULL if count == end - start else PART if count else NONE


def expect(size, places, edges):
    depth = Counter(byte for place in places for byte in bytes_of(place) if byte < size)
    cells = list(pairwise(edges))
    once, twice = set(depth), {byte for byte, many in depth.items() if many > 1}
    return [(len(some), tuple(state(some, *cell) for cell in cells)) for some in (once, twice)]


@settings(max_examples=300, deadline=None)
@given(st.lists(PLACES, max_size=4), st.integers(0, 130), st.integers(1, 40))
@example([], 0, 10)
def test_cells_say_what_lies_in_them(places, size, width):
    drawn = ribbon(size, dict(enumerate(places)), width)
    assert drawn.edges[0] == 0 and drawn.edges[-1] == size and len(drawn.edges) - 1 <= width
    for at, place in enumerate(places):
        covered = bytes_of(place)
        strip = drawn.strips[at]
        assert strip.bytes == sum(byte < size for byte in covered)
        assert strip.beyond == any(byte >= size for byte in covered)
        if size:
            assert strip.cells == tuple(state(covered, *cell) for cell in pairwise(drawn.edges))
    if size:
        (covered, cells), (shared, shared_cells) = expect(size, places, drawn.edges)
        assert (drawn.covered_bytes, drawn.covered) == (covered, cells)
        assert (drawn.shared_bytes, drawn.shared) == (shared, shared_cells)
        assert drawn.gap_bytes == size - covered


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(PLACES, st.none() | st.integers(-70, 70)), max_size=4), st.integers(1, 130), st.integers(1, 40)
)
def test_tensors_of_other_storages_over_the_same_memory_are_drawn_where_they_lie(lying, size, width):
    starts = {at: start for at, (_, start) in enumerate(lying) if start is not None}
    drawn = ribbon(size, {at: place for at, (place, _) in enumerate(lying)}, width, starts=starts)
    cells = list(pairwise(drawn.edges))
    depth = Counter()
    for at, (place, start) in enumerate(lying):
        covered = {byte + (start or 0) for byte in bytes_of(place)}
        depth.update(byte for byte in covered if 0 <= byte < size)
        assert drawn.strips[at].cells == tuple(state(covered, *cell) for cell in cells)
        assert drawn.strips[at].bytes == sum(0 <= byte < size for byte in covered)
        assert drawn.strips[at].beyond == (start is None and any(byte >= size for byte in covered))
    twice = {byte for byte, many in depth.items() if many > 1}
    assert (drawn.covered_bytes, drawn.covered) == (len(depth), tuple(state(set(depth), *cell) for cell in cells))
    assert (drawn.shared_bytes, drawn.shared) == (len(twice), tuple(state(twice, *cell) for cell in cells))


def test_what_is_too_many_pieces_to_list_lies_elsewhere_too():
    rows = Place((5000, 4), (8, 1), dtype="int8")
    drawn = ribbon(40_000, {1: rows, 2: rows}, 10_000, starts={2: 4})
    assert drawn.strips[1].cells == (FULL, NONE) * 5000 and drawn.strips[2].cells == (NONE, FULL) * 5000
    assert drawn.covered_bytes in (None, 40_000) and drawn.shared_bytes in (None, 0)


def test_who_is_not_shown_is_counted_all_the_same():
    drawn = ribbon(100, {1: Place((25,), (1,)), 2: Place((5,), (1,))}, 10, shown=(2,))
    assert list(drawn.strips) == [2] and drawn.gap_bytes == 0 and drawn.shared_bytes == 20
    assert drawn.strips[2].cells == (FULL, FULL) + (NONE,) * 8


def test_a_tensor_without_strides_may_lie_anywhere():
    drawn = ribbon(100, {1: Place((5,), (1,)), 2: None}, 5)
    assert drawn.strips[2].cells == (UNKNOWN,) * 5
    assert drawn.covered == (FULL,) + (UNKNOWN,) * 4 and drawn.gap_bytes is None and drawn.shared_bytes is None


def limited(patch, *, pieces=1 << 12, bits=1 << 24):
    patch.setattr(ribbons, "MAX_PIECES", pieces)
    patch.setattr(ribbons, "MAX_MASK_BITS", bits)


@settings(max_examples=300, deadline=None)
@given(st.lists(PLACES, max_size=4), st.integers(1, 130), st.integers(1, 40), st.integers(0, 4))
def test_bits_say_the_same_where_pieces_are_too_many(places, size, width, pieces):
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, pieces=pieces)
        drawn = ribbon(size, dict(enumerate(places)), width)
    once, twice = expect(size, places, drawn.edges)
    assert [(drawn.covered_bytes, drawn.covered), (drawn.shared_bytes, drawn.shared)] == [once, twice]


@settings(max_examples=300, deadline=None)
@given(st.lists(PLACES, max_size=4), st.integers(1, 130), st.integers(1, 40), st.integers(0, 4))
@example([Place((), (), 0, "int16"), Place((), (), 0), Place((1, 1, 2), (0, 0, 0), 1, "int16")], 3, 1, 0)
def test_what_even_bits_would_be_too_many_for_is_right_or_unknown(places, size, width, pieces):
    with pytest.MonkeyPatch.context() as patch:
        limited(patch, pieces=pieces, bits=0)
        drawn = ribbon(size, dict(enumerate(places)), width)
    once, twice = expect(size, places, drawn.edges)
    for count, cells, (real_count, real_cells) in (
        (drawn.covered_bytes, drawn.covered, once),
        (drawn.shared_bytes, drawn.shared, twice),
    ):
        assert count in (None, real_count)
        assert all(cell in (UNKNOWN, real) for cell, real in zip(cells, real_cells, strict=True))
    for at, place in enumerate(places):
        cells = pairwise(drawn.edges)
        real = tuple(state(bytes_of(place), *cell) for cell in cells)
        assert all(cell in (UNKNOWN, other) for cell, other in zip(drawn.strips[at].cells, real, strict=True))


def test_storages_of_terabytes_are_drawn_without_a_walk():
    size = 4 * 10**12
    places = {
        1: Place((10**6, 10**6), (10**6, 1)),
        2: Place((10**6, 10**6), (1, 10**6)),
        3: Place((10**6, 500_000), (10**6, 2)),
        4: Place((1000, 1000), (10**9, 1)),
        5: Place((10**12,), (0,)),
    }
    drawn = ribbon(size, places, 100)
    assert drawn.gap_bytes == 0
    assert drawn.strips[3].bytes == size // 2 and set(drawn.strips[3].cells) == {PART}
    assert drawn.strips[4].bytes == 4 * 10**6
    assert drawn.strips[5].bytes == 4
    alone = ribbon(size, {3: places[3]}, 100)
    assert alone.gap_bytes == size // 2 and alone.shared_bytes == 0
    halves = ribbon(size, {3: places[3], 6: Place((10**6, 500_000), (10**6, 2), 1)}, 100)
    assert halves.gap_bytes is None and set(halves.covered) == {UNKNOWN}


def test_thousands_of_tensors_on_one_storage():
    places = {at: Place((16,), (1,), 16 * at) for at in range(5000)}
    drawn = ribbon(64 * 5000, places, 100, shown=range(10))
    assert drawn.gap_bytes == 0 and drawn.shared_bytes == 0 and set(drawn.covered) == {FULL}
