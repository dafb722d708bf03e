"""All that can be told of what is behind some roots, from one graph and one sample."""

from __future__ import annotations

from collections.abc import Iterable

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph.completing import complete
from tensortui.analysis.graph.keeping import Keeping
from tensortui.analysis.graph.reach import Reach
from tensortui.analysis.graph.saves import Save, Saves
from tensortui.analysis.graph.tree import Tree
from tensortui.analysis.graph.versions import Writer, stale, writer
from tensortui.model import Graph, Sample


class Behind:
    """The graph behind `roots`, or all of it. May take a few tenths of a second for the largest that are read."""

    def __init__(self, graph: Graph, sample: Sample, accounts: Accounts, roots: Iterable[int] | None = None) -> None:
        """Look at `graph`; its tensors are those of `sample`, to which `accounts` belong, or as it describes them."""
        self.graph = graph
        self.newest = sample
        sample = complete(graph, sample)
        if sample is not self.newest:
            accounts = Accounts(sample)
        self.sample = sample
        self.reach = Reach(graph, roots)
        self.saves = Saves(self.reach, sample, accounts)
        self.keeping = Keeping(self.reach, self.saves)
        self.tree = Tree(self.reach, self.saves)
        self.stale = stale(self.saves)
        nodes = [self.reach.nodes[number] for number in self.reach.order]
        held = {saved.tensor for node in nodes for saved in node.saved} | {node.leaf for node in nodes}
        self.tensors = frozenset(one for one in held if one is not None)

    def writer(self, save: Save) -> Writer:
        """Who changed a stale save in place, as far as the sample shows."""
        return writer(save, self.reach, self.saves)
