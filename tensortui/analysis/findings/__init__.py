"""What is worth telling about a sample, with evidence and one line of advice. Healthy programs get no warning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import deep, growing, kept, memory, parameters, stale
from tensortui.analysis.findings.finding import SEVERITIES, Facts, Finding, GraphFacts
from tensortui.analysis.findings.thresholds import UNITS, Thresholds
from tensortui.analysis.growth import Growth
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_bytes
from tensortui.model import Graph, Sample

RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    growing.growth,
    growing.deepening,
    memory.retained,
    parameters.overlap,
    memory.freed,
    memory.expanded,
    parameters.tied,
)
GRAPH_RULES: tuple[Callable[[GraphFacts], Iterator[Finding]], ...] = (
    stale.stale_saves,
    kept.kept_graphs,
    deep.deep_graphs,
)
GRAPH_KINDS = ("stale-save", "graph-kept", "deep-graph")  # what those find
_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}
_Facts = TypeVar("_Facts")


def find(
    sample: Sample,
    accounts: Accounts,
    graph: Graph | None = None,
    thresholds: Thresholds | None = None,
    growth: Growth | None = None,
) -> list[Finding]:
    """Every finding, the gravest and largest first; of each kind beyond `thresholds.per_kind` one for all the others.

    What needs the `graph`, or the `growth` up to this sample, is only found where that is given. A rule that fails is
    told as a note and takes nothing away from the others.
    """
    thresholds = thresholds or Thresholds()
    found = in_sample(sample, accounts, thresholds, growth)
    if graph is not None:
        found += in_graph(graph, sample, accounts, thresholds)
    return arranged(found, thresholds)


def in_sample(
    sample: Sample, accounts: Accounts, thresholds: Thresholds, growth: Growth | None = None
) -> list[Finding]:
    """What is found without a graph, in no order."""
    grown = growth.grown(thresholds.grown_count) if growth is not None else ()
    deeper = growth.deeper() if growth is not None else ()
    return list(_look(RULES, Facts(sample, accounts, thresholds, grown, deeper)))


def in_graph(graph: Graph, sample: Sample, accounts: Accounts, thresholds: Thresholds) -> list[Finding]:
    """What is found in a graph, in no order; of its tensors and storages those are named that the sample has."""
    return [
        replace(
            finding,
            tensors=tuple(one for one in finding.tensors if one in sample.tensors),
            storages=tuple(one for one in finding.storages if one in sample.storages),
        )
        for finding in _look(GRAPH_RULES, GraphFacts(graph, sample, accounts, thresholds))
    ]


def arranged(found: Iterable[Finding], thresholds: Thresholds) -> list[Finding]:
    """The findings as they are told: the gravest and largest first, those beyond `per_kind` as one."""
    kinds: dict[str, list[Finding]] = defaultdict(list)
    for finding in sorted(found, key=_order):
        kinds[finding.kind].append(finding)
    told = []
    for kind, findings in kinds.items():
        others = findings[thresholds.per_kind :]
        told += findings[: thresholds.per_kind]
        if others:
            told.append(_others(kind, others))
    return sorted(told, key=_order)


def count(findings: Iterable[Finding]) -> int:
    """How many there are, also of those that are not told one by one."""
    return sum(finding.stands_for for finding in findings)


def _look(rules: Iterable[Callable[[_Facts], Iterator[Finding]]], facts: _Facts) -> Iterator[Finding]:
    for rule in rules:
        try:
            yield from rule(facts)  # keeps what it told before it failed
        except Exception as error:
            yield _failed(rule.__name__, error)


def _order(finding: Finding) -> tuple[int, int]:
    return _RANK[finding.severity], -finding.size


def _others(kind: str, findings: Sequence[Finding]) -> Finding:
    size = sum(finding.size for finding in findings)
    sizes = f", {format_bytes(size)} in all" if size else ""
    return Finding(
        kind,
        "note",
        f"{len(findings)} more of this kind are not told one by one{sizes}",
        tuple(dict.fromkeys(chain.from_iterable(finding.tensors for finding in findings))),
        tuple(dict.fromkeys(chain.from_iterable(finding.storages for finding in findings))),
        {"more": len(findings), "bytes": size},
        "They are the smaller ones, or less grave.",
        size,
        len(findings),
    )


def _failed(rule: str, error: Exception) -> Finding:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Finding(
        "internal",
        "note",
        f"the rule {rule} failed, so what it looks for may be there untold: {safe(what)}",
        evidence={"rule": rule, "error": safe(what)},
        advice="The other findings are not affected. This is a fault of tensortui; please report it.",
    )


__all__ = [
    "GRAPH_KINDS",
    "SEVERITIES",
    "UNITS",
    "Finding",
    "Thresholds",
    "arranged",
    "count",
    "find",
    "in_graph",
    "in_sample",
]
