"""A search for holders that found nothing, for what it looked for had moved meanwhile, is made once more."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from tensortui.agent.holders import Search
from tensortui.agent.sampler import Sampler
from tensortui.agent.searches import Searches


def result(work: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        while True:
            next(work)
    return end.value.value


def test_what_had_moved_is_found_by_another_search(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    module.kept = [torch.zeros(3)]
    sampler = Sampler(torch, 1.0, time.perf_counter)
    for _ in sampler.start():
        pass
    tracked = sampler.census.find(module.kept[0])
    run, made = Search.run, []

    def moved(self: Any, *given: Any, **more: Any) -> Any:
        targets = yield from run(self, *given, **more)
        made.append(self)
        if len(made) == 1:
            for node in self.nodes.values():
                node.down, node.roots, node.seen = [], [], 0
        return targets

    monkeypatch.setattr(Search, "run", moved)
    searches = Searches(sampler, None)  # type: ignore[arg-type]
    answer = result(searches._find({"request": 1, "tensor": 7, "limit": None}, tracked))
    assert len(made) > 1
    assert ["index", "[0]"] in [list(step) for chain in answer["chains"] for step in chain]
