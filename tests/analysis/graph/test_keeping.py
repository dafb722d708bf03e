"""Bytes that a graph keeps: each storage once, and at a node only what nothing past it keeps."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import Keeping, Reach, Saves
from tensortui.model import Graph, GraphNode, Process, Sample, SavedTensor, Storage, Tensor


def keeping(graphs, *roots):
    return Keeping(graphs.reach(*roots), graphs.saves(*roots))


def test_a_storage_that_two_nodes_saved_counts_once_and_above_both(graphs):
    build = graphs.build
    shared, own = build.storage(100), build.storage(7)
    first, second = build.tensor(shared), build.tensor(shared)
    graphs.node(1, 2, 3)
    graphs.node(2, 4, saved=[first])
    graphs.node(3, 4, saved=[second, build.tensor(own)])
    graphs.leaf(4)
    found = keeping(graphs)
    assert (found.saved_bytes, found.kept_bytes, found.storages) == (107, 107, 2)
    assert [found.own(number) for number in (1, 2, 3, 4)] == [0, 100, 107, 0]
    assert (found.of([1, 2, 3]), found.of([1])) == (107, 0)
    assert [found.behind(number) for number in (1, 2, 3, 4)] == [107, 0, 7, 0]


def test_what_is_named_in_the_program_stays_without_the_graph(graphs):
    build = graphs.build
    weight = build.tensor(build.storage(100), name="model.weight", category="parameter")
    hidden = build.tensor(build.storage(50), name="result saved by ExpBackward0", category="saved", python=False)
    viewed = build.storage(30)
    view = build.tensor(viewed, flags=("view",))
    build.tensor(viewed, flags=("base-only",))
    stranger = build.storage(9)
    held = build.tensor(stranger)
    build.tensor(stranger)  # an object that no node saved
    graphs.node(1, saved=[weight, hidden, view, held])
    found = keeping(graphs)
    assert (found.saved_bytes, found.kept_bytes) == (189, 80)
    assert (found.own(1), found.behind(1)) == (189, 80)


def test_a_node_past_which_another_way_leads_keeps_nothing_alone(graphs):
    big = graphs.build.tensor(graphs.build.storage(64))
    graphs.node(1, 2, 3)
    graphs.node(2, 3)
    graphs.node(3, saved=[big])
    found = keeping(graphs)
    assert [found.behind(number) for number in (1, 2, 3)] == [64, 0, 64]


def test_two_graphs_keep_what_both_saved_together(graphs):
    big = graphs.build.tensor(graphs.build.storage(64))
    graphs.node(1, saved=[big])
    graphs.node(2, saved=[big])
    found = keeping(graphs, 1, 2)
    assert (found.kept_bytes, found.behind(1), found.behind(2)) == (64, 0, 0)


def test_what_cannot_be_read_and_what_holds_nothing_count_nothing(graphs):
    build = graphs.build
    meta = build.tensor(build.storage(64, backing="none"))
    loose = build.tensor(None, shape=(3,))
    graphs.node(1, saved=[meta, loose, SavedTensor("self", None, None, None, False, True), 4711])
    saves = graphs.saves()
    assert saves.missing == 1
    assert Keeping(graphs.reach(), saves).saved_bytes == 0


@st.composite
def kept(draw):
    """A graph without circles, what its nodes saved, and which storages are named."""
    size = draw(st.integers(1, 9))
    edges = [draw(st.lists(st.integers(number + 1, size), max_size=3)) if number < size else []
             for number in range(1, size + 1)]  # fmt: skip
    saved = [draw(st.lists(st.integers(0, 5), max_size=3)) for _ in range(size)]
    named = draw(st.sets(st.integers(0, 5), max_size=2))
    roots = draw(st.lists(st.integers(1, size), min_size=1, max_size=3, unique=True))
    return edges, saved, named, roots


def reached(edges, roots, without=None):
    seen, waiting = set(), list(roots)
    while waiting:
        number = waiting.pop()
        if number != without and number not in seen:
            seen.add(number)
            waiting += edges[number - 1]
    return seen


@settings(max_examples=300)
@given(kept())
def test_a_node_keeps_what_nobody_else_saved_once_it_is_taken_away(case):
    edges, saved, named, roots = case
    storages = {one: Storage(one, "cpu", one << 20, 1 << one) for one in range(6)}
    blank = ("Tensor", (1,), (1,), 0, "uint8", "cpu", "strided", 1, 1, True, "contiguous", (), False, True, 0, None)
    tensors = {10 + one: Tensor(10 + one, one, ("x",) if one in named else (), *blank, "other") for one in range(6)}
    sample = Sample(1, 0.0, Process(1), storages=storages, tensors=tensors)
    nodes = tuple(
        GraphNode(number + 1, "N", tuple(edges[number]), saved=tuple(
            SavedTensor("self", 10 + one, 0, 0, False, False) for one in saved[number]))
        for number in range(len(edges))
    )  # fmt: skip
    reach = Reach(Graph(tuple(roots), nodes))
    found = Keeping(reach, Saves(reach, sample, Accounts(sample)))

    def held(numbers):
        return {one for number in numbers for one in saved[number - 1]}

    def size(which):
        return sum(1 << one for one in which)

    whole = reached(edges, roots)
    assert found.saved_bytes == size(held(whole))
    assert found.kept_bytes == size(held(whole) - named)
    for number in whole:
        rest = reached(edges, reach.roots, without=number)
        assert found.own(number) == size(set(saved[number - 1]))
        assert found.behind(number) == size(held(whole) - held(rest) - named)


def test_a_leaf_that_nobody_else_holds_is_kept_by_the_graph(graphs):
    build = graphs.build
    loose, weight = build.tensor(build.storage(40)), build.tensor(build.storage(60), name="w", category="parameter")
    graphs.node(1, 2, 3, saved=[loose])
    graphs.leaf(2, loose)
    graphs.leaf(3, weight)
    found = keeping(graphs)
    assert (found.saved_bytes, found.kept_bytes, found.behind(1), found.behind(2)) == (40, 40, 40, 0)
    graphs.change(1, saved=())
    found = keeping(graphs)
    assert (found.saved_bytes, found.kept_bytes, found.behind(2)) == (0, 40, 40)
