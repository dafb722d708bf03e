from hypothesis import given, settings
from hypothesis import strategies as st

from tensortui.analysis.graph import Keeping, Reach, maker_of
from tensortui.model import Graph, GraphNode

EDGES = st.lists(st.tuples(st.integers(1, 12), st.one_of(st.none(), st.integers(1, 14))), max_size=40)


def graph_of(edges, roots=(1,)):
    following: dict[int, list] = {number: [] for number in range(1, 13)}
    for one, other in edges:
        following[one].append(other)
    return Graph(tuple(roots), tuple(GraphNode(number, "N", tuple(following[number])) for number in following))


def behind(graph, roots):
    nodes = {node.id: node for node in graph.nodes}
    seen, waiting = set(), list(roots)
    while waiting:
        number = waiting.pop()
        if number in nodes and number not in seen:
            seen.add(number)
            waiting += nodes[number].next
    return seen


@settings(max_examples=200)
@given(EDGES, st.lists(st.integers(1, 14), max_size=4))
def test_every_node_comes_once_and_before_all_that_follow_it(edges, roots):
    """Even where a peer sends circles, edges to nowhere, and roots that are not there."""
    graph = graph_of(edges, roots)
    reach = Reach(graph)
    assert set(reach.order) == behind(graph, roots)
    assert len(reach.order) == len(set(reach.order))
    place = {number: at for at, number in enumerate(reach.order)}
    for number in reach.order:
        assert all(place[one] > place[number] for one in reach.following[number])
        assert all(number in reach.following[one] for one in reach.before[number])
    forward = [(one, other) for one, other in edges if other in place and one in place and one < other]
    if all(other is None or one < other for one, other in edges):
        assert {(one, two) for one in reach.order for two in reach.following[one]} == set(forward)
    assert behind(graph, reach.roots) >= set(reach.roots)
    assert all(not reach.before[root] for root in reach.roots)
    assert bool(reach.order) == bool(reach.roots)


def test_roots_that_others_lead_to_are_none(graphs):
    graphs.node(1, 2)
    graphs.node(2, 3)
    graphs.leaf(3)
    assert Reach(graphs.graph(2, 1)).roots == (1,)
    assert Reach(graphs.graph(1), [2]).order == (2, 3)
    assert 1 not in Reach(graphs.graph(1), [2])


def test_what_is_cut_elsewhere_does_not_make_these_incomplete(graphs):
    graphs.node(1, 2)
    graphs.node(2, None)
    graphs.node(3, None, cut=True)
    assert Reach(graphs.graph(1, 3), [1]).cut is False
    assert Reach(graphs.graph(1, 3)).cut is True


def test_the_node_that_made_a_tensor(graphs):
    graphs.node(1, 2, tensors=(7,))
    graphs.node(2, tensors=(8, 9))
    assert maker_of(graphs.graph(1), 9) == 2
    assert maker_of(graphs.graph(1), 1) is None


def test_a_chain_of_ten_thousand_nodes(graphs):
    for number in range(1, 10_001):
        graphs.node(number, *([number + 1] if number < 10_000 else []))
    saves = graphs.saves(1)
    reach = graphs.reach(1)
    assert len(reach.order) == 10_000
    assert Keeping(reach, saves).kept_bytes == 0
