"""What is found in a graph: what is changed, kept, or carried on and on, and what only looks like it."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import find
from tensortui.analysis.findings.thresholds import Thresholds
from tensortui.model import Graph, GraphNode, SavedTensor

MIB = 1 << 20


def saved(tensor, then, now, name="self"):
    return SavedTensor(name, tensor, then, now, then is not None and then != now, False)


class World:
    """A model of two parameters, and graphs over them that are made of passes."""

    def __init__(self, build):
        self.build = build
        self.nodes = {}
        self.roots = []
        self.version = 0
        self.weights = [self._weight(name) for name in ("w1", "w2")]

    def _weight(self, name):
        tid = self.build.tensor(self.build.storage(64), (16,), name=name, category="parameter", requires_grad=True)
        return tid, self.node("AccumulateGrad", leaf=tid)

    def node(self, name, *following, **more):
        number = len(self.nodes) + 1
        self.nodes[number] = GraphNode(number, name, following, **more)
        return number

    def forward(self, *inputs, name="NllLossBackward0"):
        """One pass over both weights, on top of the graphs of `inputs`."""
        at = inputs
        for tid, leaf in self.weights:
            kept = self.build.tensor(self.build.storage(MIB), (MIB // 4,), category="saved", python=False)
            one = saved(tid, self.version, self.version, "mat2")
            at = (self.node("AddmmBackward0", leaf, *at, saved=(one, saved(kept, 0, 0, "mat1"))),)
        return self.node(name, *at)

    def step(self):
        """The optimizer changes the weights."""
        self.version += 1
        for tid, _ in self.weights:
            self.build.tensors[tid] = replace(self.build.tensors[tid], version=self.version)

    def free(self, *tops):
        """A backward goes through the graphs of `tops`."""
        waiting = list(tops)
        while waiting:
            node = self.nodes[waiting.pop()]
            waiting += node.next
            if node.saved:
                self.nodes[node.id] = replace(node, saved=(), freed=True)

    def root(self, number, name=None, **more):
        """A live tensor of one element that a node made."""
        tid = self.build.tensor(self.build.storage(4), (), name=name, grad_fn=self.nodes[number].name, **more)
        self.nodes[number] = replace(self.nodes[number], tensors=(tid,))
        self.roots.append(number)
        return tid

    def optimizer(self):
        self.build.tensor(self.build.storage(64), (16,), name="exp_avg of w1", category="optimizer")

    def found(self, *, cut=False, **thresholds):
        sample = self.build.sample()
        graph = Graph(tuple(self.roots), tuple(self.nodes.values()), cut)
        told = find(sample, Accounts(sample), graph, Thresholds(**thresholds))
        return [finding for finding in told if finding.kind != "retained-storage"]


@pytest.fixture
def world(build):
    return World(build)


def kinds(found):
    return [(finding.kind, finding.severity) for finding in found]


# -- changed since


def test_an_operation_that_changed_a_saved_tensor_is_named_with_both_numbers(world):
    storage = world.build.storage(4000)
    kept = world.build.tensor(storage, (1000,), version=2, category="saved", names=("result saved by ExpBackward0",))
    world.build.tensor(storage, (1000,), version=2, name="h @ step() train.py:9", grad_fn="AddBackward0")
    world.root(world.node("SumBackward0", world.node("ExpBackward0", saved=(saved(kept, 0, 1, "result"),))), "loss")
    (finding,) = world.found()
    assert kinds([finding]) == [("stale-save", "error")]
    assert finding.title == (
        "ExpBackward0 saved result on the storage of h @ step() train.py:9 "
        "at version 0, it is now at 2: backward will raise"
    )
    assert (finding.evidence["version_saved"], finding.evidence["version"]) == (0, 2)
    assert finding.evidence["changed_by"] == (
        "last changed in place by AddBackward0, which is recorded on h @ step() train.py:9"
    )


def test_parameters_that_an_optimizer_changed_are_told_as_one_note(world):
    world.root(world.forward(), "validation")
    world.step()
    (finding,) = world.found()
    assert kinds([finding]) == [("stale-save", "note")]
    assert finding.title == (
        "2 saved parameters were changed since, as an optimizer step does: a backward through 2 nodes would raise"
    )
    assert set(finding.tensors) == {tid for tid, _ in world.weights}
    assert sorted(finding.evidence["names"]) == ["w1", "w2"]


def test_of_a_graph_that_a_backward_has_been_through_nothing_is_said_to_be_stale(world):
    """Two losses over one trunk: the backward of the first has kept its own nodes, the second has freed the trunk."""
    trunk = world.forward(name="ReluBackward0")
    first, second = world.forward(trunk), world.forward(trunk)
    world.root(first, "first")
    world.free(second)
    world.step()
    assert world.found() == []
    alone = world.forward()
    world.root(alone, "alone")
    world.step()
    assert kinds(world.found()) == [("stale-save", "note")]


def test_what_is_behind_a_freed_node_can_still_be_reached_from_another_tensor(world):
    below = world.forward(name="ReluBackward0")
    top = world.node("MulBackward0", below, freed=True)
    world.root(top, "loss")
    world.step()
    assert world.found() == []
    world.root(below, "hidden")
    assert kinds(world.found()) == [("stale-save", "note")]


# -- kept


def total(world, passes, update=False, free=False):
    at = None
    for _ in range(passes):
        loss = world.forward()
        if free:
            world.free(loss)
        at = loss if at is None else world.node("AddBackward0", at, loss)
        if update:
            world.step()
    return world.root(at, "total")


def test_a_sum_over_steps_of_the_optimizer_is_a_warning(world):
    world.optimizer()
    tid = total(world, 5, update=True)
    (kept,) = [finding for finding in world.found() if finding.kind == "graph-kept"]
    assert (kept.severity, kept.tensors) == ("warning", (tid,))
    assert kept.title == "total sums 5 losses with their graphs: 10.00 MiB in 10 saved storages"
    assert (kept.evidence["steps"], kept.evidence["states"]) == (5, 5)
    assert "deep-graph" not in [finding.kind for finding in world.found()]  # one thing is told once


def test_a_sum_over_the_passes_of_one_step_may_be_meant(world):
    world.optimizer()
    total(world, 5)
    (finding,) = world.found()
    assert (kinds([finding]), finding.evidence["states"]) == ([("graph-kept", "note")], 1)
    assert finding.advice.startswith("Fine where one backward")


def test_a_sum_that_is_still_there_after_the_step_is_a_warning(world):
    world.optimizer()
    total(world, 5)
    world.step()
    assert ("graph-kept", "warning") in kinds(world.found())


def test_without_anybody_who_trains_a_sum_of_losses_will_not_be_used(world):
    total(world, 5)
    assert kinds(world.found()) == [("graph-kept", "warning")]


def test_what_a_backward_has_released_is_a_note(world):
    total(world, 5, free=True)
    (finding,) = world.found()
    assert (kinds([finding]), finding.evidence["freed_nodes"], finding.size) == ([("graph-kept", "note")], 10, 0)
    assert "nodes go with the last reference" in finding.advice


def test_a_running_average_is_a_sum_too(world):
    at = world.forward()
    for _ in range(4):
        at = world.node("AddBackward0", world.node("MulBackward0", at), world.node("MulBackward0", world.forward()))
    world.root(at, "average")
    (finding,) = world.found()
    assert finding.title.startswith("average sums 5 losses with their graphs: 10.00 MiB")


def test_a_list_of_losses_counts_the_graphs_of_its_own_members(world):
    world.optimizer()
    for number in range(6):
        world.root(world.forward(), f"losses[{number}]")
        world.step()
    (kept,) = [finding for finding in world.found() if finding.kind == "graph-kept"]
    assert kept.title.startswith("losses holds 6 losses") and kept.severity == "warning"
    assert world.found(kept_steps=7) == [finding for finding in world.found() if finding.kind != "graph-kept"]


# -- carried on


def test_a_state_that_is_carried_over_steps_is_a_warning(world):
    state = world.forward(name="TanhBackward0")
    for _ in range(4):
        world.step()
        state = world.forward(state, name="TanhBackward0")
    tid = world.root(state, "state @ train() rnn.py:7")
    (deep,) = [finding for finding in world.found() if finding.kind == "deep-graph"]
    assert (deep.severity, deep.tensors) == ("warning", (tid,))
    assert (
        deep.title == "the graph behind state @ train() rnn.py:7 goes back 15 nodes and over 5 states of the parameters"
    )
    assert "detach()" in deep.advice
    assert [finding.kind for finding in world.found(kept_steps=6)] == ["stale-save"]


def test_a_deep_graph_of_one_step_is_a_note_and_cut_ones_are_at_least_as_deep(world):
    at = world.forward()
    for _ in range(100):
        at = world.node("TanhBackward0", at)
    world.root(at, "out")
    assert world.found() == []
    (finding,) = world.found(deep_nodes=103)
    assert kinds([finding]) == [("deep-graph", "note")]
    assert finding.title == "the graph behind out goes back 103 nodes"
    assert world.found(deep_nodes=104) == []
    (cut,) = world.found(deep_nodes=50, cut=True)
    assert "at least 103 nodes" in cut.title


def test_graphs_that_share_nothing_but_leaves_are_as_deep_as_each_alone(world):
    for number in range(3):
        world.root(world.forward(), f"x{number}")
        world.step()
    assert [finding.kind for finding in world.found(kept_steps=2)] == ["stale-save"]


# -- what is gone


def test_a_finding_names_only_what_the_sample_has(world):
    sample = world.build.sample()
    gone = world.build.tensor(world.build.storage(16), (4,), version=1, name="gone")
    described = world.build.sample()
    node = GraphNode(1, "ExpBackward0", saved=(saved(gone, 0, 1),))
    graph = Graph((1,), (node,), tensors={gone: described.tensors[gone]}, storages={})
    (finding,) = find(sample, Accounts(sample), graph)
    assert (finding.kind, finding.tensors, finding.storages) == ("stale-save", (), ())
    assert "saved gone (self)" in finding.title


# -- what is no sum of losses, and what is not all there


def recurrence(world, steps, shape, *, part="SelectBackward0"):
    """`h = h * 0.9 + weight[0]`, many times."""
    leaf = world.weights[0][1]
    top = world.node("MulBackward0", None)
    for _ in range(steps):
        top = world.node("AddBackward0", world.node("MulBackward0", top), world.node(part, leaf))
    tid = world.build.tensor(world.build.storage(128), shape, name="h", grad_fn="AddBackward0")
    world.nodes[top] = replace(world.nodes[top], tensors=(tid,))
    world.roots.append(top)
    return tid


@pytest.mark.parametrize(
    ("shape", "part"), [((4, 8), "SelectBackward0"), ((4, 8), "NllLossBackward0"), ((), "SelectBackward0")]
)
def test_a_recurrence_is_no_sum_of_losses(world, shape, part):
    """Not even where there is another tensor of one element that an addition made."""
    loss = world.node("AddBackward0", world.forward(), None)
    world.root(loss, "loss")
    tid = recurrence(world, 60, shape, part=part)
    (finding,) = world.found(deep_nodes=100)
    assert kinds([finding]) == [("deep-graph", "note")]
    assert finding.title.startswith("the graph behind h goes back 12")
    assert finding.tensors == (tid,)


def test_a_sum_of_losses_names_its_tensor_beside_another_that_an_addition_made(world):
    tops = [world.forward() for _ in range(5)]
    total = None
    for top in tops:
        total = world.node("AddBackward0", total, top)
    tid = world.root(total, "total")
    world.build.tensor(world.build.storage(4), (), name="other", grad_fn="AddBackward0")
    (finding,) = world.found()
    assert finding.title.startswith("total sums 5 losses with their graphs")
    assert finding.tensors == (tid,)


def test_where_no_parameter_was_saved_it_is_said_that_changes_do_not_show(world):
    leaf = world.weights[0][1]
    total = None
    for _ in range(5):
        total = world.node("AddBackward0", total, world.node("NllLossBackward0", world.node("AddmmBackward0", leaf)))
    world.root(total, "total")
    world.optimizer()
    (finding,) = world.found()
    assert kinds([finding]) == [("graph-kept", "note")]
    assert finding.evidence["states"] is None
    assert "saved no parameter" in finding.advice


def deepened(world, depths):
    sample = replace(world.build.sample(), depths=MappingProxyType(depths))
    graph = Graph(tuple(world.roots), tuple(world.nodes.values()), True)
    return find(sample, Accounts(sample), graph, Thresholds(deep_nodes=100))


def test_of_a_graph_that_was_read_in_part_it_is_told_how_deep_it_is(world):
    tid = recurrence(world, 60, (4, 8))
    (finding,) = deepened(world, {tid: 20_001})
    assert finding.title == "the graph behind h goes back at least 20,001 nodes"
    assert finding.evidence["depth"] == 20_001


def test_a_deep_graph_of_which_nothing_was_read_is_told_all_the_same(world):
    one = world.build.tensor(world.build.storage(4), (), name="state", grad_fn="AddBackward0")
    other = world.build.tensor(world.build.storage(4), (), name="before", grad_fn="AddBackward0")
    (finding,) = deepened(world, {one: 20_001, other: 20_000})
    assert kinds([finding]) == [("deep-graph", "note")]
    assert finding.title == "the graph behind state goes back at least 20,001 nodes; it was not read"
    assert finding.tensors == (one,)
    assert deepened(world, {one: 99}) == []
    tid = recurrence(world, 60, (4, 8))
    (finding,) = deepened(world, {tid: 30_000, one: 20_001})
    assert finding.tensors == (tid,)
