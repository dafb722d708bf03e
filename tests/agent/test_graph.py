import gc
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tensortui.agent import graph, nodes
from tensortui.agent.census import SEPARATOR, Context
from tensortui.agent.containers import TENSOR, Kinds
from tensortui.agent.guard import Alone
from tensortui.agent.nodes import Depths, NodeReader
from tensortui.agent.read import TensorReader
from tensortui.agent.storages import Size

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh_depths(monkeypatch):
    """What one test used up of the deep nodes is not missing in the next."""
    monkeypatch.setattr(nodes, "DEPTHS", Depths())


def by_name(body):
    return {node[1]: node for node in body["nodes"]}


def test_a_result_changed_in_place_is_stale(agent):
    x = torch.ones(1000, requires_grad=True)
    w = torch.exp(x)
    loss = w.sum()
    w.add_(1)
    one = agent()
    body = one.graph([loss])
    node = by_name(body)["ExpBackward0"]
    assert [saved[:1] + saved[2:] for saved in node[4]] == [["result", 0, 1, True, False]]
    assert body["roots"] == [by_name(body)["SumBackward0"][0]]
    assert by_name(body)["AccumulateGrad"][3] == one.census.track(x).id
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()


def test_what_was_saved_and_left_alone_is_not_stale(agent):
    x = torch.ones(10, requires_grad=True)
    with torch.no_grad():
        x.add_(1)
    y = torch.exp(x * x)
    saved = [one for node in agent().graph([y])["nodes"] for one in node[4]]
    assert len(saved) == 3
    assert all(one[2] == one[3] and one[4] is False for one in saved)
    assert {one[3] for one in saved} == {0, 1}


def test_a_checkpointed_forward_is_not_run_again(agent):
    calls = []
    block = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))

    def run(inputs):
        calls.append(1)
        return block(inputs)

    x = torch.randn(32, 64, requires_grad=True)
    plain = block(x).sum()
    packed = checkpoint(run, x, use_reentrant=False).sum()
    one = agent()
    nodes = {node[0]: node for node in one.graph([packed])["nodes"]}
    saved = [entry for node in nodes.values() for entry in node[4]]
    assert saved
    kept = [entry for entry in saved if entry[0] == "checkpoint[0]"]
    assert {entry[1] for entry in kept} == {one.census.track(x).id}
    assert all(entry[5] is True and entry[2] is None for entry in saved if entry not in kept)
    one.saved()
    assert len(calls) == 1
    held = {one.census.by_id[number] for number in one.context.names}
    storages = {torch._C._storage_id(entry.ref()) for entry in held} - {
        torch._C._storage_id(parameter) for parameter in block.parameters()
    }
    assert len(storages) == 2
    del plain


def test_tensors_that_only_the_graph_holds(agent):
    logits = torch.nn.Parameter(torch.zeros(16, 40))
    total = torch.zeros(())
    for _ in range(4):
        total = total + torch.nn.functional.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
    one = agent()
    known = set(one.census.by_id)
    one.saved()
    fresh = [number for number in one.context.names if number not in known]
    refs = [one.census.by_id[number].ref for number in fresh]
    kept = {torch._C._storage_id(ref()) for ref in refs if tuple(ref().shape) == (16, 40)}
    assert len(kept) == 4
    names = {name for number in fresh for name in one.context.names[number].split(SEPARATOR)}
    assert {"result saved by LogSoftmaxBackward0", "self saved by NllLossBackward0"} <= names
    assert one.complete is True
    total.backward()
    del total
    assert [ref for ref in refs if ref() is not None] == []


def test_the_walk_is_cut_at_its_limit(agent):
    y = torch.ones(1, requires_grad=True)
    for _ in range(200):
        y = y * 1.0
    body = agent().graph([y], limit=50)
    assert body["cut"] is True
    assert len(body["nodes"]) == 50
    here = {node[0] for node in body["nodes"]}
    assert all(one is None or one in here for node in body["nodes"] for one in node[2])
    assert [node[0] for node in body["nodes"] if "cut" in node[5]] == [body["nodes"][-1][0]]
    assert [node[0] for node in body["nodes"] if "tensors" in node[5]] == body["roots"]
    assert body["reasons"] == ["the graph is read up to 50 nodes: it is larger"]
    whole = agent().graph([y])
    assert (whole["cut"], whole["reasons"]) == (False, [])


def test_of_all_tensors_only_the_ends_are_roots(agent):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = y.exp().sum()
    one = agent()
    body = one.graph()
    names = {node[0]: node[1] for node in body["nodes"]}
    assert "SumBackward0" in [names[root] for root in body["roots"]]
    assert "ExpBackward0" not in [names[root] for root in body["roots"]]
    del z


def test_a_view_changed_in_place_is_left_alone(agent):
    base = torch.ones(4, 4, requires_grad=True) * 1
    view = base[0]
    base.mul_(2)
    one = agent()
    context = Context(torch, one.census, [])
    walker = graph.Walker(context, one.census.base, 100)
    assert walker.root(view) is None
    assert walker.root(base) is not None


def test_a_dying_root_takes_the_frontier_with_it(agent):
    """The walk must not make a graph, and what it saved, live longer."""
    x = torch.ones(8, requires_grad=True)
    box = [x]
    for _ in range(3000):
        box[0] = box[0].sigmoid()
    one = agent()
    tracked = one.census.track(box[0])
    context = Context(torch, one.census, [])
    walker = graph.Walker(context, one.census.base, 10_000)
    refs, dropped = [], []

    def visit(walker, node, successors):
        if len(refs) < 20:
            refs.extend(weakref.ref(saved[1]) for saved in walker.saved(node, False) if saved[1] is not None)

    def during():
        if refs and not dropped:
            box.clear()
            dropped.append([ref for ref in refs if ref() is not None])

    one.run(walker.walk([tracked], visit), during)
    assert refs
    assert dropped == [[]]
    assert len(walker.seen) < 3000


def chain(length):
    x = torch.ones(8, requires_grad=True)
    y = x
    for _ in range(length):
        y = y.sigmoid()
    return y


@pytest.mark.parametrize("learned", [True, False])
def test_a_root_that_is_detached_lets_the_frontier_go(agent, learned):
    box = [chain(3000)]
    one = agent()
    if learned:
        one.census.memory["reader"] = TensorReader(torch, Size(torch).of)
    walker = graph.Walker(Context(torch, one.census, []), one.census.base, 10_000)
    refs, pieces = [], []

    def visit(walker, node, successors):
        if len(refs) < 20:
            refs.extend(weakref.ref(saved[1]) for saved in walker.saved(node, False) if saved[1] is not None)

    def during():
        if refs:
            pieces.append(sum(ref() is not None for ref in refs))
            if len(pieces) == 1:
                box[0].detach_()

    one.run(walker.walk([one.census.track(box[0])], visit), during)
    assert pieces[0] > 0
    assert set(pieces[1:]) <= {0}  # of which there is a second where the machine is busy
    assert not [ref for ref in refs if ref() is not None]
    assert len(walker.seen) < 3000
    assert not walker.dropped


@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_frontier_that_was_let_go_is_come_by_again(agent, times):
    y = chain(3000)
    one = agent()
    walker = graph.Walker(Context(torch, one.census, []), one.census.base, 10_000)
    visited, emptied = [], [0]

    def visit(walker, node, successors):
        visited.append(nodes.DEPTHS.measure(node)[0])

    work = walker.walk([one.census.track(y)], visit)
    place = next(work)

    def during():
        if emptied[0] < times and "frontier" in place and len(visited) > 300 * emptied[0]:
            emptied[0] += 1
            place.clear()

    one.run(work, during)
    assert emptied == [times]
    assert len(visited) == len(set(visited))
    assert walker.dropped is (times > graph.MOST_BEGUN)
    assert (len(visited) == 3001) is not walker.dropped


def test_nothing_is_left_of_a_finished_walk(agent):
    x = torch.ones(8, requires_grad=True)
    y = (x * 2).exp().sum()
    one = agent()
    for _ in range(3):
        one.saved()
        one.graph()
    ref = weakref.ref(one.census.by_id[next(iter(one.saved().context.names))].ref())
    assert ref() is not None
    one.context = None
    del y
    assert ref() is None
    assert not [thing for thing in gc.get_objects() if type(thing).__name__ == "ExpBackward0"]


def test_no_warning_and_no_gradient_of_what_is_not_a_leaf(agent):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = agent()
        one.names()
        one.saved()
        one.graph()
    assert y.grad_fn is not None


def test_while_backward_runs_nothing_is_read(agent, monkeypatch):
    monkeypatch.setattr(graph, "PATIENCE", 0.0)
    monkeypatch.setattr(graph, "TRIES", 3)
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    inside, go_on = threading.Event(), threading.Event()
    read = []
    monkeypatch.setattr(NodeReader, "saved", lambda *_: read.append(1) or iter(()))

    def hook(grad):
        inside.set()
        go_on.wait(20)

    y.register_hook(hook)
    loss = y.sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    inside.wait(10)
    complete = agent().saved().complete
    go_on.set()
    thread.join()
    assert complete is False
    assert read == []


def test_without_a_safe_way_saved_tensors_are_not_read(agent, monkeypatch):
    monkeypatch.setattr(NodeReader, "can_read_saved", False, raising=False)
    original = NodeReader.__init__

    def blind(self, *args):
        original(self, *args)
        self.can_read_saved = False

    monkeypatch.setattr(NodeReader, "__init__", blind)
    y = torch.ones(3, requires_grad=True).exp()
    one = agent().saved()
    assert one.complete is False
    assert one.context.names == {}
    assert any("side effects" in reason for reason in one.context.reasons)
    body = agent().graph([y])
    assert [node[4] for node in body["nodes"]] == [[], []]
    assert body["cut"] is False
    assert body["reasons"] == [graph.NO_VERSIONS]


def test_depth_is_read_from_the_node():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(7):
        y = y * 1.0
    z = y + x
    depths = Depths()
    reader = NodeReader(torch, torch._C.TensorBase, Kinds([(torch._C.TensorBase, TENSOR)]))
    with Alone():
        node, lengths = z.grad_fn, []
        while node is not None and reader.leaf(node) is None:
            length = depths.measure(node)[1]
            depths.check(length, reader.successors(node))
            lengths.append(length)
            node = reader.successors(node)[0]
    assert lengths == [8, 7, 6, 5, 4, 3, 2, 1]
    assert depths._places  # one of them is still believed in


CHAIN = """
    import sys, time, torch
    sys.path.insert(0, {here!r})
    from tensortui.agent.census import Census, Context
    from tensortui.agent import graph, nodes
    census = Census(time.monotonic)
    census.base = torch._C.TensorBase
    census.types.ids.add(id(torch.Tensor))
    x = torch.ones(1, requires_grad=True)
    y = x
    reasons = []
    for step in range(100_000):
        y = y * 1.0
        if step % 2000 == 1999:
            census.track(y)
            context = Context(torch, census, reasons)
            for _ in graph.discover(context): pass
            for _ in graph.walk(context, None, 10_000): pass
            while census.bury(): pass
    assert any("overflow" in one for one in reasons), reasons
    del y
    print("alive")
"""


def test_a_chain_that_grows_for_ever_is_not_made_deadly():
    """Every node that is touched deepens the recursion in which torch frees a chain."""
    code = textwrap.dedent(CHAIN).format(here=str(ROOT))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=100,
                          check=False)  # fmt: skip
    assert done.stdout == "alive\n", (done.returncode, done.stderr[-1000:])


def test_no_unpack_hook_is_run(agent):
    """Not even where what the hook packed is itself a tensor."""
    unpacked = []

    def unpack(packed):
        unpacked.append(1)
        return packed

    x = torch.ones(4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.detach().clone(), unpack):
        y = x.exp().sin().sum()
    one = agent()
    entries = [entry for node in one.graph([y])["nodes"] for entry in node[4]]
    one.saved()
    assert unpacked == []
    assert [entry[5] for entry in entries] == [True, True]
    assert [entry[2] for entry in entries] == [None, None]


READ_ALL = """
    import sys, torch
    sys.path.insert(0, {here!r})
    from tensortui.agent import nodes
    from tensortui.agent.read import TensorReader
    reader = TensorReader(torch, lambda *_: 4)
    x = torch.ones(1, requires_grad=True)
    y, held = x, []
    for _ in range(70_000):
        y = y * 1.0
        held.append(y)
    names = []
    for one in held:
        with reader.guard():
            names.append(reader.read(one).grad_fn)
    assert names == ["MulBackward0"] * 70_000
    assert not nodes.DEPTHS.exhausted
    held.reverse()
    del one, held
    del y
    print("alive")
"""


def test_reading_every_tensor_of_a_long_chain_is_not_deadly():
    code = textwrap.dedent(READ_ALL).format(here=str(ROOT))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=100,
                          check=False)  # fmt: skip
    assert done.stdout == "alive\n", (done.returncode, done.stderr[-1000:])


def test_the_grad_fn_of_a_view_changed_in_place_is_not_read():
    base = torch.ones(4, 4, requires_grad=True) * 1
    view = base[0]
    reader = TensorReader(torch, lambda *_: 64)
    with reader.guard():
        assert reader.read(view).grad_fn == "SelectBackward0"
        base.mul_(2)
        assert reader.read(view).grad_fn is None
        assert reader.read(base).grad_fn == "MulBackward0"
