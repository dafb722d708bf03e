"""Hooks on nodes and on tensors that are no leaves, counted on real ones of every sort."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensortui.agent.memory import Memory
from tensortui.agent.node_hooks import NodeHooks
from tensortui.sources.messages import GraphParts


@pytest.fixture(scope="module")
def hooks() -> NodeHooks:
    return NodeHooks(torch, Memory())


def on_tensor(tensor: Any) -> Any:
    return tensor.register_hook(lambda gradient: gradient)


def on_node(tensor: Any) -> Any:
    return tensor.grad_fn.register_hook(lambda inputs, outputs: None)


def before_node(tensor: Any) -> Any:
    return tensor.grad_fn.register_prehook(lambda outputs: None)


@pytest.mark.parametrize("register", [on_tensor, on_node, before_node])
def test_hooks_are_counted_until_they_are_removed(hooks: NodeHooks, register: Callable[[Any], Any]) -> None:
    made = torch.nn.Linear(4, 4)(torch.ones(2, 4))
    beside = made.relu()
    assert hooks.count(made.grad_fn) == (0, 0)
    handles = [register(made) for _ in range(3)]
    assert hooks.count(made.grad_fn) == (3, 0)
    handles.pop().remove()
    assert hooks.count(made.grad_fn) == (2, 0)
    for handle in handles:
        handle.remove()
    assert hooks.count(made.grad_fn) == hooks.count(beside.grad_fn) == (0, 0)


def test_outputs_that_retain_their_gradient_are_told_apart(hooks: NodeHooks) -> None:
    first, second, _ = torch.ones(3, requires_grad=True).unbind()
    first.retain_grad()
    assert hooks.count(first.grad_fn) == (0, 1)
    second.retain_grad()
    second.retain_grad()
    on_tensor(second)
    on_node(first)
    assert hooks.count(first.grad_fn) == (2, 2)


def test_what_is_not_certain_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeHooks, "_holds", lambda self, vector, act: False)
    monkeypatch.setattr(NodeHooks, "_learn_retained", lambda self: 1 / 0)
    blind = NodeHooks(torch, Memory())
    assert (blind.vectors, blind.retained) == ([], 0)
    made = torch.ones(2, requires_grad=True).exp()
    on_node(made)
    made.retain_grad()
    assert blind.count(made.grad_fn) == (0, 0)


def test_words_that_are_no_vector_are_not_followed(hooks: NodeHooks) -> None:
    place = hooks.vectors[0].place
    for words in ([1, 2, 3], [1 << 20, (1 << 20) + 4, (1 << 20) + 8], [1 << 20, 1 << 40, 1 << 40], [1 << 20] * 3):
        assert hooks._count([0] * place + words, hooks.vectors[0]) == 0


def test_learning_leaves_nothing_behind() -> None:
    NodeHooks(torch, Memory())
    gc.collect()
    before = len(gc.get_objects())
    NodeHooks(torch, Memory())
    assert len(gc.get_objects()) <= before + 5


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


def test_the_graph_tells_of_them_and_of_those_on_leaves_once(agent: Any, hooks: NodeHooks) -> None:
    leaf = torch.ones(3, requires_grad=True)
    on_tensor(leaf)
    middle = Custom.apply(leaf * 2)
    last = (middle + 1).exp()
    on_tensor(last)
    before_node(last)
    last.retain_grad()
    body = agent().graph([last])
    parts = GraphParts()
    parts.add({"roots": body["roots"], "nodes": body["nodes"], "cut": body["cut"]})
    told = {node.name: (node.hooks, node.retained) for node in parts.graph().nodes}
    assert told["ExpBackward0"] == (2, 1)
    assert told["AccumulateGrad"] == (1, 0)
    assert told["AddBackward0"] == told["MulBackward0"] == told["CustomBackward"] == (0, 0)


def test_those_on_what_a_function_of_python_made_are_counted_too(agent: Any, hooks: NodeHooks) -> None:
    made = Custom.apply(torch.ones(3, requires_grad=True) * 2)
    other = Custom.apply(made)
    assert hooks.count(made.grad_fn) == (0, 0)
    on_tensor(made)
    before_node(made)
    made.grad_fn.register_hook(lambda *_: None)
    made.retain_grad()
    assert hooks.count(made.grad_fn) == (3, 1)
    assert hooks.count(other.grad_fn) == (0, 0)
    told = [(node[1], node[5].get("hooks"), node[5].get("retained")) for node in agent().graph([other])["nodes"]]
    assert told[:2] == [("CustomBackward", None, None), ("CustomBackward", 3, 1)]
