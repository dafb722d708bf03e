"""What is worth telling about a sample, with the evidence and one line of advice. Healthy programs get no warning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tensortui.analysis.accounting import Accounts
from tensortui.model import Graph, Sample

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth telling. `evidence` holds plain values: numbers, strings, lists of them."""

    kind: str
    severity: str
    title: str
    tensors: tuple[int, ...] = ()
    storages: tuple[int, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something is worth telling."""

    retained_bytes: int = 1 << 20
    retained_share: float = 0.25


def find(
    sample: Sample, accounts: Accounts, graph: Graph | None = None, thresholds: Thresholds | None = None
) -> list[Finding]:
    """Every finding, the gravest first."""
    return []
