"""What a checkpoint keeps to run its forward again, found behind the hooks of what it did not save."""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tensortui.agent.census import Context
from tensortui.agent.checkpoints import Checkpoints
from tensortui.agent.graph import NO_CHECKPOINT, Walker
from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import Keeping, Reach, Saves
from tensortui.analysis.graph.completing import complete
from tensortui.model import Graph, Process, Sample
from tensortui.sources.messages import GraphParts

SIZE = 64 * 1024 * 4  # bytes of one activation


def kept(body: dict[str, Any], node: str) -> dict[str, int]:
    """What checkpoints keep, by name, of the nodes of that name."""
    return {
        entry[0]: entry[1]
        for each in body["nodes"]
        if each[1] == node
        for entry in each[4]
        if entry[0].startswith("checkpoint") and not entry[5]
    }


def layered(count: int) -> tuple[torch.Tensor, list[Any]]:
    """A loss behind `count` layers with a checkpoint each, and references to their inputs."""
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU())
    h = torch.randn(1024, 64, requires_grad=True) * 1
    inputs = []
    for _ in range(count):
        inputs.append(weakref.ref(h))
        h = checkpoint(layer, h, use_reentrant=False)
    return h.sum(), inputs


def test_the_inputs_of_checkpointed_layers_count_as_kept_by_the_graph(agent: Any) -> None:
    loss, inputs = layered(4)
    gc.collect()
    alive = [ref() for ref in inputs]
    assert None not in alive
    one = agent()
    ids = {one.census.track(tensor).id for tensor in alive}
    del alive
    body = one.graph([loss])
    saved = [entry for node in body["nodes"] for entry in node[4]]
    assert {entry[1] for entry in saved if entry[0] == "checkpoint[0]"} == ids
    assert body["reasons"] == []
    parts = GraphParts()
    parts.add({"roots": body["roots"], "nodes": body["nodes"], "cut": body["cut"]})
    graph: Graph = parts.graph()
    sample = complete(graph, Sample(1, 0.0, Process(1)))
    reach = Reach(graph)
    keeping = Keeping(reach, Saves(reach, sample, Accounts(sample)))
    assert keeping.saved_bytes // SIZE == len(ids)
    assert keeping.kept_bytes >= len(ids) * SIZE
    del loss
    gc.collect()
    assert [ref() for ref in inputs] == [None] * 4


def test_they_are_named_and_a_node_that_was_released_keeps_none(agent: Any) -> None:
    loss, inputs = layered(1)
    one = agent().saved()
    assert one.of(inputs[0]())[0] == ["checkpoint[0] saved by GeluBackward0", "checkpoint[0] saved by AddmmBackward0"]
    loss.backward()
    assert kept(agent().graph([loss]), "GeluBackward0") == {}


def test_arguments_of_any_form_and_checkpoints_in_checkpoints(agent: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    scale, shift, outer = x * 2, x * 3, x * 4
    made = checkpoint(lambda pair, by=None: (pair[0] * by).sin(), [shift, 5], by=scale, use_reentrant=False)

    def inner(value: torch.Tensor) -> Any:
        return checkpoint(lambda one: one.exp(), value * 2, use_reentrant=False)

    nested = checkpoint(inner, outer, use_reentrant=False)
    one = agent()
    body = one.graph([made])
    number = {name: one.census.track(tensor).id for name, tensor in (("a", shift), ("b", scale), ("c", outer))}
    assert kept(body, "SinBackward0") == {"checkpoint[0][0]": number["a"], "checkpoint['by']": number["b"]}
    assert kept(one.graph([nested]), "ExpBackward0") == {"checkpoint[0]": number["c"]}


def test_what_cannot_be_read_is_said(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loss, _ = layered(1)
    monkeypatch.setattr(sys.modules["torch.utils.checkpoint"], "_CheckpointFrame", type("Other", (), {}))
    one = agent()
    body = one.graph([loss])
    assert kept(body, "GeluBackward0") == {}
    assert body["reasons"] == [NO_CHECKPOINT]
    assert one.saved().complete is False


def test_no_code_of_the_program_runs_for_it(agent: Any) -> None:
    calls = []

    class Watched(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            calls.append("items")
            return super().items()

        def __iter__(self) -> Any:
            calls.append("iter")
            return super().__iter__()

    x = torch.ones(3, requires_grad=True)
    made = checkpoint(lambda one, other: one.sin(), x, Watched(a=x * 2), use_reentrant=False)
    calls.clear()
    assert set(kept(agent().graph([made]), "SinBackward0")) == {"checkpoint[0]"}
    assert calls == []


def test_a_hook_that_only_looks_like_one_is_told_as_unread() -> None:
    def unpack(packed: Any) -> Any:
        return packed

    unpack.__module__ = "torch.utils.checkpoint"
    reader = Checkpoints(SimpleNamespace(), torch._C.TensorBase, None, None)  # type: ignore[arg-type]
    assert reader.is_hook(unpack)
    assert list(reader.kept([unpack], list)) == []
    assert reader.unread is True


def test_what_reads_nodes_holds_no_checkpoint_between_them(agent: Any) -> None:
    loss, inputs = layered(2)
    one = agent()
    names = []

    def visit(walker: Walker, node: Any, _: list[Any]) -> None:
        if walker.reader.name(node) == "GeluBackward0":
            names.extend(name for name, *_ in walker.saved(node, False))

    walker = Walker(Context(torch, one.census, []), torch._C.TensorBase, 100)
    one.run(walker.walk([one.census.track(loss)], visit))
    assert names.count("checkpoint[0]") == 2
    del loss
    gc.collect()
    assert [ref() for ref in inputs] == [None] * 2
    assert walker.reader.can_read_saved  # it lives on


def test_the_name_of_a_functions_module_may_be_anything() -> None:
    asked = []

    class Name:
        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return True

        def __ne__(self, other: object) -> bool:
            asked.append(other)
            return False

        __hash__ = None  # type: ignore[assignment]

    def unpack(packed: Any) -> Any:
        return packed

    unpack.__module__ = Name()  # type: ignore[assignment]
    reader = Checkpoints(SimpleNamespace(), torch._C.TensorBase, None, None)  # type: ignore[arg-type]
    assert not reader.is_hook(unpack)
    assert asked == []
