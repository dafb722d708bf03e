"""What was found in the graph that somebody had read: it is not read again by itself, so all of it has an age."""

from __future__ import annotations

from collections.abc import Sequence

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import Finding, Thresholds, in_graph
from tensortui.analysis.graph import words
from tensortui.model import Graph, Sample, Tensor


class GraphFindings:
    """The findings of one graph, up to date with newer samples for as long as all that it held is there."""

    def __init__(self, graph: Graph, read_at: float) -> None:
        """Look through `graph`, which was read at `read_at`."""
        self.read_at = read_at
        self.gone = False  # some of it is no more: what was found last stays
        self.in_part = words.in_part(graph)  # what was not found may be in the rest
        self._graph = graph
        held = {saved.tensor for node in graph.nodes for saved in node.saved} | {node.leaf for node in graph.nodes}
        self._held = frozenset(one for one in held if one is not None)
        self._found: Sequence[Finding] | None = None
        self._seen: dict[int, Tensor | None] = {}  # the held tensors when they were last looked at

    def of(self, sample: Sample, accounts: Accounts, thresholds: Thresholds) -> Sequence[Finding]:
        """What is found, with the tensors as `sample` has them."""
        seen = {one: sample.tensors.get(one) for one in self._held}
        # Only a sample that was begun after the graph was read knows all that still lives of it.
        if sample.taken_at > self.read_at and None in seen.values():
            self.gone = True
        if self._found is None or not (self.gone or self._same(seen)):
            self._found = in_graph(self._graph, sample, accounts, thresholds)
            self._seen = seen
        return self._found

    def extent(self, sample: Sample | None) -> str:
        """How much was read, beside what the newest sample knows of how much there is."""
        return words.extent(len(self._graph.nodes), words.depth(sample))

    def _same(self, seen: dict[int, Tensor | None]) -> bool:
        return all(self._seen.get(one) is tensor for one, tensor in seen.items())
