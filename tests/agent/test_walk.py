"""The walk below the roots of names: in short pieces, through whatever a program holds, at no cost to it."""

import collections
import functools
import gc
import sys
import threading
import time
import types
import weakref

import pytest
import torch

from tensortui.agent import containers, inline, names, roles, variables, walk
from tensortui.agent.census import WeakBag
from tensortui.agent.guard import Alone


@pytest.fixture
def program(module):
    return module


def t(number=1):
    return torch.zeros(number)


def test_a_pass_keeps_nothing_alive(agent, program):
    program.things = [types.SimpleNamespace(tensor=t()) for _ in range(3000)]
    one = agent()
    late = []

    def drop():
        if program.things:
            ref = weakref.ref(program.things.pop().tensor)
            if ref() is not None:
                late.append(ref)

    del_count = len(program.things)
    one.names(during=drop)
    assert len(program.things) < del_count
    assert late == []


def test_containers_that_change_meanwhile_do_no_harm(agent, program):
    program.things = {number: [t()] for number in range(2000)}
    stop = []

    def change():
        number = 2000
        while not stop:
            program.things[number] = [t()]
            program.things.pop(number - 2000, None)
            number += 1
            if not number % 50:
                time.sleep(0)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        one = agent()
        for _ in range(3):
            one.names()
    finally:
        stop.append(True)
        thread.join()
    last = max(program.things)
    assert one.names().of(program.things[last][0])[0] == [f"program.things[{last}][0]"]


def test_cycles_end_and_too_much_is_said(agent, program, monkeypatch):
    loop = [t()]
    loop.append(loop)
    program.loop = loop
    assert agent().names().of(loop[0])[0] == ["program.loop[0]"]
    monkeypatch.setattr(walk, "MAX_ENTRIES", 500)
    program.many = [[t()] for _ in range(2000)]
    assert any("more objects" in reason for reason in agent().names().context.reasons)


@pytest.mark.parametrize("kind", [list, tuple, collections.deque, lambda held: dict(enumerate(held))])
def test_the_middle_that_is_left_out_is_said_unless_atoms_are_in_it(agent, program, kind):
    length = containers.HEAD + containers.TAIL + 1
    program.long = kind([[]] * length)
    assert names.ABRIDGED in agent().names().context.reasons
    program.long = kind([[]] * (length - 1))
    assert names.ABRIDGED not in agent().names().context.reasons
    program.long = kind([*range(length)])
    assert names.ABRIDGED not in agent().names().context.reasons


def test_long_containers_are_read_at_both_ends(monkeypatch):
    monkeypatch.setattr(containers, "HEAD", 10)
    monkeypatch.setattr(containers, "TAIL", 5)
    monkeypatch.setattr(containers, "LONG", 4)
    monkeypatch.setattr(containers, "FIRST", 2)
    kinds = containers.Kinds([(torch._C.TensorBase, containers.TENSOR)])
    things = [[number] for number in range(100)]
    for kind, thing in (
        (containers.LIST, things),
        (containers.TUPLE, tuple(things)),
        (containers.DEQUE, collections.deque(things)),
        (containers.DICT, dict(enumerate(things))),
    ):
        entries = list(containers.children(thing, kind, kinds))
        assert [key for _, key, _ in entries] == [*range(10), *range(99, 94, -1)]
        assert all(child == [key] for _, key, child in entries)
        for start in range(16):
            assert list(containers.children(thing, kind, kinds, start)) == entries[start:]


@pytest.mark.parametrize("kind", [list, tuple, collections.deque])
def test_what_leads_nowhere_is_passed_over_in_parts(kind):
    things = [*range(5000), [t()], *range(5000)]
    kinds = containers.Kinds([(torch._C.TensorBase, containers.TENSOR)])
    thing = kind(things)
    entries = list(containers.children(thing, kinds.of(thing), kinds))
    steps = [key if style == containers.SKIPPED else 1 for style, key, _ in entries]
    assert sum(steps) == len(things)
    assert len(steps) == 1000 + 10
    assert max(steps) <= 1000
    assert [key for _, key, child in entries if type(child) is list] == [5000]


def test_a_long_list_is_gone_through_bit_by_bit_and_starves_nobody(agent, program, monkeypatch):
    monkeypatch.setattr(walk, "MAX_SECONDS", 0.0)  # one piece for each root
    program.model = torch.nn.Linear(2, 2)
    program.optimizer = torch.optim.Adam(program.model.parameters())
    program.model(torch.ones(1, 2)).sum().backward()
    program.optimizer.step()
    program.zz = [[number, []] for number in range(3000)]
    program.zz.append([t()])
    one = agent()
    last = one.census.track(program.zz[-1][0]).id
    known = {}
    for _ in range(200):
        found = one.names()
        known.update(found.context.names)
        state = found.of(program.optimizer.state[program.model.weight]["exp_avg"])
        assert state == (["exp_avg of program.model.weight"], "optimizer")
        assert found.of(program.model.weight.grad) == (["program.model.weight.grad"], "gradient")
        assert any("more objects" in reason for reason in found.context.reasons)
        assert found.complete is False  # what it did not reach keeps its name
        if last in known:
            break
    assert known[last] == "program.zz[3000][0]"


def test_a_pass_that_leaves_things_out_gives_no_second_name(agent, program, monkeypatch):
    class Deep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

    program.zz = [[number, []] for number in range(3000)]
    deep = Deep()
    program.zz[5].append(deep)
    one = agent()
    first = one.names()
    name = "program.zz[5][2].inner.weight"
    assert first.complete
    assert first.of(deep.inner.weight)[0][0] == name
    one.census.track(deep.inner.weight).names = name  # as the sampler does
    one.census.memory["cut at"]["program"] = [len(vars(program)), 2000]
    del deep
    second = one.names()
    assert second.complete is False
    assert second.of(program.zz[5][2].inner.weight) == ([], None)


def test_attributes_are_not_laid_out_anew_for_nothing():
    class Plain:
        def __init__(self):
            self.number = 1
            self.text = "x"

    plain = Plain()
    before = len(gc.get_referents(plain))
    kinds = containers.Kinds([])
    assert containers.children(plain, kinds.of(plain), kinds) is None
    assert len(gc.get_referents(plain)) == before


def dictionaries():
    gc.collect()
    return sum(type(one) is dict for one in gc.get_objects())


class Sample:
    def __init__(self, tensor):
        self.tensor, self.kinds, self.number = tensor, [int, str], 1


class Record:
    def __init__(self):
        self.kinds, self.number = [int, str], 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="all objects have dictionaries")
def test_no_object_is_given_a_dictionary(agent, program):
    before = dictionaries()
    program.records = [Record() for _ in range(1000)]
    program.samples = [Sample(t() if not number % 100 else None) for number in range(10_000)]
    program.tensors = [Sample(t()) for _ in range(300)]
    one = agent()
    for _ in range(3):
        found = one.names()
    assert dictionaries() < before + 100
    assert found.of(program.samples[200].tensor)[0] == ["program.samples[200].tensor"]
    assert found.of(program.tensors[299].tensor)[0] == ["program.tensors[299].tensor"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="all objects have dictionaries")
def test_few_objects_of_a_class_are_given_a_dictionary_where_none_can_be_read_in_place(agent, program, monkeypatch):
    monkeypatch.setattr(inline.LAYOUT, "usable", False)
    program.records = [Record() for _ in range(1000)]
    program.samples = [Sample(t() if not number % 100 else None) for number in range(10_000)]
    program.tensors = [Sample(t()) for _ in range(300)]
    one = agent()
    for _ in range(3):
        found = one.names()
    assert sum(map(inline.LAYOUT.has_dictionary, [*program.samples, *program.tensors])) == 100
    assert not any(map(inline.LAYOUT.has_dictionary, program.records))
    assert found.of(program.samples[0].tensor)[0] == ["program.samples[0].tensor"]
    assert found.of(program.tensors[299].tensor)[0] == ["program.tensors[299].<attribute>"]
    del program.samples[:], program.tensors[100:]
    one.names()
    assert one.names().of(program.tensors[99].tensor)[0] == ["program.tensors[99].tensor"]


def test_an_object_made_in_c_is_not_asked_for_all_that_is_in_it(agent, program, monkeypatch):
    @functools.lru_cache(10_000)
    def cached(number):
        return (number,)

    for number in range(5000):
        cached(number)
    cached.held = [t()]
    program.cached = cached
    lengths = []

    def get_referents(*things, original=gc.get_referents):
        found = original(*things)
        lengths.append(len(found))
        return found

    monkeypatch.setattr(gc, "get_referents", get_referents)
    found = agent().names()
    assert max(lengths, default=0) < 1000
    if containers.type_flags(type(cached)) & containers.HEAP_TYPE:
        assert found.of(cached.held[0])[0] == ["program.cached.held[0]"]


def calls(work):
    """Count the functions that are called, in Python and in C."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def one_of(opened):
    return next(opened())


@pytest.mark.parametrize("make", [Record, torch.nn.Identity])
def test_very_many_attributes_are_opened_in_parts(make):
    thing = make()
    for number in range(containers.HEAD + containers.TAIL + 500):
        thing.__dict__[f"_{number}"] = [number]
    kinds = containers.Kinds([(torch.nn.Module, containers.MODULE)])
    kind = kinds.of(thing)
    entries = list(containers.children(thing, kind, kinds))
    assert kinds.abridged
    assert len(entries) == containers.HEAD + containers.TAIL
    assert [key for style, key, _ in entries if style == containers.ATTRIBUTE][-1] == f"_{containers.HEAD + 500}"
    for start in (1, 9, 100, 15_999, 16_000, 16_001, 19_990):
        opened = functools.partial(containers.children, thing, kind, kinds, start)
        assert list(opened()) == entries[start:]
        assert calls(functools.partial(one_of, opened)) < 200


def test_what_is_known_of_a_type_goes_with_it():
    """The next type may lie where it lay."""
    kinds = containers.Kinds([])
    for _ in range(20):
        held = type("Held", (list,), {})
        assert kinds.of(held()) == containers.LIST
        at = id(held)
        del held
        gc.collect()
        others = [type("Other", (), {}) for _ in range(20)]
        assert [kinds.of(one()) for one in others] == [containers.OBJECT] * 20
        if any(id(one) == at for one in others):
            return
        del others
        gc.collect()
    pytest.skip("no type came to lie where another had")


def test_a_type_without_an_order_of_bases_is_told(monkeypatch):
    monkeypatch.setattr(containers, "type_mro", lambda kind: None)
    assert containers.Kinds([(torch._C.TensorBase, containers.TENSOR)]).of(range(3)) == containers.LEAF


def test_the_entries_of_a_module_from_any_position():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Identity())
    model.weight, model.held = torch.nn.Parameter(t()), [t()]
    model.register_buffer("table", t())
    entries = list(containers.module_entries(model, 0, containers.Kinds([])))
    assert [key for _, key, _ in entries] == ["weight", "table", "0", "1", "2", "held"]
    for start in range(8):
        found = list(containers.children(model, containers.MODULE, containers.Kinds([]), start))
        assert [key for _, key, _ in found] == [key for _, key, _ in entries[start:]]


def test_a_property_called_dict_is_not_run():
    class Odd:
        @property
        def __dict__(self):
            raise AssertionError("user code ran")

    assert containers.instance_dict(Odd()) is None


def test_no_piece_is_long(agent, program):
    program.model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(500)])
    longest = []

    class Timed(Alone):
        def __enter__(self):
            self.count = 0
            return super().__enter__()

        def over(self):
            self.count += 1
            longest.append(self.count)
            return True  # the time is always up: every piece must still get on

    original = walk.Alone
    walk.Alone = Timed
    try:
        assert agent().names().of(program.model[499].weight)[0] == ["program.model.499.weight"]
    finally:
        walk.Alone = original
    assert max(longest) == 1


def test_a_piece_may_end_after_each_object_that_is_opened(agent, program, monkeypatch):
    program.samples = [Sample(t() if number % 10 == 9 else None) for number in range(100)]
    opened = [0]

    class Over(Alone):
        def begin(self):
            opened.append(0)
            super().begin()

        def over(self):
            return True

    def children(thing, kind, *arguments, original=containers.children):
        opened[-1] += kind in (containers.OBJECT, containers.MODULE)
        return original(thing, kind, *arguments)

    monkeypatch.setattr(walk, "Alone", Over)
    monkeypatch.setattr(containers, "children", children)
    assert agent().names().of(program.samples[99].tensor)[0] == ["program.samples[99].tensor"]
    assert max(opened) <= walk.DEPTH + 1  # the levels that are gone down again, and one more


def test_many_parameter_groups_take_time_in_proportion(agent, program, monkeypatch):
    class Over(Alone):
        asked = False

        def over(self):
            asked, self.asked = self.asked, True
            return asked  # every piece is over soon

    looked = []

    def entries(group, original=roles._group_entries):
        looked.append(group)
        return original(group)

    monkeypatch.setattr(roles, "Alone", Over)
    monkeypatch.setattr(roles, "_group_entries", entries)
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(300)]
    program.optimizer = torch.optim.SGD([{"params": [one]} for one in parameters], lr=torch.tensor(0.1))
    found = agent().names()
    of_ours = [one for one in looked if any(one is group for group in program.optimizer.param_groups)]
    assert 300 <= len(of_ours) < 10 * 300
    assert {found.of(one)[1] for one in parameters} == {"parameter"}


def test_a_deep_stack_is_gone_through_once(agent, monkeypatch):
    ready, done, box = threading.Event(), threading.Event(), []

    def recurse(depth):
        kept = t()
        if depth:
            recurse(depth - 1)
        else:
            box.append(kept)
            ready.set()
            done.wait(30)

    counted = []

    def stack_of(frame, original=variables.stack_of):
        found = original(frame)
        counted.append(len(found))
        return found

    thread = threading.Thread(target=recurse, args=(300,))
    thread.start()
    ready.wait(30)
    monkeypatch.setattr(variables, "stack_of", stack_of)
    found = agent().names().of(box[0])[0]
    done.set()
    thread.join()
    assert any(name.startswith("kept @ recurse()") for name in found)
    assert len([one for one in counted if one > 300]) == 2  # once for each pass over all frames


def test_dead_modules_are_forgotten_in_pieces():
    bag = WeakBag()
    things = [torch.nn.Identity() for _ in range(1000)]
    for one in things:
        bag.add(one)
    kept = things[:10]
    del things, one
    bag.add(torch.nn.Identity())
    assert sum(1 for _ in bag.tidy()) >= 9
    assert [id(one) for one in bag] == [id(one) for one in kept]
    assert len(bag) == 10
