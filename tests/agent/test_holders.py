"""What keeps a tensor alive, asked of a real program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tensortui.agent.chains import NOT_PYTHON, UNREACHABLE, chains_of, paths_of
from tensortui.agent.holders import Down, Node
from tensortui.agent.links import Link, Spot
from tensortui.wire.messages import CHAINS_LIMIT, OTHER

PROGRAM = """
import collections, contextvars, ctypes, functools, gc, sys, threading, torch
class Trainer: pass
class Slotted:
    __slots__ = ("held",)
class Model:
    cache = torch.zeros(101)
trainer = Trainer()
trainer.logs = {"val_logits": [torch.zeros(100 - number) for number in range(5)]}
network = torch.nn.Sequential(torch.nn.Linear(102, 1), torch.nn.ReLU())
def make():
    x = torch.zeros(103)
    def inner(): return x
    return inner
closure = make()
def produce():
    rows = torch.zeros(104)
    yield 1
    yield rows
generator = produce(); next(generator)
async def serve():
    inner = torch.zeros(105)
    await Wait()
    return inner
class Wait:
    def __await__(self): yield
coroutine = serve(); coroutine.send(None)
@functools.lru_cache(None)
def load(size): return torch.zeros(size)
@functools.lru_cache(10)
def load_few(size): return torch.zeros(size)
load(106); load_few(107); load_few(5)
def fail():
    secret = torch.zeros(108)
    1 / 0
try: fail()
except ZeroDivisionError as problem: error = problem
queue = collections.deque(torch.zeros(1) for _ in range(1000)); queue[500] = torch.zeros(109)
long = [torch.zeros(1) for _ in range(30000)]; long[20000] = torch.zeros(110)
table = {number: torch.zeros(1) for number in range(5000)}; table[2500] = torch.zeros(111)
array = torch.zeros(112).numpy()
slotted = Slotted(); slotted.held = torch.zeros(113)
def default(value=torch.zeros(114)): pass
bag = {torch.zeros(115)}
weight = torch.zeros(116, requires_grad=True); weight.sum().backward(); weight.grad = torch.zeros(116)
partial = functools.partial(print, torch.zeros(117))
gc.collect(); gc.disable()
ring = Trainer(); ring.self = ring; ring.held = torch.zeros(118); del ring
peers = [Trainer() for _ in range(12)]
for one in peers: one.peers = [other for other in peers if other is not one]
peers[0].held = torch.zeros(124); del peers, one
attribute = torch.zeros(1); attribute.extra = torch.zeros(119)
two = torch.zeros(120); again = {"two": two}
def wait():
    local = torch.zeros(121)
    ready.set(); forever.wait()
ready, forever = threading.Event(), threading.Event()
threading.Thread(target=wait, name="worker", daemon=True).start(); ready.wait()
base = torch.zeros(131); view = base[1:]; held = [base]; del base
hook = torch.zeros(123)
network[1].register_forward_hook(functools.partial(print, hook)); del hook
@functools.lru_cache(100_000)
def load_one(number): return [torch.zeros(126)] if number == 2000 else number
for number in range(3000): load_one(number)
run = Trainer(); run.callback = Trainer(); run.callback.trainer = run; run.loss = torch.zeros(132); runs = [run]
itself = torch.zeros(133); itself.extra = [itself]
both = torch.zeros(134); ring = Trainer(); ring.self = ring; ring.held = both
ring = [Trainer() for _ in range(3)]; ring[0].held = torch.zeros(135)
for one in ring: one.near = [other for other in ring if other is not one]
wrapped = Trainer(); wrapped.child = Trainer(); wrapped.child.parent = wrapped; wrapped.held = torch.zeros(136)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(wrapped)); del run, ring, one, wrapped
plain = Trainer(); plain.grad = torch.zeros(137)
Pair = collections.namedtuple("Pair", "first second")
pair = Pair(1, torch.zeros(142)); nested = [(0, torch.zeros(143))]
variable = contextvars.ContextVar("state"); many = [contextvars.ContextVar("v%d" % one) for one in range(40)]
context = contextvars.Context(); context.run(lambda: variable.set(torch.zeros(144)) and None)
def fill(): [one.set([torch.zeros(145 if one is many[7] else 1)]) for one in many]
big = contextvars.Context(); big.run(fill)
preset = contextvars.ContextVar("preset", default=torch.zeros(146))
variable.set(torch.zeros(147))
own = threading.local(); own.value = torch.zeros(148)
def serve_one():
    own.value = [torch.zeros(149)]; variable.set(torch.zeros(150))
    served.set(); forever.wait()
served = threading.Event()
threading.Thread(target=serve_one, name="server", daemon=True).start(); served.wait()
START_AGENT
print("READY", flush=True)
for line in sys.stdin:
    exec(line)
    print("DONE", flush=True)
"""

CASES = {
    97: [[("global", "trainer"), ("attribute", ".logs"), ("key", "['val_logits']"), ("index", "[3]")]],
    101: [[("class", "__main__.Model"), ("attribute", ".cache")]],
    103: [[("global", "closure"), ("closure", "x of make.<locals>.inner()")]],
    104: [[("global", "generator"), ("generator", "rows in produce() <string>:16")]],
    105: [[("global", "coroutine"), ("coroutine", "inner in serve() <string>:21")]],
    106: [[("global", "load"), ("cache", "lru_cache of load()"), ("key", "[106]")]],
    107: [[("global", "load_few"), ("cache", "lru_cache of load_few()")]],
    108: [
        [
            ("global", "error"),
            ("traceback", "of ZeroDivisionError"),
            ("traceback", "line 36"),
            ("traceback", "line 35"),
            ("frame", "secret in fail() <string>:35"),
        ]
    ],
    109: [[("global", "queue"), ("index", "[500]")]],
    110: [[("global", "long"), ("index", "[20000]")]],
    111: [[("global", "table"), ("key", "[2500]")]],
    112: [[("global", "array"), ("array", "ndarray")]],
    113: [[("global", "slotted"), ("attribute", ".held")]],
    114: [[("global", "default"), ("default", "of default()"), ("tuple", "[0]")]],
    115: [[("global", "bag"), ("element", "in a set")]],
    117: [[("global", "partial"), ("tuple", ".args"), ("tuple", "[0]")]],
    120: [[("global", "two")], [("global", "again"), ("key", "['two']")]],
    121: [[("local", "local @ wait() <string>:56 [worker]")]],
    132: [[("global", "runs"), ("index", "[0]"), ("attribute", ".loss")]],
    133: [[("global", "itself")]],
    134: [[("global", "both")], [("unreachable", UNREACHABLE), ("attribute", ".held")]],
    136: [[("C++", NOT_PYTHON % (1, 2)), ("attribute", ".held")]],
    137: [[("global", "plain"), ("attribute", ".grad")]],
    126: [[("global", "load_one"), ("cache", "lru_cache of load_one()"), ("index", "[0]")]],
    123: [
        [
            ("global", "network"),
            ("attribute", "._modules"),
            ("key", "['1']"),
            ("hook", "._forward_hooks"),
            ("key", "[0]"),
            ("tuple", ".args"),
            ("tuple", "[0]"),
        ]
    ],
    142: [[("global", "pair"), ("tuple", ".second")]],
    143: [[("global", "nested"), ("index", "[0]"), ("tuple", "[1]")]],
    144: [[("global", "context"), ("key", "[ContextVar 'state']")]],
    145: [[("global", "big"), ("key", "[ContextVar 'v7']"), ("index", "[0]")]],
    146: [[("global", "preset"), ("default", "of ContextVar 'preset'")]],
    147: [[("object", "the running context of the main thread"), ("key", "[ContextVar 'state']")]],
    148: [[("global", "own"), ("attribute", ".value @ the main thread")]],
    149: [[("global", "own"), ("attribute", ".value @ thread server"), ("index", "[0]")]],
    150: [[("object", "the running context of thread server"), ("key", "[ContextVar 'state']")]],
}


class Asked:
    """The program and a viewer that has seen all its tensors."""

    def __init__(self, process: Any, client: Any) -> None:
        self.process, self.client = process, client
        client.refresh()

    def id_of(self, size: int) -> int:
        found = [row["id"] for row in self.client.tables["tensors"].values() if row["shape"] == [size]]
        assert len(found) == 1, found
        return int(found[0])

    def about(self, tensor: int, **fields: Any) -> dict[str, Any]:
        self.client.send({"t": "holders", "request": "h", "tensor": tensor, "limit": 8, **fields})
        answer: dict[str, Any] = self.client.until("holders", request="h")
        return answer

    def chains(self, size: int) -> list[list[tuple[str, str]]]:
        answer = self.about(self.id_of(size))
        assert answer["complete"], answer
        return [[(kind, label) for kind, label in chain] for chain in answer["chains"]]


def result(work: Any) -> tuple[int, Any]:
    """In how many pieces the work was done, and what came of it."""
    pieces = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return pieces, end.value
        pieces += 1


@pytest.fixture
def asked(program: Any, connect: Any) -> Asked:
    process, path = program(PROGRAM, budget=1.0)
    return Asked(process, connect(path))


def test_chains_from_what_the_program_reaches(asked: Asked) -> None:
    found = {size: asked.chains(size) for size in CASES}
    assert found == CASES


def test_nothing_of_the_agent_is_told_as_a_holder(asked: Asked) -> None:
    define = "@functools.lru_cache(None)\ndef keep(size): return torch.zeros(size)\nkept = torch.zeros(152); keep(151)"
    space = "vars(sys.modules['tensortui.agent.variables'])"
    line = f"{space}.update(functools=functools, torch=torch); exec({define!r}, {space})\n"
    asked.process.stdin.write(line)
    asked.process.stdin.flush()
    assert asked.process.stdout.readline() == "DONE\n"
    asked.client.refresh()
    for size in (151, 152):
        told = [label for chain in asked.about(asked.id_of(size))["chains"] for _, label in chain]
        assert not [label for label in told if "tensortui" in label or "keep" in label], told


def test_what_torch_itself_holds(asked: Asked) -> None:
    gradient = next(row["id"] for row in asked.client.tables["tensors"].values() if row["names"] == ["weight.grad"])
    assert ["gradient", "weight.grad"] in [chain[0] for chain in asked.about(gradient)["chains"]]
    chains = asked.chains(131)
    assert [("global", "held"), ("index", "[0]")] in chains
    assert [("base", "base of the view view")] in chains


def test_a_circle_that_nothing_leads_to_is_unreachable(asked: Asked) -> None:
    for size in (118, 135):
        (chain,) = asked.chains(size)
        assert chain[0][0] == "unreachable"
        assert chain[-1] == ("attribute", ".held")


def test_objects_that_all_refer_to_each_other_are_not_gone_through_in_every_order(asked: Asked) -> None:
    """There are more than ten million ways from the tensor up."""
    answer = asked.about(asked.id_of(124))
    assert 0 < len(answer["chains"]) <= 8
    assert all(chain[-1] == ["attribute", ".held"] for chain in answer["chains"])


def test_ways_up_are_gone_through_in_many_pieces() -> None:
    """Objects that all refer to one another: each way and each object is a piece of its own."""
    some = [Node(number) for number in range(60)]
    for one in some:
        one.down = [Down(other, Spot(0, 0), Link("index", "[0]")) for other in some if other is not one]
    some[-1].roots.append(("global", "it"))
    search: Any = SimpleNamespace(nodes={node.address: node for node in some}, cut=False)
    pieces, (chains, ends) = result(paths_of(search, some[0]))
    assert chains[0] == [("global", "it"), ("index", "[0]")]
    assert pieces > len(some) + len(chains) + len(ends)
    assert search.cut


def test_what_nothing_leads_to_is_told_though_its_circle_is_not_on_the_way() -> None:
    """Two objects hold each other and the one that holds the tensor: both are come to before the circle closes."""
    tensor, one, left, right = some = [Node(number) for number in range(4)]
    for node, held in ((one, [tensor]), (left, [one, right]), (right, [one, left])):
        node.down = [Down(other, Spot(0, 0), Link("index", "[0]")) for other in held]
    for node, references in zip(some, (1, 2, 1, 1), strict=True):
        node.references = node.seen = references
    search: Any = SimpleNamespace(nodes={node.address: node for node in some}, cut=False)
    _, (found, ((way, *_),)) = result(paths_of(search, tensor))
    assert way[0] is one
    assert not found
    assert all(node.lost for node in some)
    right.references += 1  # that one was not found: what it leads to is not lost
    _, (found, ends) = result(paths_of(search, tensor))
    assert {path[-1][0].address for path in ends} == {right.address}
    assert not found
    assert not any(node.lost for node in some)


def test_a_stray_word_in_what_the_collector_does_not_know_leads_nowhere() -> None:
    """All references were found without it."""
    tensor, ring, stray = some = [Node(number) for number in range(3)]
    for node, held in ((ring, [tensor, ring]), (stray, [ring])):
        node.down = [Down(other, Spot(0, 0), Link("object", "it")) for other in held]
    tensor.references = tensor.seen = ring.references = ring.seen = 1
    stray.plain, stray.roots = True, [("global", "it")]
    search: Any = SimpleNamespace(nodes={node.address: node for node in some}, cut=False)
    _, (found, ends) = result(paths_of(search, tensor))
    assert found == []
    assert [[node.address for node, _ in path] for path in ends] == [[ring.address]]
    assert ring.lost


def test_views_are_looked_for_in_many_pieces() -> None:
    count = 100_000
    by_id = {number: SimpleNamespace(id=number, base=None, names="") for number in range(count)}
    by_id[count - 1] = SimpleNamespace(id=count - 1, base=7, names="view")
    tracked: Any = SimpleNamespace(id=7, names="it", found=OTHER, views=2, saved=False, saved_as="")
    search: Any = SimpleNamespace(cut=False)
    census: Any = SimpleNamespace(by_id=by_id)
    pieces, chains = result(chains_of(search, Node(1), ([], []), tracked, census, 8, {}, True))
    assert chains == [[("base", "base of the view view")]]
    assert pieces >= count / 500


def test_no_more_chains_are_told_than_a_viewer_takes(asked: Asked) -> None:
    asked.process.stdin.write("for number in range(70): globals()['same%d' % number] = two\n")
    asked.process.stdin.flush()
    assert asked.process.stdout.readline() == "DONE\n"
    assert len(asked.about(asked.id_of(120), limit=1000)["chains"]) == CHAINS_LIMIT


def test_a_tensor_that_is_gone_is_said_to_be(asked: Asked) -> None:
    asked.client.send({"t": "holders", "request": "h", "tensor": 1 << 40, "limit": 8})
    assert asked.client.until("failed", request="h")["cause"] == "There is no such tensor any more."


def test_a_search_can_be_given_up_and_goes_on_beside_samples(asked: Asked) -> None:
    client, tensor = asked.client, asked.id_of(97)
    client.send({"t": "subscribe", "interval": 0.1})
    for request in ("a", "b", "c"):
        client.send({"t": "holders", "request": request, "tensor": tensor, "limit": 8})
    client.send({"t": "cancel", "request": "a"})
    client.send({"t": "cancel", "request": "b"})
    samples = 0
    while True:
        header, payload = client.receive()
        client._apply(header, payload)
        assert header.get("request") not in ("a", "b")
        samples += header["t"] == "sample"
        if header["t"] == "holders":
            break
    assert header["request"] == "c"
    assert samples > 1


def test_the_program_finds_nothing_changed(asked: Asked) -> None:
    process, client = asked.process, asked.client
    line = "print(sys.getrefcount(trainer.logs['val_logits'][3]), gc.isenabled(), sys.getswitchinterval())"

    def say() -> str:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        printed = process.stdout.readline()
        assert process.stdout.readline() == "DONE\n"
        return str(printed)

    before = say()
    for size in (97, 103, 109):
        asked.chains(size)
    assert say() == before
    client.send({"t": "detach"})
    assert client.until("bye")["reason"] == "detached"
    assert say() == before
