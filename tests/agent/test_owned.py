"""Tensors that only C++ keeps alive: before torch 2.10 none of them is touched, what else is known of them is said."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tensortui.agent.gradients import GradientPointers
from tensortui.agent.owned import UNREAD, Ownership
from tensortui.agent.sampler import Sampler
from tensortui.wire.messages import CATEGORIES

OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10)


def finish(work: Any) -> None:
    for _ in work:
        pass


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    yield Sampler(torch, 1.0, time.perf_counter)


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The addresses of the tensors that C++ is to keep alive, whatever torch this is."""
    owned: set[int] = set()
    monkeypatch.setattr(Ownership, "is_safe", lambda self, address: address not in owned)
    return owned


def test_it_is_known_whether_this_torch_turns_the_ownership_round() -> None:
    ownership = Ownership(torch)
    assert ownership.turns is OLD
    leaf = torch.ones(3, requires_grad=True)
    (leaf * 2).sum().backward()
    gradient = leaf.grad
    address = id(gradient)
    assert ownership.is_safe(address)
    del gradient
    assert ownership.is_safe(address) is not OLD


def test_such_a_tensor_is_not_touched_and_that_is_said(sampler: Sampler, turned: set[int]) -> None:
    tensors = [torch.ones(3, requires_grad=True).exp() for _ in range(3)]
    turned.add(id(tensors[1]))
    finish(sampler.start())
    known = [sampler.census.find(one) for one in tensors]
    finish(sampler.readings.read_all())
    assert [one is not None and one.row is not None for one in known] == [True, False, True]
    assert UNREAD % 1 in sampler.reasons()
    assert known[1] is not None
    graph = sampler.walk_graph([known[1].id], 100)
    with pytest.raises(StopIteration) as end:
        while True:
            next(graph)
    assert end.value.value["nodes"] == []
    turned.clear()
    finish(sampler.readings.read_all())
    assert known[1].row is not None
    assert UNREAD % 1 not in sampler.reasons()


def test_the_row_of_before_stays(sampler: Sampler, turned: set[int]) -> None:
    tensor = torch.ones(3)
    finish(sampler.start())
    finish(sampler.readings.read_all())
    tracked = sampler.census.find(tensor)
    assert tracked is not None
    before = tracked.row
    turned.add(id(tensor))
    finish(sampler.readings.read_all())
    assert tracked.row is before is not None
    assert not [reason for reason in sampler.reasons() if reason.startswith(UNREAD[:20])]


def test_a_gradient_that_is_kept_so_is_told_from_memory(
    sampler: Sampler, turned: set[int], monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    module.weight = torch.ones(3, requires_grad=True)
    (module.weight * 2).sum().backward()
    gradient = module.weight.grad
    turned.add(id(gradient))
    all_of = GradientPointers.all_of

    def marked(self: Any, objects: list[int]) -> list[Any]:
        return [(*found[:3], bool(found[2] and turned)) for found in all_of(self, objects)]

    monkeypatch.setattr(GradientPointers, "all_of", marked)
    finish(sampler.start())
    finish(sampler.readings.read_all())
    finish(sampler.run_names())
    finish(sampler.run_direct())
    (row,) = sampler.readings.unwrapped.by_leaf.values()
    assert (row.names, CATEGORIES[row.found]) == ("program.weight.grad", "gradient")
    assert not [reason for reason in sampler.reasons() if reason.startswith(UNREAD[:20])]
    tracked = sampler.census.find(gradient)
    assert tracked is not None
    assert tracked.row is None
    turned.clear()  # the program has asked for it
    finish(sampler.run_direct())
    assert len(sampler.readings.unwrapped.by_leaf) == 1
    finish(sampler.readings.read_fresh())
    assert tracked.row is not None
    finish(sampler.run_direct())
    assert not sampler.readings.unwrapped.by_leaf
    assert tracked.row is not None
    assert (tracked.names, CATEGORIES[tracked.found]) == ("program.weight.grad", "gradient")
