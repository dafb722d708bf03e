"""`tensortui holders`: which tensor is meant, and what is printed."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from tensortui.cli.holders import choose, text
from tensortui.errors import TensortuiError, UsageError
from tensortui.model import Holders, HolderStep, Process, Sample, Tensor


def named(tid: int, *names: str) -> Tensor:
    return Tensor(
        tid, None, names, "Tensor", (3,), (1,), 0, "float32", "cpu", "strided", 12, 12, True, "contiguous", (),
        False, True, 0, None, "other",
    )  # fmt: skip


SAMPLE = Sample(
    1, 1e9, Process(7),
    tensors=MappingProxyType({one.id: one for one in (
        named(3, "model.weight", "tied.weight"),
        named(4, "x @ step() train.py:41"),
        named(5, "x @ step() train.py:43 [worker]", "y @ step() train.py:43 [worker]"),
        named(6, "result saved by ExpBackward0"),
        named(7, "result saved by ExpBackward0"),
        named(8, "odd\x1b name"),
        named(9),
    )}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "tid"),
    [("model.weight", 3), ("tied.weight", 3), ("x @ step() train.py:41", 4), ("y", 5), ("9", 9), ("odd\\e name", 8)],
)
def test_a_tensor_is_named_as_it_is_shown(wanted: str, tid: int) -> None:
    assert choose(SAMPLE, wanted).id == tid


@pytest.mark.parametrize("wanted", ["x", "result saved by ExpBackward0"])
def test_several_that_fit_are_listed(wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(SAMPLE, wanted)
    assert caught.value.exit_code == 2
    assert caught.value.cause.startswith(f"2 tensors go by {wanted!r}: ")
    assert "shape (3,)" in caught.value.cause
    assert "tensortui attach 7" in caught.value.next_step


@pytest.mark.parametrize(("wanted", "like"), [("weight", "model.weight"), ("model.wieght", "model.weight"), ("?", "")])
def test_what_is_not_there_is_told_with_what_is_like_it(wanted: str, like: str) -> None:
    with pytest.raises(TensortuiError) as caught:
        choose(SAMPLE, wanted)
    assert (caught.value.exit_code, caught.value.kind) == (1, "gone")
    assert like in caught.value.next_step and "tensortui snapshot 7" in caught.value.next_step


def test_an_id_that_is_not_there_is_told_to_be_short_lived() -> None:
    with pytest.raises(TensortuiError) as caught:
        choose(SAMPLE, "12")
    assert "Ids hold only while one agent stays there." in caught.value.next_step


def test_the_text_has_a_paragraph_for_each_chain_and_nothing_a_terminal_obeys() -> None:
    chain = (HolderStep("global", "trainer"), HolderStep("key", "['a\x1b[2J']"))
    found = Holders(3, (chain, chain[:1]), ("Frames were\nskipped.",), False)
    assert text(found, named(3, "model.weight")) == [
        "model.weight: 2 chains keep it alive",
        "",
        "1. trainer['a\\e[2J']",
        "   variable of a module  trainer",
        "   in a dict             ['a\\e[2J']",
        "   A dict keeps it until it is taken out: trainer.",
        "   del trainer['a\\e[2J']; if the dict grows, drop old entries.",
        "",
        "2. trainer",
        "   variable of a module  trainer",
        "   It is a variable of a module, and stays as long as the program.",
        "   del trainer, or bind it to None.",
        "",
        "not everything was searched: Frames were\\nskipped.",
    ]
    assert text(replace(found, chains=(), reasons=(), complete=True))[0].startswith("tensor 3: no holder was found")
