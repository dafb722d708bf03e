"""Steps through the interpreter's own parts are told as what a program would say."""

from __future__ import annotations

import contextvars
import gc
import types
from typing import Any

from tensortui.agent.folded import folded
from tensortui.agent.links import may_hold


def test_a_context_leads_to_the_values_of_its_variables() -> None:
    inside = [("object", "hamt"), ("object", "hamt_array_node"), ("object", "hamt_bitmap_node")]
    value = ("key", "[ContextVar 'state']")
    assert folded([[("global", "ctx"), ("object", "Context"), *inside, value]]) == [[("global", "ctx"), value]]
    assert folded([[("global", "ctx"), ("object", "Context")]]) == [[("global", "ctx"), ("object", "Context")]]


def test_a_thread_local_has_attributes_in_each_thread() -> None:
    start = [("global", "own"), ("object", "thread-local"), ("key", "[thread worker]")]
    assert folded([[*start, ("key", "['x']"), ("index", "[0]")], [*start, ("key", "[1]")], start]) == [
        [("global", "own"), ("attribute", ".x @ thread worker"), ("index", "[0]")],
        [("global", "own"), ("attribute", "[1] @ thread worker")],
        start,
    ]


def test_frames_of_an_import_are_one_step_and_chains_that_then_read_the_same_are_one() -> None:
    def frames(count: int) -> list[tuple[str, str]]:
        return [("frame", f"in load() <frozen importlib._bootstrap>:{line}") for line in range(count)]

    last = ("frame", "spec in load() <frozen importlib._bootstrap>:9")
    assert folded([[*frames(6), ("frame", "in f() a.py:1"), *frames(1), last], [*frames(6), last]]) == [
        [("frame", "in an import: 6 frames"), ("frame", "in f() a.py:1"), *frames(1), last],
        [("frame", "in an import: 6 frames"), last],
    ]
    other = [("frame", "in load() <frozen importlib._bootstrap>:7"), *frames(3)[1:]]
    assert len(folded([frames(3), other])) == 1


def test_what_only_knows_a_value_for_a_faster_look_is_no_holder() -> None:
    for kind in (contextvars.ContextVar, types.FrameType):
        assert not may_hold(kind)
    assert may_hold(types.SimpleNamespace)


def test_the_parts_of_the_interpreter_have_these_names() -> None:
    context: Any = contextvars.Context()
    variable = contextvars.ContextVar[object]("v")
    context.run(variable.set, [])
    (root,) = gc.get_referents(context)
    assert [type(one).__name__ for one in (root, *gc.get_referents(root))] == ["hamt", "hamt_bitmap_node"]
