"""What comes and goes between two passes over everything: the names that each sample puts right."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any

import pytest
import torch

from tensortui.agent.census import SEPARATOR, Census, Context, with_variables
from tensortui.agent.names import make_kinds
from tensortui.agent.revisit import CROWDED, CROWDED_FOR, MOST_LOOKED, MOST_VISITS, Revisit, Visit, _look, merged
from tensortui.wire.messages import INPUT, OTHER

PROGRAM = """
import collections, sys, threading, torch
class Touched(list):  # by another thread than the program's own, whose lookups compare keys too
    def append(self, word, own=threading.get_ident()):
        if threading.get_ident() != own: list.append(self, word)
TOUCHED = Touched()
class Trainer: pass
class LoudList(list):
    def __iter__(self): TOUCHED.append("iter"); return list.__iter__(self)
    def __len__(self): TOUCHED.append("len"); return list.__len__(self)
    def __getitem__(self, at): TOUCHED.append("getitem"); return list.__getitem__(self, at)
    __reversed__ = __iter__
class LoudKey:
    def __hash__(self): TOUCHED.append("hash"); return hash("logs")
    def __eq__(self, other): TOUCHED.append("eq"); return self is other
trainer = Trainer()
trainer.outputs = [torch.zeros(2)]
trainer.total, trainer.state = torch.zeros(4), (torch.zeros(5), torch.zeros(6))
trainer.loud = LoudList([torch.zeros(2)])
trainer.logs = {LoudKey(): 1, "logs": [torch.zeros(2)]}
window = collections.deque(torch.zeros(2) for _ in range(20))
many = [torch.zeros(1) for _ in range(600)]
pairs = [(torch.zeros(1), torch.zeros(1))]
history = {"logits": [torch.zeros(2)]}
class Step:
    def __init__(self): self.obs, self.act = torch.zeros(2), torch.zeros(3)
steps = [Step()]
nested = {0: {"y": [torch.zeros(4)]}}
ring = [torch.zeros(5) for _ in range(20)]
def keeper():
    state = torch.zeros(8)
    def give(value): nonlocal state; was, state = state, value; return was
    return give
give = keeper()
def work(): queue = [torch.zeros(6)]; working.acquire(); return queue
working = threading.Lock()
working.acquire()
threading.Thread(target=work, name="worker:0", daemon=True).start()
del TOUCHED[:]
def step(line): exec(line, globals())
START_AGENT
import tensortui.agent.work
# One pass over everything, with the first scan: what follows is the samples' work.
tensortui.agent.work.PASS_EVERY = 1e9
print("READY", flush=True)
for line in sys.stdin:
    step(line)
    print("DONE", flush=True)
"""


@pytest.fixture
def watched(program: Any, connect: Any) -> tuple[Any, Any]:
    """The program, all looked through once, and a viewer."""
    process, path = program(PROGRAM)
    client = connect(path)
    client.refresh()
    client.send({"t": "subscribe", "interval": 0.1})
    client.until("sample")
    return process, client


def after(process: Any, client: Any, line: str) -> list[list[str]]:
    """Have the program run a line; return the names of each tensor in a sample that was begun after that."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "DONE\n", process.stderr.read()
    for _ in range(3):
        client.until("sample")
    return [row["names"] for row in client.tables["tensors"].values()]


def places(names: list[list[str]], stem: str) -> list[int]:
    """The indices under which tensors are called `stem`[index], in order."""
    found = [re.fullmatch(re.escape(stem) + r"\[(\d+)\]", one) for each in names for one in each]
    return sorted(int(match[1]) for match in found if match)


@pytest.mark.parametrize(
    ("line", "stem"),
    [
        ("trainer.outputs.append(torch.zeros(2))", "trainer.outputs"),
        ("trainer.loud.append(torch.zeros(2))", "trainer.loud"),
        ("history['logits'].append(torch.zeros(2))", "history['logits']"),
    ],
)
def test_what_a_list_is_given_is_called_by_its_place(watched: Any, line: str, stem: str) -> None:
    process, client = watched
    for count in range(2, 6):
        assert places(after(process, client, line), stem) == list(range(count))


def test_objects_and_small_containers_that_are_entries_are_followed_too(watched: Any) -> None:
    process, client = watched
    line = "steps += [Step() for _ in range(60)]; nested.update((at, {'y': [torch.zeros(4)]}) for at in range(60))"
    after(process, client, line)
    for _ in range(5):
        after(process, client, "steps += [Step() for _ in range(60)]; pass")
    for _ in range(5):
        client.until("sample")
    names = Counter(name for row in client.tables["tensors"].values() for name in row["names"])
    wanted = {f"steps[{at}].{field}" for at in range(361) for field in ("obs", "act")}
    wanted |= {f"nested[{at}]['y'][0]" for at in range(60)}
    assert {name for name in names if name.startswith(("steps", "nested"))} == wanted
    assert max(names.values()) == 1


def test_what_is_exchanged_in_the_middle_after_a_long_calm_is_named_at_once(watched: Any) -> None:
    process, client = watched
    for _ in range(12):  # each look without a change puts the next one off
        client.until("sample")
    names = after(process, client, "ring[7], gone = torch.zeros(5), ring[7]")
    assert places(names, "ring") == list(range(20))
    assert ["gone"] in names


def test_variables_of_a_thread_with_a_colon_in_its_name_are_called_once(watched: Any) -> None:
    _, client = watched
    ours = [row["names"] for row in client.tables["tensors"].values() if "queue" in str(row["names"])]
    assert [len(names) for names in ours] == [1]
    assert ours[0][0].startswith("queue[0] @ work() ")
    assert ours[0][0].endswith(" [worker:0]")


def test_what_a_function_has_closed_over_is_followed(watched: Any) -> None:
    process, client = watched
    for _ in range(3):
        names = after(process, client, "gone = give(torch.zeros(8))")
        assert ["gone"] in names
        assert ["give.<closure>.state"] in names


def test_a_pair_in_a_list_too(watched: Any) -> None:
    process, client = watched
    names = after(process, client, "pairs.append((torch.zeros(1), torch.zeros(1)))")
    assert ["pairs[1][0]"] in names
    assert ["pairs[1][1]"] in names


def test_places_move_when_the_first_goes(watched: Any) -> None:
    process, client = watched
    for _ in range(3):
        names = after(process, client, "window.append(torch.zeros(2)); gone = window.popleft()")
        assert places(names, "window") == list(range(20))
        assert ["gone"] in names


def test_the_end_of_a_long_list_is_looked_at_each_time_and_the_rest_in_turn(watched: Any) -> None:
    process, client = watched
    assert places(after(process, client, "many.append(torch.zeros(1))"), "many") == list(range(601))
    after(process, client, "del many[0]")
    for _ in range(10):
        client.until("sample")
    names = [row["names"] for row in client.tables["tensors"].values()]
    assert places(names, "many") == list(range(600))


def test_a_variable_names_what_it_holds_now(watched: Any) -> None:
    process, client = watched
    names = after(process, client, "loss = torch.zeros(7); kept = [loss]")
    assert [one for each in names for one in each if one == "loss"] == ["loss"]
    for _ in range(4):
        names = after(process, client, "loss = torch.zeros(7); kept.append(loss)")
        count = Counter(one for each in names for one in each)
        assert count["loss"] == 1
        assert not [name for name, number in count.items() if number > 1]


def soon(client: Any, name: str) -> dict[str, Any]:
    """The row of the tensor that has `name`: a container that is new is found with one of the next samples."""
    for _ in range(100):
        if any(name in row["names"] for row in client.tables["tensors"].values()):
            break
        client.until("sample")
    row: dict[str, Any] = client.named(name)
    return row


def test_an_input_is_what_a_variable_holds_not_what_a_list_collects(watched: Any) -> None:
    process, client = watched
    after(process, client, "batch = torch.zeros(3); both = {'x': torch.zeros(4), 'y': torch.zeros(5)}")
    assert client.named("batch")["category"] == INPUT
    assert soon(client, "both['x']")["category"] == INPUT
    after(process, client, "history['logits'].append(torch.zeros(2))")
    assert client.named("history['logits'][1]")["category"] == OTHER
    after(process, client, "old = [batch, *map(torch.zeros, range(20))]; del batch")
    assert soon(client, "old[0]")["category"] == OTHER


def test_no_code_of_the_program_runs(watched: Any) -> None:
    process, client = watched
    for _ in range(3):
        after(process, client, "trainer.loud.append(torch.zeros(2)); trainer.logs['logs'].append(torch.zeros(2))")
    process.stdin.write("print(list(TOUCHED))\n")
    process.stdin.flush()
    assert process.stdout.readline() == "[]\n"


@pytest.mark.parametrize(
    ("known", "before", "now", "expected"),
    [
        ("loss @ f() a.py:3", "loss @ f() a.py:3", "", ""),
        ("loss @ f() a.py:3|kept[0]", "loss @ f() a.py:3", "", "kept[0]"),
        ("loss @ f() a.py:3", "loss @ f() a.py:3", "loss @ f() a.py:9", "loss @ f() a.py:9"),
        ("model.w @ f() a.py:3|w @ f() a.py:3", "", "w @ f() a.py:4", "model.w @ f() a.py:3|w @ f() a.py:4"),
        ("x @ f() a.py:3 [w:0]|x @ f() a.py:3 [w:1]", "x @ f() a.py:3 [w:0]", "", "x @ f() a.py:3 [w:1]"),
        ("x @ f() a.py:3 [w:0]", "x @ f() a.py:3 [w:0]", "x @ f() a.py:9 [w:0]", "x @ f() a.py:9 [w:0]"),
        ("kept[0]", "", "x", "x|kept[0]"),
        ("kept[0]", "", "x @ f() a.py:1", "kept[0]|x @ f() a.py:1"),
    ],
)
def test_names_of_variables_keep_their_places(known: str, before: str, now: str, expected: str) -> None:
    joined = (one.replace("|", SEPARATOR) for one in (known, before, now, expected))
    *given, wanted = joined
    assert with_variables(*given) == wanted


def test_attributes_of_an_object_are_followed_and_a_tuple_that_one_holds(watched: Any) -> None:
    process, client = watched
    for _ in range(3):
        line = "trainer.total = torch.zeros(4); trainer.state = (torch.zeros(5), torch.zeros(6)); old = trainer.total"
        names = after(process, client, line)
        assert ["old", "trainer.total"] in names
        assert [one for one in names if "trainer.state" in str(one)] == [["trainer.state[0]"], ["trainer.state[1]"]]
        flat = [one for each in names for one in each]
        assert len(flat) == len(set(flat))
        assert places(names, "trainer.outputs") == [0]


def test_a_tensor_that_is_twice_in_a_container_keeps_both_names(watched: Any) -> None:
    process, client = watched
    after(process, client, "twice = torch.zeros(9); both = [twice, twice]; del twice")
    assert soon(client, "both[0]")["names"] == ["both[0]", "both[1]"]
    for _ in range(5):
        client.until("sample")
        assert client.named("both[0]")["names"] == ["both[0]", "both[1]"]


def nowhere(way: Any, kinds: Any) -> None:
    """An opener of nothing."""


def test_more_containers_than_can_be_followed_are_told() -> None:
    now = [100.0]
    containers = Revisit(lambda: now[0])
    for at in range(MOST_VISITS):
        assert containers.note("__main__", nowhere, ((0, at),), f"box[{at}]") is not None
    assert containers.reasons() == []
    assert containers.note("__main__", nowhere, ((0, MOST_VISITS),), "more") is None
    assert containers.reasons() == [CROWDED % MOST_VISITS]
    now[0] += CROWDED_FOR
    assert containers.reasons() == []


@pytest.mark.parametrize(
    ("seen", "called", "variables", "expected"),
    [
        ("hist[3]", "pool[3]", True, "hist[3]"),  # it has moved since the pass came by
        ("hist[3]", "pool[3]|model.best", True, "hist[3]|model.best"),
        ("hist[3]|model.old", "hist[2]", True, "hist[3]"),
        ("x|pool[3]", "y|pool[3]", True, "x|pool[3]"),
        ("pool[3]", "y|pool[3]", False, "pool[3]|y"),
        ("", "pool[3]|pool[4].obs", True, ""),
        ("q[0] @ f() a.py:3 [w:0]", "model.best|q[1] @ f() a.py:9 [w:0]", True, "model.best|q[0] @ f() a.py:3 [w:0]"),
        ("hist[3]", "q[1] @ f() a.py:9 [w:1]", True, "hist[3]|q[1] @ f() a.py:9 [w:1]"),
    ],
)
def test_a_pass_adds_to_what_samples_saw_and_undoes_nothing(
    seen: str, called: str, variables: bool, expected: str
) -> None:
    containers = Revisit(lambda: 0.0)
    for prefix in ("hist", "pool"):
        containers.note("__main__", nowhere, ((0, prefix),), prefix)
    containers.note((7, 0, " @ f() a.py [w:0]"), nowhere, ((0, "q"),), "q")
    one, other, wanted = (names.replace("|", SEPARATOR) for names in (seen, called, expected))
    assert merged(one, other, containers.following(variables)) == wanted


class Counting:
    """Kinds that count what they were asked about."""

    def __init__(self, kinds: Any) -> None:
        self.kinds, self.asked = kinds, 0

    def of(self, thing: Any) -> int:
        self.asked += 1
        return int(self.kinds.of(thing))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kinds, name)


class Thing:
    def __init__(self) -> None:
        for number in range(32):
            setattr(self, f"x{number}", number)


def test_one_look_at_a_container_looks_at_so_many_things_and_no_more() -> None:
    census = Census(time.monotonic)
    census.base = torch._C.TensorBase
    census.types.ids.add(id(torch.Tensor))
    things = [dict.fromkeys("abcdefgh", Thing()) for _ in range(100)]
    first, last = torch.zeros(1), torch.zeros(1)
    held = [first, *things, last]
    before = census.track(first), census.track(last)
    for one in before:
        one.names = f"held[{0 if one is before[0] else len(held) - 1}]"
    visit = Visit(lambda way, kinds: (held, ""), (), "held", "")
    visit.ids = {one.id for one in before}
    kinds: Any = Counting(make_kinds(Context(torch, census, []), census.base))
    assert _look(visit, census, kinds, lambda tracked: None, 0.0, False) == 2
    assert 100 < kinds.asked <= MOST_LOOKED + 10
    assert [one.names for one in before] == ["held[0]", "held[101]"]  # what was not come to keeps its name
