import builtins
import collections
import gc
import sys
import threading
import types
import warnings
import weakref

import pytest
import torch

from tensortui.agent import names, variables
from tensortui.agent.census import Context

TOUCHED = []


class Liar:
    """Everything about it that Python code can decide is a lie that gets noticed."""

    __hash__ = object.__hash__

    def __init__(self, held):
        self.held = held

    @property
    def __class__(self):
        TOUCHED.append("__class__")
        return torch.Tensor

    def __getattr__(self, name):
        TOUCHED.append(name)
        raise RuntimeError("no")

    def __eq__(self, other):
        TOUCHED.append("__eq__")
        raise RuntimeError("no")


class LoudDict(dict):
    def __getattribute__(self, name):
        TOUCHED.append("dict." + name)
        return super().__getattribute__(name)

    def items(self):
        TOUCHED.append("items")
        raise RuntimeError("no")

    keys = values = __iter__ = __len__ = __getitem__ = items


class LoudList(list):
    def __iter__(self):
        TOUCHED.append("iter")
        raise RuntimeError("no")

    __len__ = __getitem__ = __reversed__ = __iter__


class Spy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        TOUCHED.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class LoudMeta(type):
    def __hash__(cls):
        TOUCHED.append("hash")
        return 1

    def __eq__(cls, other):
        TOUCHED.append("metaclass eq")
        return False


class Loud(metaclass=LoudMeta):
    def __init__(self, held):
        self.held = held


class Slotted:
    __slots__ = ("cache", "unset")


Pair = collections.namedtuple("Pair", "left right")


@pytest.fixture
def program(module):
    return module


def t(number=1):
    return torch.zeros(number)


def test_what_hangs_in_containers_and_objects(agent, program):
    slotted = Slotted()
    slotted.cache = t()
    program.trainer = types.SimpleNamespace(logs={"val_logits": [t() for _ in range(3)]})
    program.ordered = collections.OrderedDict(a=t())
    program.by_default = collections.defaultdict(list, {("layer", 3): [t()]})
    program.queue = collections.deque([t(), t()])
    program.pair = Pair(t(), (t(),))
    program.slotted = slotted
    program.bag = {t()}
    found = agent().names()
    assert found.of(program.trainer.logs["val_logits"][2]) == (["program.trainer.logs['val_logits'][2]"], "other")
    assert found.of(program.ordered["a"])[0] == ["program.ordered['a']"]
    assert found.of(program.by_default["layer", 3][0])[0] == ["program.by_default[('layer', 3)][0]"]
    assert found.of(program.queue[1])[0] == ["program.queue[1]"]
    assert found.of(program.pair.left)[0] == ["program.pair.left"]
    assert found.of(program.pair.right[0])[0] == ["program.pair.right[0]"]
    assert found.of(slotted.cache)[0] == ["program.slotted.cache"]
    assert found.of(next(iter(program.bag)))[0] == ["program.bag{0}"]


def test_closures_partials_and_bound_methods_lead_on(agent, program):
    def outer():
        kept = t()
        return (lambda: kept), kept

    program.function, kept = outer()
    box = types.SimpleNamespace(inside=t())
    program.partial = __import__("functools").partial(print, box)
    found = agent().names()
    assert any("closure" in name for name in found.of(kept)[0])
    assert any(name.startswith("program.partial.args[0]") for name in found.of(box.inside)[0])


def test_no_code_of_the_target_runs(agent, program):
    spy = torch.zeros(1024).as_subclass(Spy)
    held = [t() for _ in range(6)]
    program.liar = Liar(held[0])
    program.loud_dict = LoudDict(a=held[1])
    program.loud_list = LoudList([held[2]])
    program.spy = spy
    program.loud = Loud(held[3])
    program.many = [Loud(None), held[4]]
    program.keyed = {Liar(None): held[5]}
    TOUCHED.clear()
    found = agent().names()
    assert TOUCHED == []
    assert [found.of(one)[0] != [] for one in held] == [True] * 6
    assert found.of(spy)[0][0] == "program.spy"
    assert found.of(held[5])[0][0] == "program.keyed[<Liar>]"
    TOUCHED.clear()


def test_modules_optimizers_and_gradients(agent, program):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    model.tied = model[0]
    head = torch.nn.Linear(4, 3, bias=False)
    head.weight = model[0].weight
    model.head = head
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1))
    model[:2](torch.ones(2, 4)).sum().backward()
    optimizer.step()
    program.holder = types.SimpleNamespace(net=model)
    program.net = model
    program.optimizer = optimizer
    found = agent().names()
    weight = model[0].weight
    assert found.of(weight) == (["program.net.0.weight", "program.net.head.weight"], "parameter")
    assert found.of(model[1].running_mean) == (["program.net.1.running_mean"], "buffer")
    assert found.of(optimizer.state[weight]["exp_avg"]) == (["exp_avg of program.net.0.weight"], "optimizer")
    assert found.of(optimizer.param_groups[0]["lr"]) == (["lr of AdamW.param_groups[0]"], "optimizer")
    assert found.of(weight.grad) == (["program.net.0.weight.grad"], "gradient")


def test_names_are_the_same_in_every_pass(agent, program):
    program.model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(20)])
    one = agent()
    first = dict(one.names().context.names)
    second = dict(one.names().context.names)
    assert all(second[number] == names for number, names in first.items())


def test_a_module_that_no_variable_leads_to_is_named_by_its_class(agent):
    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

    keep = iter([Hidden()])  # nothing looks into an iterator
    found = agent().names()
    weight = next(keep).inner.weight
    assert found.of(weight) == (["Hidden.inner.weight"], "parameter")


def test_the_public_way_to_a_module_is_preferred(agent, program):
    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

    def box(**held):
        return types.SimpleNamespace(**held)

    one, two, three, far = Hidden(), Hidden(), torch.nn.Linear(2, 2), torch.nn.Sequential(Hidden())
    four, shared = torch.nn.Linear(2, 2), box(net=torch.nn.Linear(2, 2))
    program.box = box(
        _connector=box(_selector=box(model=one), public=box(deep=two)),
        _plain=three,
        _state=box(net=four),
        _first=shared,
        public=shared,
        later=box(_one=box(_two=two)),
        far=[[[[far]]]],
        a=box(b=box(c=box(net=torch.nn.Sequential(Hidden())))),
    )
    expected = [
        (one.inner.weight, "Hidden#2.inner.weight"),
        (two.inner.weight, "Hidden.inner.weight"),
        (three.weight, "program.box._plain.weight"),
        (four.weight, "program.box._state.net.weight"),
        (shared.net.weight, "program.box.public.net.weight"),
        (far[0].inner.weight, "Sequential.0.inner.weight"),
        (program.box.a.b.c.net[0].inner.weight, "program.box.a.b.c.net.0.inner.weight"),
    ]
    del one, far
    found = agent().names()
    assert [(found.of(tensor)[0][0], found.of(tensor)[1]) for tensor, _ in expected] == [
        (name, "parameter") for _, name in expected
    ]


def test_local_variables_name_their_thread_function_and_line(agent):
    ready, done, box = threading.Event(), threading.Event(), []

    def step():
        row, captured = t(), t()
        batch = {"x": t()}
        box.extend([row, captured, batch["x"]])

        def use():
            return captured

        ready.set()
        done.wait(10)
        return row, use

    thread = threading.Thread(target=step, name="loader")
    thread.start()
    ready.wait(10)
    found = agent().names()
    first = found.of(box[0])
    names = [name for one in box for name in found.of(one)[0]]
    done.set()
    thread.join()
    line = step.__code__.co_firstlineno
    own = [name for name in names if " @ step() test_names.py:" in name]
    assert {"row", "captured", "batch['x']"} <= {name.split(" @ ")[0] for name in own}
    assert all(name.endswith(" [loader]") for name in own)
    assert line < int(own[0].split(":")[1].split()[0]) < line + 20
    assert first[1] == "input"


def test_the_name_that_lasts_comes_before_those_of_passing_variables(agent):
    ready, done, box = threading.Event(), threading.Event(), []

    def inner(net, grad, moment, batch):
        ready.set()
        done.wait(10)
        return net, grad, moment, batch

    def outer():
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        example = t()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        held = (model.weight.grad, optimizer.state[model.weight]["exp_avg"], example)
        box.extend(map(weakref.ref, (model.weight, *held)))
        inner(model, *held)

    thread = threading.Thread(target=outer)
    thread.start()
    ready.wait(10)
    found = agent().names()
    shown = [found.of(one())[0][0].partition("()")[0] for one in box]
    done.set()
    thread.join()
    moment = "exp_avg of model.weight @ outer"
    assert shown == ["model.weight @ outer", "model.weight.grad @ outer", moment, "example @ outer"]


def test_what_packages_hold_is_remembered_between_their_scans(agent):
    module = types.ModuleType("package")
    module.__file__ = "/usr/lib/python3/site-packages/package.py"
    sys.modules["package"] = module
    try:
        module.table, module.doomed = t(), t()
        one = agent()
        table = one.census.track(module.table)
        assert one.names().of(module.table)[0] == ["package.table"]
        del module.doomed
        assert one.names().of(module.table)[0] == ["package.table"]
        assert all(one.census.by_id[number].ref() is not None for number in one.context.names)
        one.census.memory["names"].due = 0.0
        module.renamed = module.__dict__.pop("table")
        assert one.names().context.names[table.id] == "package.renamed"
    finally:
        del sys.modules["package"]


def test_a_local_variable_that_was_looked_at_dies_when_it_is_deleted(agent):
    """Reading `f_locals` would keep it until the function returns."""
    ready, looked, done = threading.Event(), threading.Event(), threading.Event()
    state = {}

    def work():
        batch, model = t(), torch.nn.Linear(2, 2)
        state.update(batch=weakref.ref(batch), weight=weakref.ref(model.weight), name=one.census.track(batch).id)
        ready.set()
        looked.wait(30)
        del batch, model
        state["left"] = [state["batch"]() is not None, state["weight"]() is not None]
        done.set()

    one = agent()
    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(30)
    found = one.names().context.names
    looked.set()
    done.wait(30)
    thread.join()
    assert found[state["name"]].startswith("batch @ work()")
    assert state["left"] == [False, False]


def test_the_gradient_of_what_is_no_leaf_is_not_read(agent, program):
    program.leaf = torch.ones(2, requires_grad=True)
    program.middle = program.leaf * 2
    program.middle.sum().backward()
    gradient = program.leaf.grad  # as an optimizer asks for it: from now on it has a Python object
    one = agent()
    assert all(tracked.row is None for tracked in one.census.by_id.values())  # no row yet tells that it is no leaf
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = one.names()
    names, category = found.of(gradient)
    assert "program.leaf.grad" in names
    assert category == "gradient"
    assert [str(one.message) for one in heard if ".grad" in str(one.message)] == []


def test_thousands_of_globals_are_told_apart_once_and_not_for_each_piece(agent, module, monkeypatch):
    told = []
    of_kinds = variables._of_kinds

    def count(keys, values, kinds, wanted):
        told.append(len(keys))
        return of_kinds(keys, values, kinds, wanted)

    monkeypatch.setattr(variables, "_of_kinds", count)
    for number in range(3000):
        setattr(module, f"k{number}", [number])
    module.last = torch.zeros(3)
    pieces = []
    found = agent().names(lambda: pieces.append(None))
    assert found.of(module.last)[0] == ["program.last"]
    assert len(pieces) > 50
    assert sum(size > 2900 for size in told) == 3  # the modules among them; the tensors; the rest


def test_what_an_interactive_interpreter_last_printed_is_no_variable_of_any_module(agent, program, monkeypatch):
    program.__builtins__ = vars(builtins)
    monkeypatch.setattr(builtins, "_", t(), raising=False)
    assert agent().names().of(builtins._)[0] == ["builtins._"]


def test_the_class_of_a_module_that_nothing_leads_to_goes_with_it(agent):
    def make():
        class Local(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.things = [[t()] for _ in range(50)]

        return iter([Local()]), weakref.ref(Local)

    held, kind = make()
    work = names.discover(Context(torch, agent().census, []))
    for _ in work:
        inner = work.gi_yieldfrom
        if inner is not None and inner.gi_code.co_name == "stray_modules" and inner.gi_yieldfrom is not None:
            break  # in the middle of the module
    del held
    gc.collect()
    assert kind() is None
