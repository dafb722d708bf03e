"""The nodes that some roots of a graph lead to, in an order that every question about them can be asked in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from tensortui.model import Graph, GraphNode

LEAF = "AccumulateGrad"


class Reach:
    """What is behind `roots`, each node before all that follow it. The graph of a peer may be anything: it is not.

    Edges to nodes that are not there are left out, and so are those that would close a circle.
    """

    def __init__(self, graph: Graph, roots: Iterable[int] | None = None) -> None:
        """Begin at `roots`, or at those of the graph that no other leads to."""
        self.graph = graph
        self.nodes: Mapping[int, GraphNode] = {node.id: node for node in graph.nodes}
        wanted = [root for root in dict.fromkeys(graph.roots if roots is None else roots) if root in self.nodes]
        self.order, self.following = _sorted(self.nodes, wanted)
        before: dict[int, list[int]] = {number: [] for number in self.order}
        for number in self.order:
            for one in self.following[number]:
                before[one].append(number)
        self.before: Mapping[int, Sequence[int]] = before
        self.roots = tuple(root for root in wanted if not before[root])

    def __contains__(self, number: object) -> bool:
        """Whether a node is among them."""
        return number in self.before

    @cached_property
    def makers(self) -> Mapping[int, int]:
        """The nodes that made tensors, by these: those of the graph that are known."""
        return {tensor: node.id for node in self.graph.nodes for tensor in node.tensors}

    @property
    def cut(self) -> bool:
        """Whether there is more behind these roots than the graph tells."""
        return any(self.nodes[number].cut for number in self.order)


def is_leaf(node: GraphNode) -> bool:
    """Whether a node is an end of the graph, which fills the gradient of a leaf."""
    return node.leaf is not None or node.name == LEAF


def maker_of(graph: Graph, tensor: int) -> int | None:
    """The node that made a tensor, where the graph tells."""
    return next((node.id for node in graph.nodes if tensor in node.tensors), None)


def _sorted(nodes: Mapping[int, GraphNode], roots: Sequence[int]) -> tuple[tuple[int, ...], dict[int, tuple[int, ...]]]:
    """The nodes behind `roots`, each before those that follow it, and the edges between them, each once."""
    under_way, done = 1, 2
    state: dict[int, int] = {}
    following: dict[int, tuple[int, ...]] = {}
    order: list[int] = []
    for root in reversed(roots):
        stack: list[tuple[int, list[int]]] = []
        if root not in state:
            state[root] = under_way
            stack.append((root, _edges(nodes, root)))
        while stack:
            number, left = stack[-1]
            while left and state.get(left[-1]):
                left.pop()
            if left:
                child = left.pop()
                state[child] = under_way
                stack.append((child, _edges(nodes, child)))
                continue
            stack.pop()
            state[number] = done
            # What is still under way is above this node: an edge to it would close a circle.
            edges = (one for one in dict.fromkeys(nodes[number].next) if one is not None and one in nodes)
            following[number] = tuple(one for one in edges if state[one] == done and one != number)
            order.append(number)
    order.reverse()
    return tuple(order), following


def _edges(nodes: Mapping[int, GraphNode], number: int) -> list[int]:
    """Where to go on from a node; the first comes last, and is taken first."""
    return [one for one in dict.fromkeys(nodes[number].next) if one is not None and one in nodes]
