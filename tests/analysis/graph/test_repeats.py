from hypothesis import given, settings
from hypothesis import strategies as st

from tensortui.analysis.graph.repeats import LEAST_COUNT, LEAST_HIDDEN, Repeat, repeats


def test_layers_are_found_and_what_repeats_within_one():
    layer = [1, 2, 2, 2, 2, 2, 3]
    assert repeats([9, *layer * 12, 8, 7]) == [Repeat(1, 7, 12), Repeat(2, 1, 5)]


def test_what_is_short_or_comes_twice_only_is_left_alone():
    assert repeats([1, 2, 3, 1, 2, 3]) == []
    assert repeats([1, 1, 1, 1]) == []
    assert repeats([1, 1, 1, 1, 1]) == [Repeat(0, 1, 5)]
    assert repeats([]) == []


def test_a_chain_of_ten_thousand_of_one_kind_is_one():
    assert repeats([4] * 10_000) == [Repeat(0, 1, 10_000)]


def test_the_period_that_covers_most_wins_over_the_first_one():
    assert repeats([1, 1, 1, 2] * 5)[0] == Repeat(0, 4, 5)


@settings(max_examples=300)
@given(st.lists(st.integers(0, 2), max_size=60))
def test_what_is_said_to_repeat_does(things):
    found = repeats(things)
    for one in found:
        first = things[one.start : one.start + one.period]
        assert things[one.start : one.end] == first * one.times
        assert one.times >= LEAST_COUNT and (one.times - 1) * one.period >= LEAST_HIDDEN
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            apart = other.start >= one.end
            assert apart or (other.start >= one.start and other.end <= one.start + one.period)
