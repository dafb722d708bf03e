"""Graphs as an agent tells them, from a few words a node."""

from dataclasses import replace

import pytest

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import Reach, Saves
from tensortui.model import Graph, GraphNode, SavedTensor


class Graphs:
    """Builds one graph over the samples of `build`: `node` adds a node, and what it saved."""

    def __init__(self, build) -> None:
        self.build = build
        self.nodes: dict[int, GraphNode] = {}

    def node(self, number, *following, name="MulBackward0", saved=(), **more) -> int:
        """A node; `saved` are ids of tensors, or whole records."""
        records = tuple(
            one if isinstance(one, SavedTensor) else SavedTensor("self", one, 0, 0, False, False) for one in saved
        )
        self.nodes[number] = GraphNode(number, name, following, saved=records, **more)
        return number

    def leaf(self, number, tensor=None, **more) -> int:
        self.nodes[number] = GraphNode(number, "AccumulateGrad", leaf=tensor, **more)
        return number

    def change(self, number, **more) -> None:
        self.nodes[number] = replace(self.nodes[number], **more)

    def graph(self, *roots, **more) -> Graph:
        return Graph(roots or (1,), tuple(self.nodes.values()), **more)

    def reach(self, *roots) -> Reach:
        return Reach(self.graph(*roots))

    def saves(self, *roots) -> Saves:
        sample = self.build.sample()
        return Saves(self.reach(*roots), sample, Accounts(sample))


@pytest.fixture
def graphs(build) -> Graphs:
    return Graphs(build)
