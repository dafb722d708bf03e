"""Only so many nodes of very deep graphs are touched at a time; what is shallow is read all the same."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tensortui.agent import graph, nodes
from tensortui.agent.nodes import Depths

SHALLOW, DEEP = 100, 50


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make chains of hundreds of nodes very deep ones."""
    monkeypatch.setattr(nodes, "DEPTHS", Depths())
    monkeypatch.setattr(nodes, "SHALLOW", SHALLOW)
    monkeypatch.setattr(nodes, "DEEP", DEEP)
    gc.collect()
    yield


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def chain(length: int, states: list[Any] | None = None, step: Any = torch.Tensor.neg) -> Any:
    y = torch.ones(1, requires_grad=True)
    for _ in range(length):
        y = step(y)
        if states is not None:
            states.append(y)
    return y


def touched(name: str) -> int:
    """How many nodes of a class have a Python object."""
    return sum(type(one).__name__ == name for one in gc.get_objects())


def names(body: dict[str, Any]) -> list[str]:
    return sorted(node[1] for node in body["nodes"])


def test_beside_a_chain_that_used_up_all_there_is_room_for_what_is_shallow_is_read(agent: Any) -> None:
    deep = chain(400)
    a = torch.ones(1, requires_grad=True)
    small = (a.exp() * 2).sum()
    again = Twice.apply(small)
    one = agent()
    body = one.graph()
    assert nodes.DEPTHS.full and nodes.DEPTHS.exhausted
    assert body["cut"] is True and graph.TOO_DEEP in body["reasons"]
    whole = ["AccumulateGrad", "ExpBackward0", "MulBackward0", "SumBackward0", "TwiceBackward"]
    for _ in range(2):
        body = one.graph([again])
        assert names(body) == whole
        assert (body["cut"], body["reasons"]) == (False, [])
    del deep


def test_what_was_touched_before_is_read_again(agent: Any) -> None:
    deep = chain(400)
    one = agent()
    first = one.graph([deep])
    second = one.graph([deep])
    assert len(first["nodes"]) == len(second["nodes"]) == DEEP
    assert "cut" in first["nodes"][-1][5] and "cut" not in first["nodes"][0][5]


def test_of_deep_graphs_no_more_is_touched_than_there_is_room_for(agent: Any) -> None:
    """Not even the node that made a tensor, however many tensors of one chain live."""
    states: list[Any] = []
    chain(400, states)
    one = agent()
    for _ in range(2):
        body = one.graph()
        assert DEEP < touched("NegBackward0") <= DEEP + SHALLOW + 1
    assert len([name for name in names(body) if name == "NegBackward0"]) == DEEP + SHALLOW
    assert one.saved().complete is False
    assert graph.TOO_DEEP in one.context.reasons


def test_a_node_that_leads_to_all_of_a_deep_chain_is_not_followed(agent: Any) -> None:
    states: list[Any] = []
    chain(400, states)
    total = torch.stack(states).sum()
    del states
    body = agent().graph([total])
    assert names(body) == ["StackBackward0", "SumBackward0"]
    assert body["cut"] is True
    assert touched("NegBackward0") == 0


def test_what_lies_behind_nodes_of_python_is_counted(agent: Any) -> None:
    deep = chain(200, step=lambda one: Twice.apply(one.neg()))
    a = torch.ones(1, requires_grad=True)
    small = Twice.apply(Twice.apply(a).neg())
    one = agent()
    for _ in range(2):
        body = one.graph([deep])
        assert names(body).count("NegBackward0") == DEEP
        assert touched("NegBackward0") == DEEP
    assert names(one.graph([small])) == ["AccumulateGrad", "NegBackward0", "TwiceBackward", "TwiceBackward"]


def test_room_is_made_when_deep_nodes_die(agent: Any) -> None:
    deep = chain(400)
    one = agent()
    one.graph([deep])
    assert nodes.DEPTHS.full
    deep = chain(400)
    nodes.DEPTHS.forget_dead()
    assert not nodes.DEPTHS.full and not nodes.DEPTHS.exhausted
    assert len(one.graph([deep])["nodes"]) == DEEP


STACK = """
    import sys, time, torch
    sys.path.insert(0, {here!r})
    from tensortui.agent import graph
    from tensortui.agent.census import Census, Context
    from tensortui.agent.read import TensorReader
    from tensortui.agent.storages import Size
    census = Census(time.monotonic)
    census.base = torch._C.TensorBase
    census.types.ids.add(id(torch.Tensor))
    census.memory["reader"] = TensorReader(torch, Size(torch).of)
    y, states = torch.ones(1, requires_grad=True), []
    for _ in range(70_000):
        y = y * 1.0
        states.append(y)
    y = torch.stack(states)
    del states
    census.track(y)
    for _ in graph.walk(Context(torch, census, []), None, 10_000): pass
    while census.bury(): pass
    del y
    print("alive")
"""


def test_reading_a_stack_of_all_states_of_a_long_sequence_is_not_deadly() -> None:
    code = textwrap.dedent(STACK).format(here=str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=100,
                          check=False)  # fmt: skip
    assert done.stdout == "alive\n", (done.returncode, done.stderr[-1000:])
