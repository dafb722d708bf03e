"""The Graph screen on a tensor that has no graph: why it has none, and every graph for whoever asks for it."""

from __future__ import annotations

from dataclasses import replace

from graph_data import training_graph
from test_graph_screen import opened
from ui_data import after


async def test_a_tensor_without_a_graph_is_said_to_have_none_and_every_graph_comes_when_asked_for() -> None:
    sample, graph, _ = training_graph()
    (target,) = (one.id for one in sample.tensors.values() if one.names[:1] == ("target @ step() train.py:41",))
    async with opened(sample, graph, target) as it:
        said = it.text_of("#state")
        assert said.startswith("target has no graph\n\nit holds int64: ")
        assert said.endswith("\na shows every graph, and begins where it was saved or is a leaf")
        assert it.source.asked == [] and not it.screen.query_one("#head").display
        await it.press("r")
        await it.settled()
        assert it.source.asked == [] and it.text_of("#state") == said
        await it.press("a")
        await it.settled()
        assert it.source.asked == [None]
        assert "every graph" in it.text_of("#head") and "target" in it.here()
        await it.press("r")
        await it.settled()
        assert it.source.asked == [None, None] and "every graph" in it.text_of("#head")


async def test_a_variable_that_has_a_graph_by_now_is_read_anew() -> None:
    sample, graph, loss = training_graph()
    before = replace(sample, tensors={**sample.tensors, 5000: replace(sample.tensors[loss], id=5000, grad_fn=None)})
    async with opened(before, graph, 5000) as it:
        assert "loss has no graph" in it.text_of("#state")
        await it.give(after(before, gone=[5000]))
        await it.press("r")
        await it.settled()
        assert "NllLossBackward0" in it.text_of("#head")


async def test_a_leaf_has_no_graph_but_it_can_be_seen_who_saved_it() -> None:
    sample, graph, _ = training_graph()
    (weight,) = (one.id for one in sample.tensors.values() if one.names[:1] == ("model.layers.3.up.weight",))
    async with opened(sample, graph, weight) as it:
        assert it.source.asked == []
        assert "model.layers.3.up.weight has no graph" in it.text_of("#state")
        await it.press("a")
        await it.settled()
        assert it.source.asked == [None]
        assert it.here().startswith("=")
        assert "1 node saved it" in it.text_of("#notice")
        assert "mat2" in it.here() and "view of model.layers.3.up.weight" in it.here()
        await it.press("h")
        await it.press("j", "j", "u")
        assert "mat2" in it.here()
        loose = next(one.id for one in sample.tensors.values() if one.names[:1] == ("model.layers.3.up.bias",))
    async with opened(sample, graph, loose) as it:
        await it.press("a")
        await it.settled()
        assert it.text_of("#notice").startswith(
            "no operation made model.layers.3.up.bias: this is every graph; no node"
        )
        assert "● model.layers.3.up.bias" in it.here()
        await it.press("u")
        assert "No node that was read saved model.layers.3.up.bias" in it.it.notes()
