"""The rows of the tree: every node once, links elsewhere, repetition folded, and nothing that recurses."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import CUT, FOLD, LEAF, LINK, NODE, SAVED, Reach, Saves, Tree
from tensortui.model import Graph, GraphNode, Process, Sample


def tree(graphs, *roots):
    return Tree(graphs.reach(*roots), graphs.saves(*roots))


def drawn(rows):
    return [f"{'  ' * row.depth}{row.kind} {row.node}" + (" below" if row.below else "") for row in rows]


def test_the_longest_way_goes_on_at_the_same_depth(graphs):
    """A linear layer: the bias and the weight branch off, the input goes on."""
    saved = graphs.build.tensor(graphs.build.storage(8))
    graphs.node(1, 2, name="MeanBackward0")
    graphs.node(2, 3, 4, 5, name="AddmmBackward0", saved=[saved])
    graphs.leaf(3)
    graphs.node(4, 6, name="ReluBackward0")
    graphs.node(5, 7, name="TBackward0")
    graphs.node(6, 8)
    graphs.leaf(7)
    graphs.leaf(8)
    rows = tree(graphs).rows()
    assert drawn(rows) == [
        "node 1",
        "node 2",
        "  saved 2",
        "  leaf 3",
        "  node 5",
        "  leaf 7",
        "node 4",
        "node 6",
        "leaf 8",
    ]
    assert [row.node for row in rows if row.begins] == [3, 5]
    assert [row.opened for row in rows if row.kind != SAVED] == [None, True, None, None, None, None, None, None]


def test_of_two_ways_that_are_as_long_the_last_goes_on(graphs):
    graphs.node(1, 2, 3)
    graphs.node(2, 4)
    graphs.node(3, 5)
    graphs.leaf(4)
    graphs.leaf(5)
    assert drawn(tree(graphs).rows()) == ["node 1", "  node 2", "  leaf 4", "node 3", "leaf 5"]


def test_a_residual_connection_is_a_link_and_carries_nothing_away(graphs):
    graphs.node(1, 2, 4, name="AddBackward0")
    graphs.node(2, 3)
    graphs.node(3, 4)
    graphs.node(4, 5)
    graphs.leaf(5)
    assert drawn(tree(graphs).rows()) == ["node 1", "  link 4 below", "node 2", "node 3", "node 4", "leaf 5"]


def test_a_weight_that_every_step_uses_stands_once(graphs):
    for step in (1, 2, 3):
        graphs.node(step, *([step + 1] if step < 3 else []), 9)
    graphs.leaf(9)
    assert drawn(tree(graphs).rows()) == ["node 1", "  link 9 below", "node 2", "  link 9 below", "node 3", "leaf 9"]


def test_several_roots_stand_one_behind_the_other_and_share(graphs):
    graphs.node(1, 3)
    graphs.node(2, 3)
    graphs.leaf(3)
    assert drawn(tree(graphs, 1, 2).rows()) == ["node 1", "leaf 3", "node 2", "  link 3"]


def test_closing_hides_what_branches_off_and_not_what_goes_on(graphs):
    saved = graphs.build.tensor(graphs.build.storage(8))
    graphs.node(1, 3, 2, saved=[saved], cut=True)
    graphs.node(2, 4)
    graphs.leaf(3)
    graphs.leaf(4)
    both = tree(graphs)
    assert [row.kind for row in both.rows()] == [NODE, SAVED, LEAF, CUT, NODE, LEAF]
    assert drawn(both.rows(closed={1})) == ["node 1", "node 2", "leaf 4"]
    assert both.rows(closed={1})[0].opened is False


def layers(graphs, count):
    """`count` layers of three nodes, each with a weight that branches off, behind a loss."""
    graphs.node(1, 2, name="MeanBackward0")
    for layer in range(count):
        at = 2 + 3 * layer
        graphs.node(at, at + 1, name="AddBackward0")
        graphs.node(at + 1, at + 2, at + 3, name="MmBackward0", saved=[graphs.build.tensor(graphs.build.storage(8))])
        graphs.leaf(at + 2, graphs.build.tensor(name=f"w{layer}", category="parameter"))
    graphs.leaf(2 + 3 * count)


def test_layers_that_read_the_same_are_folded_to_the_first(graphs):
    layers(graphs, 12)
    one = tree(graphs)
    rows = one.rows()
    # Behind the last layer there is nothing to go on with: its input is one of several ends.
    last = ["node 35", "node 36", "  saved 36", "  leaf 37", "  leaf 38"]
    assert drawn(rows) == ["node 1", "node 2", "node 3", "  saved 3", "  leaf 4", "fold 5", *last]
    (fold,) = (row for row in rows if row.kind == FOLD)
    assert (fold.fold.period, fold.fold.count, len(fold.fold.nodes), fold.opened) == (2, 11, 20, False)
    opened = one.rows(unfolded={5})
    assert drawn(opened)[5:8] == ["fold 5", "node 5", "node 6"]
    assert sum(row.kind in (NODE, LEAF) for row in opened) == 1 + 12 * 3 + 1


def test_a_layer_that_is_not_like_the_others_is_never_folded_away(graphs):
    layers(graphs, 12)
    saved = graphs.nodes[2 + 3 * 6 + 1].saved[0]
    stale = type(saved)(saved.name, saved.tensor, 0, 1, True, False)
    graphs.change(2 + 3 * 6 + 1, saved=(stale,))
    rows = tree(graphs).rows()
    assert [row.save.stale for row in rows if row.kind == SAVED].count(True) == 1
    assert [row.fold.count for row in rows if row.kind == FOLD] == [6, 4]


def test_the_way_to_a_hidden_node(graphs):
    layers(graphs, 12)
    one = tree(graphs)
    leaf = 2 + 3 * 5 + 2
    closed = set(range(60))
    nodes, folds = one.way_to(leaf)
    assert leaf not in [row.node for row in one.rows(closed=closed, unfolded=folds)]
    assert leaf in [row.node for row in one.rows(closed=closed - nodes, unfolded=folds)]
    assert one.way_to(1) == (set(), set())


def test_graphs_that_pile_up_are_folded_to_the_first(graphs):
    """A list of losses that nobody detached: each keeps its graph, which ends in the same weight."""
    for root in range(1, 21):
        graphs.node(root, 100 + root, name="MeanBackward0")
        graphs.node(100 + root, 999, name="MmBackward0", saved=[graphs.build.tensor(graphs.build.storage(8))])
    graphs.leaf(999)
    one = tree(graphs, *range(1, 21))
    shown = [
        "node 1",
        "node 101",
        "  saved 101",
        "leaf 999",
        "node 2",
        "node 102",
        "  saved 102",
        "  link 999",
        "fold 3",
    ]
    rows = one.rows()
    assert drawn(rows) == shown
    assert (rows[-1].fold.whole, rows[-1].fold.count) == (True, 19)
    assert sorted(one.hidden(rows[-1].fold)) == [*range(3, 21), *range(103, 121)]
    assert drawn(one.rows(unfolded={3}))[8:13] == ["fold 3", "node 3", "node 103", "  saved 103", "  link 999"]
    assert one.way_to(115) == (set(), {3})


def test_ten_thousand_nodes_need_no_recursion(graphs):
    for number in range(1, 10_000):
        graphs.node(number, number + 1, name=f"N{number * number % 7}")
    graphs.leaf(10_000)
    one = tree(graphs)
    assert max(row.depth for row in one.rows()) == 0
    assert len(one.rows()) < 40


def deep(graphs):
    """Every node leads to a leaf of its own first, then on."""
    for number in range(1, 5000):
        graphs.node(number, 10_000 + number, number + 1, name=f"N{number}")
        graphs.leaf(10_000 + number)
    graphs.leaf(5000)


def test_a_deep_graph_is_not_drawn_deep(graphs):
    deep(graphs)
    assert max(row.depth for row in tree(graphs).rows()) == 1


EDGES = st.lists(st.tuples(st.integers(1, 14), st.integers(1, 14)), max_size=40)


@settings(max_examples=300)
@given(EDGES, st.lists(st.integers(1, 14), min_size=1, max_size=3), st.sets(st.integers(1, 14)))
def test_every_node_stands_once_and_every_edge_shows(edges, roots, closed):
    following: dict[int, list] = {number: [] for number in range(1, 15)}
    for one, other in edges:
        following[one].append(other)
    graph = Graph(tuple(roots), tuple(GraphNode(number, f"N{number % 3}", tuple(following[number]))
                                      for number in following))  # fmt: skip
    sample = Sample(1, 0.0, Process(1))
    reach = Reach(graph)
    one = Tree(reach, Saves(reach, sample, Accounts(sample)))
    folded = one.rows()
    for row in folded:
        if row.fold is not None:
            assert not {other.node for other in folded} - {row.node} & set(one.hidden(row.fold))
    hidden = [number for row in folded if row.fold is not None for number in one.hidden(row.fold)]
    seen = [row.node for row in folded if row.kind in (NODE, LEAF)]
    assert sorted(seen + hidden) == sorted(reach.order)
    rows = one.rows(unfolded=one.folds)
    standing = [row.node for row in rows if row.kind in (NODE, LEAF)]
    assert sorted(standing) == sorted(reach.order)
    links = {(row.key[1], row.key[2]) for row in rows if row.kind == LINK}
    stands = {(parent, number) for number, parent in one.parent.items() if parent is not None}
    assert links | stands == {(number, other) for number in reach.order for other in reach.following[number]}
    assert not links & stands
    place = {row.node: at for at, row in enumerate(rows) if row.kind in (NODE, LEAF)}
    assert all(row.below == (place[row.node] > at) for at, row in enumerate(rows) if row.kind == LINK)
    assert len({row.key for row in rows}) == len(rows)
    nodes = len(reach.order)
    assert max(row.depth for row in rows) <= nodes.bit_length() + 1
    shown = {row.node for row in one.rows(closed=closed)}
    for number in reach.order:
        ways, folds = one.way_to(number)
        assert number in {row.node for row in one.rows(closed=closed - ways, unfolded=folds)}
    assert shown <= set(reach.order)
