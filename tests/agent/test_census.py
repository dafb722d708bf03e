"""Enumeration: the hook, the scans and the coverage that says what they miss, on real tensors of this process."""

from __future__ import annotations

import gc
import re
import time
import weakref
from collections.abc import Generator
from typing import Any

import pytest
import torch

from tensortui.agent import enumerate as enumeration
from tensortui.agent.census import Census, Context
from tensortui.agent.rows import cell
from tensortui.agent.sampler import Sampler
from tensortui.wire.messages import INPUT, PARAMETER


def finish(work: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@pytest.fixture
def sampler() -> Sampler:
    return Sampler(torch, 1.0, time.perf_counter)


@pytest.mark.parametrize("reason", ["", "as if pools could not be read"])
def test_the_scan_finds_every_tensor_module_and_optimizer(sampler: Sampler, reason: str) -> None:
    sampler.scanner.reason = reason
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tensors = [torch.zeros(2) for _ in range(300)]
    finish(sampler.start())
    assert all(sampler.census.find(one) for one in [*tensors, *model.parameters()])
    assert any(one is model for one in sampler.census.modules)
    assert any(one is optimizer for one in sampler.census.optimizers)
    assert sampler.coverage.reasons() == []


def test_frozen_objects_are_found_in_the_pools_and_missed_honestly_without(sampler: Sampler) -> None:
    kept = [torch.zeros(2) for _ in range(10)]
    gc.freeze()
    try:
        finish(sampler.start())
        assert all(sampler.census.find(one) for one in kept)
        assert sampler.reasons() == ["the autograd graph was not looked through yet"]
        sampler.scanner.reason = "as if pools could not be read"
        sampler.coverage._not_before, sampler.types.grown = 0.0, True
        finish(sampler.audit())
        assert any("gc.freeze() hides" in one for one in sampler.reasons())
    finally:
        gc.unfreeze()


def test_what_has_moved_on_before_anybody_looked_is_missed_aloud_and_found_by_the_next_scan(sampler: Sampler) -> None:
    finish(sampler.start())
    kept = [*map(torch.nn.Parameter, torch.zeros(30, 2)), *torch.zeros(30, 2)]
    gc.collect()
    finish(sampler.drain())
    assert not any(sampler.census.find(one) for one in kept)
    (reason,) = sampler.coverage.reasons()
    assert re.fullmatch("about (5[5-9]|6[0-5]) tensors are alive but not found yet", reason)
    sampler.coverage._not_before = 0.0
    finish(sampler.audit())
    assert all(sampler.census.find(one) for one in kept)
    assert sampler.coverage.reasons() == []


def test_a_generation_that_is_found_to_be_large_is_left_alone_for_a_while(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(sampler.start())
    read: list[int] = []
    get_objects = gc.get_objects
    monkeypatch.setattr(gc, "get_objects", lambda generation: read.append(generation) or get_objects(generation))
    gc.collect()
    gc.disable()
    try:
        many = [[] for _ in range(enumeration.YOUNG_LIMIT)]  # the collector's count stays small: as many old ones die
        monkeypatch.setattr(gc, "get_count", lambda: (5, 0, 0))
        sampler.young.look()
        sampler.young.look()
    finally:
        gc.enable()
    assert read.count(0) == 1
    assert len(many) == enumeration.YOUNG_LIMIT


def test_taking_in_what_was_found_ends_however_much_more_comes(sampler: Sampler) -> None:
    finish(sampler.start())
    more = torch.zeros(2)
    for _ in sampler.drain():
        sampler.young.found.extend([weakref.ref(more)] * 1000)
    assert sampler.census.find(more)


@pytest.mark.parametrize(("complete", "name"), [(float("-inf"), "weight"), (0.0, "p @ step() x.py:1")])
def test_a_pass_that_was_cut_takes_no_lasting_name_away(sampler: Sampler, complete: float, name: str) -> None:
    finish(sampler.start())
    tensor = torch.zeros(2)
    tracked = sampler.census.track(tensor)
    assert tracked is not None
    tracked.names, tracked.found = "weight", PARAMETER
    context = Context(torch, sampler.census, [])
    context.note(tracked, "p @ step() x.py:1", INPUT)
    finish(sampler._apply("names", context, complete))
    assert tracked.names == name


def test_nothing_is_kept_alive_and_ids_are_not_used_again(sampler: Sampler) -> None:
    finish(sampler.start())
    tensor = torch.zeros(2)
    first = sampler.census.track(tensor)
    finish(sampler.readings.read_fresh())
    watch = weakref.ref(tensor)
    del tensor
    assert watch() is None
    finish(sampler.drain())
    assert first is not None
    assert first.id not in sampler.census.by_id
    assert first.id not in sampler.readings.tensors.rows
    again = torch.zeros(2)
    second = sampler.census.track(again)
    assert second is not None
    assert second.id > first.id


def test_types_are_told_apart_without_asking_them() -> None:
    class Meta(type):
        def __hash__(cls) -> int:
            raise AssertionError("the program's code was run")

        def __eq__(cls, other: object) -> bool:
            raise AssertionError("the program's code was run")

    class Odd(metaclass=Meta):
        @property
        def __class__(self) -> Any:
            raise AssertionError("the program's code was run")

    census = Census(time.perf_counter)
    census.base = torch._C.TensorBase
    census.types.ids = {id(Odd), id(torch.Tensor)}
    assert census.track(Odd()) is None
    assert census.track(torch.zeros(1)) is not None


def test_a_base_that_only_its_views_keep_is_told_from_one_that_is_held(sampler: Sampler) -> None:
    base = torch.zeros(8, 8)
    row = base[3]
    kept = torch.zeros(8, 8)
    other = kept[2]
    finish(sampler.start())
    finish(sampler.readings.read_all())
    tracked = sampler.census.find(base)
    held = sampler.census.find(kept)
    assert tracked is not None
    assert held is not None
    flags = [name for name, _ in sampler.readings.tensors.columns].index("flags")
    assert not cell(sampler.readings.tensors.rows[tracked.id], flags) & 2
    del base
    finish(sampler.readings.read_all())
    assert cell(sampler.readings.tensors.rows[tracked.id], flags) & 2
    assert not cell(sampler.readings.tensors.rows[held.id], flags) & 2
    del row, other
