"""What a finding is, and what the rules look at."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.deepening import Deeper
from tensortui.analysis.findings.thresholds import Thresholds
from tensortui.analysis.graph import Reach, Saves
from tensortui.analysis.graph.completing import complete
from tensortui.analysis.growth import Grown
from tensortui.analysis.naming import expression, label
from tensortui.model import Graph, Sample, Tensor

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth telling. `evidence` holds plain values: numbers, strings, lists of them.

    `size` is in bytes, and orders findings of one severity. `stands_for` is how many there are of what it tells: one
    finding stands for all that are not told one by one. `about` says in words what it is about, where its tensors are
    others with each step.
    """

    kind: str
    severity: str
    title: str
    tensors: tuple[int, ...] = ()
    storages: tuple[int, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""
    size: int = 0
    stands_for: int = 1
    about: tuple[str, ...] = ()

    @property
    def subject(self) -> tuple[object, ...]:
        """What makes it the same finding as one of another sample: its kind, and what it is about."""
        return (self.kind, self.stands_for > 1, self.about or (self.tensors, self.storages))


@dataclass(frozen=True)
class Facts:
    """What the rules look at."""

    sample: Sample
    accounts: Accounts
    thresholds: Thresholds
    grown: Sequence[Grown] = ()
    deeper: Sequence[Deeper] = ()


@dataclass(frozen=True)
class GraphFacts:
    """What the rules about a graph look at: it, with the tensors of the sample, and of those that are gone its own."""

    graph: Graph
    newest: Sample
    accounts_of_newest: Accounts
    thresholds: Thresholds

    @cached_property
    def reach(self) -> Reach:
        """All nodes of the graph, in an order."""
        return Reach(self.graph)

    @cached_property
    def sample(self) -> Sample:
        """The sample, with what only the graph knows."""
        return complete(self.graph, self.newest)

    @cached_property
    def accounts(self) -> Accounts:
        """The accounts of that sample."""
        return self.accounts_of_newest if self.sample is self.newest else Accounts(self.sample)

    @cached_property
    def scalars(self) -> Mapping[str, list[Tensor]]:
        """The tensors of one element, such as losses, by the node that made them."""
        found: dict[str, list[Tensor]] = defaultdict(list)
        for tensor in self.sample.tensors.values():
            if tensor.grad_fn is not None and tensor.shape is not None and math.prod(tensor.shape) == 1:
                found[tensor.grad_fn].append(tensor)
        return found

    @cached_property
    def saves(self) -> Saves:
        """What the nodes saved."""
        return Saves(self.reach, self.sample, self.accounts)


__all__ = ["SEVERITIES", "Facts", "Finding", "GraphFacts", "expression", "label"]
