"""Layouts in words: what torch did to a tensor is what is said of it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from places import place_of
from strided_tensors import any_tensors

from tensortui.analysis.layout import Place, advice, details, headline, kind, memory_order, retained
from tensortui.model import Storage, Tensor
from tensortui.model.strided import extent, layout


@given(st.lists(st.integers(1, 4), max_size=5).flatmap(lambda s: st.tuples(st.just(s), st.permutations(range(len(s))))))
def test_a_permutation_is_undone_by_what_is_said_of_it(case):
    shape, order = case
    tensor = torch.zeros(shape).permute(order)
    what = kind(place_of(tensor))
    assert not what.gaps and not what.expanded and what.overlapping is False and not what.interleaved
    if what.memory_format == "contiguous":
        assert tensor.is_contiguous() and what.permutation is None
        return
    again = torch.zeros(what.base).permute(what.permutation)
    real = [dim for dim, size in enumerate(tensor.shape) if size > 1]
    assert again.shape == tensor.shape
    assert [again.stride(dim) for dim in real] == [tensor.stride(dim) for dim in real]


@given(any_tensors())
def test_words_agree_with_the_flags_and_are_never_empty(tensor):
    place = place_of(tensor)
    what = kind(place)
    flags = layout(place.shape, place.strides, place.dtype).flags
    assert ("expanded" in flags) == bool(what.expanded)
    assert ("overlapping" in flags) == bool(what.overlapping)
    line = headline(place)
    assert line and not line.endswith(": ")
    assert (line.startswith("not contiguous")) <= (not place.contiguous)
    if not place.contiguous and what.memory_format == "other":
        assert what.permutation or what.gaps or what.expanded or what.overlapping or what.interleaved
    assert all(details(place)) and "\n" not in "".join(details(place))
    steps = [tensor.stride(dim) for dim in memory_order(place)]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize(
    ("make", "line", "more"),
    [
        (lambda: torch.zeros(64, 32), "contiguous: row by row, without gaps", ""),
        (lambda: torch.zeros(()), "one element, without dimensions", ""),
        (lambda: torch.zeros(3, 0).t(), "empty: no element, no memory", ""),
        (
            lambda: torch.zeros(64, 32).t(),
            "not contiguous: transposed (1, 0) of a contiguous (64, 32)",
            "dim 0, then dim 1",
        ),
        (
            lambda: torch.zeros(2, 3, 4, 5).permute(0, 2, 3, 1),
            "not contiguous: permuted (0, 2, 3, 1) of a contiguous (2, 3, 4, 5)",
            "",
        ),
        (
            lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "channels_last: without gaps, but in the order dim 0, dim 2, dim 3, dim 1",
            "",
        ),
        (
            lambda: torch.zeros(64, 32)[:, ::3],
            "not contiguous: sliced: gaps along dim 1",
            "dim 1 takes one element of every 3",
        ),
        (
            lambda: torch.zeros(8, 10)[:, 2:6],
            "not contiguous: sliced: gaps along dim 0",
            "moves 10 elements, what it steps over spans 4",
        ),
        (
            lambda: torch.zeros(24, 32)[2:20:3, 1:31:2],
            "not contiguous: sliced: gaps along dims 0 and 1",
            "moves 96 elements, what it steps over spans 29",
        ),
        (
            lambda: torch.zeros(20)[::3],
            "not contiguous: sliced: gaps along dim 0",
            "dim 0 takes one element of every 3",
        ),
        (
            lambda: torch.zeros(1, 4).expand(3, 4),
            "not contiguous: expanded along dim 0",
            "its 3 indices are one and the same memory",
        ),
        (
            lambda: torch.zeros(10).unfold(0, 4, 2),
            "not contiguous: overlapping: several indices lead to one element",
            "dim 0 moves on by 2 along dim 1, which is 4 long, so neighbours share 2",
        ),
        (
            lambda: torch.zeros(9).as_strided((3, 2), (2, 3)),
            "not contiguous: interleaved: its dimensions run through each other and share no element",
            "",
        ),
        (
            lambda: torch.zeros(6, 4).t()[:, ::2].unsqueeze(0).expand(5, 4, 3),
            "not contiguous: transposed (0, 2, 1) of a row-major (5, 3, 4), sliced: gaps along dim 2,"
            " expanded along dim 0",
            "",
        ),
    ],
)
def test_what_was_done_is_what_is_said(make, line, more):
    place = place_of(make())
    assert headline(place) == line
    assert more in "\n".join(details(place))


def test_what_reading_does_to_the_values_is_said():
    assert any("conjugate" in line for line in details(place_of(torch.zeros(2, dtype=torch.complex64).conj())))
    assert any("negative" in line for line in details(Place((2,), (1,), lazy=("neg",))))
    packed = details(Place((4, 4), (4, 1), dtype="quint4x2"))
    assert packed[0].startswith("quantised") and packed[1] == "2 elements share a byte along the last dimension"
    assert "several numbers" in details(Place((), (), dtype="float4_e2m1fn_x2"))[0]
    assert details(Place((4,), (1,), dtype="bits8")) == ()
    assert details(Place((4,), (1,), dtype="uint4")) == ("an element of uint4 takes a whole byte for its 4 bits",)


@given(any_tensors())
def test_the_span_of_a_gap_is_from_the_first_to_the_last_of_what_is_stepped_over(tensor):
    place = place_of(tensor)
    for gap in kind(place).gaps:
        inner = [dim for dim in memory_order(place) if place.strides[dim] < gap.stride]
        assert gap.span == extent([place.shape[dim] for dim in inner], [place.strides[dim] for dim in inner])


def record(shape, strides, dtype="float16", category="activation", device="cuda:0"):
    found = layout(shape, strides, dtype)
    return Tensor(
        1, 1, (), "Tensor", shape, strides, 0, dtype, device, "strided", found.bytes, found.distinct_bytes,
        found.contiguous, found.memory_format, found.flags, False, True, 0, None, category,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        (record((8, 64, 56, 56), (200704, 3136, 56, 1)), "if a convolution reads this"),
        (record((64, 32, 3, 3), (288, 9, 3, 1), category="parameter"), "if this is the weight of a convolution"),
        (record((64, 32, 64, 64), (131072, 4096, 64, 1), category="parameter"), ""),
        (record((8, 64, 56, 56), (200704, 3136, 56, 1), dtype="float32"), ""),
        (record((8, 64, 56, 56), (200704, 3136, 56, 1), device="cpu"), ""),
        (record((8, 64, 1, 1), (64, 1, 1, 1)), ""),
        (record((8, 64), (64, 1)), ""),
        (record((4096, 4096), (0, 1)), "keep it expanded"),
        (record((7, 4), (1, 1)), "write to a clone()"),
        (record(None, None), ""),
        (record((0, 4), (4, 1)), ""),
    ],
)
def test_advice_is_given_where_the_layout_asks_for_it(tensor, word):
    assert word in advice(tensor) if word else advice(tensor) == ""


def test_what_a_small_view_keeps_alive_is_said():
    tensor = record((4096,), (1,), "float32", device="cpu")
    whole = Storage(1, "cpu", 4096, 1 << 26)
    assert retained(tensor, whole, 16384) == "shows 16.00 KiB and keeps the whole storage of 64.00 MiB alive"
    more = "shows 16.00 KiB of a storage of 64.00 MiB, all tensors on it together 32.00 KiB"
    assert retained(tensor, whole, 32768) == more
    assert retained(tensor, whole, 1 << 26) == "shows 16.00 KiB of a storage of 64.00 MiB"
    assert retained(tensor, Storage(1, "cpu", 4096, 16384), 16384) == ""
    assert retained(tensor, Storage(1, "cpu", 0, 0, "none"), 0) == ""
