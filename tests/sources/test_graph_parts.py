"""A graph put together from its chunks, whatever they are."""

from hypothesis import given
from hypothesis import strategies as st

from tensortui.sources import messages
from tensortui.sources.messages import GraphParts, integer


def test_roots_that_come_with_each_chunk_count_once():
    parts = GraphParts()
    for number in range(90):
        parts.add({"roots": list(range(9000)), "nodes": [[number, "MulBackward0", [], None, []]]})
    graph = parts.graph()
    assert graph.roots == tuple(range(9000))
    assert len(graph.nodes) == 90
    assert graph.cut is False


def test_a_node_with_thousands_of_successors_and_tensors_has_them_all():
    parts = GraphParts()
    saved = [["self", number, 0, 0, False, False] for number in range(5000)]
    parts.add({"nodes": [[1, "StackBackward0", list(range(2, 5002)), None, saved, {"tensors": list(range(5000))}]]})
    parts.add({"made": [[1, [4999, 5000]], [1, [5001, "junk"]], [7, [1]], "junk", [None, [1]], [1]], "nodes": []})
    (node,) = parts.graph().nodes
    assert node.next == tuple(range(2, 5002))
    assert [one.tensor for one in node.saved] == list(range(5000))
    assert node.tensors == tuple(range(5002))


def test_what_is_over_the_bound_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(messages, "MAX_PARTS", 5)
    parts = GraphParts()
    parts.add({"nodes": [[1, "StackBackward0", [2, 3], None, [], {"tensors": [7, 8]}]]})
    assert parts.graph().cut is False
    parts.add({"made": [[1, [9, 10]]]})
    graph = parts.graph()
    assert graph.nodes[0].tensors == (7, 8, 9)
    assert (graph.cut, graph.reasons) == (True, (messages.TOO_MANY,))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(["tensors", "held"]), inner),
    max_leaves=30,
)


@given(st.lists(st.fixed_dictionaries({"nodes": ANYTHING, "made": ANYTHING, "roots": ANYTHING}), max_size=3))
def test_what_is_not_as_it_should_be_is_left_out(chunks):
    parts = GraphParts()
    for chunk in chunks:
        parts.add(chunk)
    graph = parts.graph()
    assert all(integer(root) is not None for root in graph.roots)
    assert all(integer(one) is not None for node in graph.nodes for one in (node.id, *node.tensors))
