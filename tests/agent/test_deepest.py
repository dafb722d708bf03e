"""How deep a graph is, from the memory of real nodes: custom ones and those of a real program that sums its losses."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from tensortui.agent import deepest
from tensortui.agent.deepest import Deepest
from tensortui.agent.grad_fn import NodeNames

SUMMING = """
import sys, torch
weight = torch.ones(3, requires_grad=True)
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value): return value * 2
    @staticmethod
    def backward(ctx, gradient): return gradient * 2
total = plain = torch.zeros(())
START_AGENT
print("READY", flush=True)
for line in sys.stdin:
    for _ in range(50):
        loss = Twice.apply(weight).sum()
        total = total + loss
        plain = plain + loss.item()
    print("DONE", flush=True)
"""


@pytest.fixture(scope="module")
def nodes() -> NodeNames:
    found = NodeNames(torch)
    assert found.usable
    return found


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 2


def chain(length: int) -> torch.Tensor:
    made = torch.ones(2, requires_grad=True)
    for _ in range(length):
        made = made.exp()
    return made


def test_the_longest_path_is_told_of_each_tensor(nodes: NodeNames) -> None:
    leaf = torch.ones(2, requires_grad=True)
    short = leaf * 2
    branched = chain(100) + short
    view = branched[0]
    tensors = [leaf, torch.ones(2), short, branched, view, Twice.apply(branched), chain(7)]
    assert nodes.depths([id(one) for one in tensors]) == [0, 0, 1, 101, 102, 102, 7]


def test_no_node_gets_a_python_object_and_no_address_is_believed(nodes: NodeNames) -> None:
    tensor = chain(40)
    gc.collect()
    somewhere = [object() for _ in range(100)]
    wrong = [0, 1, 8, 1 << 20, (1 << 64) - 8, *(id(one) for one in somewhere)]
    assert nodes.depths([*wrong, id(tensor)]) == [0] * len(wrong) + [40]
    assert not [thing for thing in gc.get_objects() if type(thing).__name__ == "ExpBackward0"]


def test_where_the_length_cannot_be_learned_nothing_is_told(nodes: NodeNames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_path", 0)
    assert nodes.depths([id(chain(40))]) == [0]


def test_the_deepest_come_first_and_all_have_their_turn(nodes: NodeNames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepest, "NEWEST", 10)
    monkeypatch.setattr(deepest, "IN_TURN", 10)
    deep = [chain(50), chain(60)]
    tensors = [*deep, *(chain(1) for _ in range(40)), chain(40)]
    one = Deepest(nodes)
    for number, tensor in enumerate(tensors):
        one.note(number, id(tensor), True)
    told = []
    for _ in range(8):
        for _ in one.look():
            pass
        told.append(one.told)
    assert told[0][-1] == (42, 40)  # the newest are looked at each time
    assert told[4:] == [[(1, 60), (0, 50), (42, 40)]] * 4  # what was told once is looked at again
    one.forget(1)
    one.note(0, id(deep[0]), False)
    for _ in one.look():
        pass
    assert one.told == [(42, 40)]


def test_a_sum_of_losses_is_told_with_each_sample(program: Any, connect: Any) -> None:
    process, path = program(SUMMING)
    client = connect(path)
    client.refresh()
    for steps in (50, 100, 150):
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "DONE\n"
        header = client.refresh()
        names = {number: row["names"][0] for number, row in client.tables["tensors"].items() if row["names"]}
        assert [(names[number], depth) for number, depth in header["depths"]] == [("total", steps + 2)]
