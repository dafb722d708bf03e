"""Tensors that were given other storages in place are found by comparing words, without reading every tensor anew."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest
import torch

from tensortui.agent import moved
from tensortui.agent.sampler import Sampler


def finish(work: Generator[Any, None, Any]) -> None:
    for _ in work:
        pass


@pytest.fixture
def sampler() -> Sampler:
    sampler = Sampler(torch, 1.0, time.perf_counter)
    finish(sampler.types.refresh())
    return sampler


def read(sampler: Sampler, tensors: list[Any]) -> None:
    for tensor in tensors:
        sampler.census.track(tensor)
    finish(sampler.readings.read_fresh())


def waiting(sampler: Sampler) -> set[int]:
    return {id(sampler.census.by_id[number].ref()) for number in sampler.readings.moved.waiting}


def total(sampler: Sampler) -> int:
    table = sampler.readings.storage_table
    return sum(int.from_bytes(row[24:32], "little") for row in table.rows.values())


def test_parameters_that_are_made_half_are_said_and_read_again(sampler: Sampler) -> None:
    kept = [torch.nn.Parameter(torch.ones(100)) for _ in range(700)]
    read(sampler, kept)
    assert total(sampler) == 700 * 400
    finish(sampler.readings.moved.compare())
    assert waiting(sampler) == set()
    for one in kept[300:]:
        one.data = one.data.half()
    finish(sampler.readings.moved.compare())
    assert waiting(sampler) == set(map(id, kept[300:]))
    assert [one for one in sampler.reasons() if one == moved.CHANGED % 400]
    finish(sampler.readings.read_fresh())
    assert total(sampler) == 300 * 400 + 400 * 200
    finish(sampler.readings.moved.compare())
    assert waiting(sampler) == set()


def test_a_storage_that_is_resized_is_noticed_and_nothing_else_is(sampler: Sampler) -> None:
    base = torch.zeros(8, 8)
    kept = [
        base,
        base[2],
        torch.zeros(3, device="meta"),
        torch.zeros(0),
        torch.zeros(3).share_memory_(),
        torch._lazy_clone(torch.zeros(5)),
        torch.zeros(3, 3).to_sparse(),
        torch.nn.Parameter(torch.zeros(4)),
        torch.nn.parameter.UninitializedParameter(),
        torch.quantize_per_tensor(torch.zeros(4), 0.1, 0, torch.qint8),
    ]
    read(sampler, kept)
    finish(sampler.readings.moved.compare())
    assert waiting(sampler) == set()
    kept[3].untyped_storage().resize_(800)
    base.add_(1)
    kept[7].requires_grad_(False)
    finish(sampler.readings.moved.compare())
    assert waiting(sampler) == {id(kept[3])}


def test_those_that_are_gone_are_compared_no_more(sampler: Sampler) -> None:
    kept = [torch.zeros(5) for _ in range(600)]
    read(sampler, kept)
    del kept[100:500]
    finish(sampler.readings.bury())
    kept[150].data = torch.zeros(9)
    finish(sampler.readings.moved.compare())
    assert waiting(sampler) == {id(kept[150])}
    assert len(sampler.readings.moved._numbers) == len(sampler.readings.moved._at)


def test_where_they_are_many_they_are_compared_in_turn_and_that_is_said(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [torch.zeros(1) for _ in range(1000)]
    read(sampler, kept)
    compare = sampler.readings.moved
    finish(compare.compare())
    monkeypatch.setattr(moved, "BATCH", 300)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(moved, "ENOUGH", 1e-9)
    kept[999].data = torch.zeros(2)
    for _ in range(4):
        assert waiting(sampler) == set()
        assert compare.reasons() == []
        now += 4
        finish(compare.compare())
    assert waiting(sampler) == {id(kept[999])}
    now += moved.OLD + 1
    assert compare.reasons()[1:] == [moved.IN_TURN % (moved.OLD + 1)]
