"""What is worth telling about a sample, with evidence and one line of advice. Healthy programs get no warning."""

from __future__ import annotations

from collections import defaultdict

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import autograd, growing, memory, parameters
from tensortui.analysis.findings.finding import SEVERITIES, Facts, Finding, Thresholds
from tensortui.analysis.growth import Growth
from tensortui.model import Graph, Sample

RULES = (
    autograd.stale_saves,
    autograd.kept_graphs,
    growing.growth,
    memory.retained,
    parameters.overlap,
    memory.freed,
    memory.expanded,
    parameters.tied,
)
_RANK = {severity: rank for rank, severity in enumerate(SEVERITIES)}


def find(
    sample: Sample,
    accounts: Accounts,
    graph: Graph | None = None,
    thresholds: Thresholds | None = None,
    growth: Growth | None = None,
) -> list[Finding]:
    """Every finding, the gravest and largest first; of each kind no more than `thresholds.per_kind`.

    What needs the `graph`, or the `growth` up to this sample, is only found where that is given.
    """
    thresholds = thresholds or Thresholds()
    grown = growth.grown(thresholds.grown_count) if growth is not None else ()
    facts = Facts(sample, accounts, graph, thresholds, grown)
    found = [finding for rule in RULES for finding in rule(facts)]
    found.sort(key=lambda finding: (_RANK[finding.severity], -int(finding.evidence.get("bytes") or 0)))
    told: dict[str, int] = defaultdict(int)
    out = []
    for finding in found:
        told[finding.kind] += 1
        if told[finding.kind] <= facts.thresholds.per_kind:
            out.append(finding)
    return out


__all__ = ["SEVERITIES", "Finding", "Thresholds", "find"]
