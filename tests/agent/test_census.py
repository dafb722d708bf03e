"""Enumeration: the hook, the scans and the coverage that says what they miss, on real tensors of this process."""

from __future__ import annotations

import collections
import gc
import re
import time
import weakref
from collections.abc import Generator
from typing import Any

import pytest
import torch

from tensortui.agent import coverage, names
from tensortui.agent import enumerate as enumeration
from tensortui.agent.census import Census, Context
from tensortui.agent.dense import Dense
from tensortui.agent.grad_fn import NodeNames
from tensortui.agent.gradients import GradientPointers
from tensortui.agent.guard import Alone
from tensortui.agent.names import revisit_of
from tensortui.agent.rows import cell
from tensortui.agent.sampler import Sampler
from tensortui.agent.sparse import SparseSize
from tensortui.agent.storages import Size
from tensortui.wire.messages import INPUT, NOT_YET, PARAMETER


def finish(work: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@pytest.fixture
def sampler() -> Sampler:
    gc.collect()  # what earlier tests left must not die in the middle of one
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
        assert sampler.reasons() == [names.NOT_YET, NOT_YET]
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


def look_often(sampler: Sampler, times: int) -> None:
    for _ in range(times):
        with Alone():  # as within one slice of the loop
            finish(sampler.take_newest())


def test_few_that_were_missed_are_told_once_they_are_seen_to_stay_and_are_then_found(sampler: Sampler) -> None:
    class Mine(torch.Tensor):
        pass

    first = torch.zeros(2).as_subclass(Mine)
    gc.collect()  # what goes later would seem to be a tensor less
    finish(sampler.start())
    kept = [torch.zeros(2).as_subclass(Mine), torch.zeros(2), torch.zeros(2)]
    gc.collect()
    sampler.coverage._not_before = 0.0
    look_often(sampler, coverage.SEVERAL - 1)
    assert not sampler.coverage.audit_due(sampler.young, sampler.types)
    look_often(sampler, 1)
    assert sampler.coverage.audit_due(sampler.young, sampler.types)
    look_often(sampler, coverage.MANY - coverage.SEVERAL - 1)
    assert sampler.coverage.reasons() == []
    look_often(sampler, 1)
    (reason,) = sampler.coverage.reasons()  # other references to the classes may come and go with what tests leave
    assert re.fullmatch("about [2-4] tensors are alive but not found yet", reason)
    finish(sampler.audit())
    assert all(sampler.census.find(one) for one in [first, *kept])
    look_often(sampler, coverage.MANY)
    assert sampler.coverage.reasons() == []


def test_what_comes_and_goes_is_not_taken_for_missed(sampler: Sampler) -> None:
    finish(sampler.start())
    for _ in range(coverage.MANY):
        references = [torch.Tensor] * 3
        look_often(sampler, coverage.SEVERAL - 1)
        references.clear()
        look_often(sampler, 1)
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


def test_a_type_that_died_is_looked_for_no_more_whoever_got_its_address(sampler: Sampler) -> None:
    finish(sampler.start())
    for _ in range(200):
        mine = type("Mine", (torch.nn.Module,), {})
        finish(sampler.types.refresh())
        at = id(mine)
        assert at in sampler.types.wanted
        del mine
        gc.collect()
        point = collections.namedtuple("point", "x")  # its instances take no weak reference
        if id(point) == at:
            break
    else:
        pytest.skip("no address was used again")
    points = [point([]) for _ in range(5)]
    sampler.young.look()
    assert at not in sampler.types.wanted
    finish(sampler.drain())
    assert len(points) == 5


def test_a_scan_of_the_lists_keeps_nothing_alive(sampler: Sampler) -> None:
    finish(sampler.types.refresh())
    kept = [torch.zeros(2) for _ in range(3000)]
    gc.collect()
    for _ in enumeration.scan_generations(sampler.young):
        one = weakref.ref(kept.pop(0))
        assert one() is None
    assert len(sampler.young.found) >= len(kept) > 2000


def test_all_that_torch_is_called_for_is_learned_before_any_piece(sampler: Sampler) -> None:
    """An operator of torch gives up the interpreter lock: the learners refuse to be made in a piece."""
    model = torch.nn.Linear(3, 3)
    loss = model(torch.ones(2, 3)).sum()
    work = [sampler.start, sampler.readings.read_all, sampler.run_names, sampler.run_graph, sampler.drain]
    for each in work:
        one = each()
        while True:
            with Alone():
                if next(one, finish) is finish:
                    break
    graphs = sampler.walk_graph(None, 100)
    with pytest.raises(StopIteration):
        while True:
            with Alone():
                next(graphs)
    for learner in (Dense, Size, GradientPointers, NodeNames, SparseSize):
        with pytest.raises(AssertionError, match="the lock would be given up"), Alone():
            learner(torch)
    del loss


def test_what_is_found_while_a_table_is_compacted_is_read_later(sampler: Sampler) -> None:
    """The loop may run an audit between two pieces of that."""
    kept = [torch.empty(place % 7 + 1) for place in range(300)]
    finish(sampler.start())
    finish(sampler.readings.read_all())
    words = sampler.readings.tensors.dictionary("shape")
    for place in range(60_000):
        words.index((1, 2, 3, place))
    front = sampler.compact()
    for _ in range(10):
        next(front)
    more = [torch.empty(3, 5) for _ in range(10)]
    sampler.young.look()
    finish(enumeration.absorb(sampler.young, sampler.census, sampler.readings.read_newest))
    finish(front)
    finish(sampler.readings.read_fresh())
    tracked = sampler.census.find(more[0])
    assert tracked is not None
    shapes = sampler.readings.tensors.dictionary("shape").entries
    assert shapes[cell(sampler.readings.tensors.rows[tracked.id], 4)] == (3, 5)
    assert (1, 2, 3, 0) not in shapes
    assert len(kept) == 300


def test_words_are_those_of_the_table_when_compacting_is_given_up(sampler: Sampler) -> None:
    kept = [torch.zeros(2) for _ in range(5)]
    finish(sampler.start())
    finish(sampler.readings.read_all())
    for place in range(60_000):
        sampler.readings.tensors.dictionary("shape").index((1, 2, 3, place))
        sampler.readings.storage_table.dictionary("device").index(str(place))
    work = sampler.compact()
    while sampler.readings.tensors.epoch == 0:
        next(work)
    work.close()
    readings = sampler.readings
    assert all(readings._words[name] is readings.tensors.dictionary(name) for name in readings._words)
    assert len(kept) == 5


def test_taking_in_what_was_found_ends_however_much_more_comes(sampler: Sampler) -> None:
    finish(sampler.start())
    more = torch.zeros(2)
    for _ in sampler.drain():
        sampler.young.found.extend([weakref.ref(more)] * 1000)
    assert sampler.census.find(more)


@pytest.mark.parametrize(("complete", "name"), [(False, "weight"), (True, "p @ step() x.py:1")])
def test_a_pass_that_was_cut_takes_no_lasting_name_away(sampler: Sampler, complete: bool, name: str) -> None:
    finish(sampler.start())
    tensor = torch.zeros(2)
    tracked = sampler.census.track(tensor)
    assert tracked is not None
    tracked.names, tracked.found = "weight", PARAMETER
    context = Context(torch, sampler.census, [])
    context.note(tracked, "p @ step() x.py:1", INPUT)
    finish(sampler._apply("names", context, sampler.census.clock(), complete))
    assert tracked.names == name


@pytest.mark.parametrize(("seconds", "name"), [(1.0, "hist[3]"), (-1.0, "pool[3]")])
def test_a_pass_undoes_nothing_that_a_sample_has_seen_since_it_began(
    sampler: Sampler, seconds: float, name: str
) -> None:
    finish(sampler.start())
    tensor = torch.zeros(2)
    tracked = sampler.census.track(tensor)
    assert tracked is not None
    for prefix in ("hist", "pool"):
        revisit_of(sampler.census).note("__main__", lambda way, kinds: None, ((0, prefix),), prefix)
    context = Context(torch, sampler.census, [])
    context.note(tracked, "pool[3]")
    started = sampler.census.clock()
    tracked.names, tracked.told = "hist[3]", started + seconds
    finish(sampler._apply("names", context, started, True))
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


def test_what_a_cut_pass_leaves_alone_is_gone_through_in_pieces(sampler: Sampler) -> None:
    kept = [torch.zeros(1) for _ in range(50)]
    finish(sampler.start())
    context = Context(torch, sampler.census, [])
    pieces = sum(1 for _ in sampler._apply("names", context, sampler.census.clock(), False))
    assert pieces >= len(kept)
