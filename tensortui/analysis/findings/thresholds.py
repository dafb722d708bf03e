"""From where on something is worth telling. Each has one name: here, in the configuration file and in its manual."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from tensortui.analysis.accounting import Account

BYTES, SHARE, COUNT = "bytes", "share", "count"  # the units


def _limit(default: float, unit: str, why: str) -> Any:
    return field(default=default, metadata={"unit": unit, "why": why})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Sizes in bytes, shares of 1, counts. What each is for stands beside it, for the manual too."""

    retained_bytes: int = _limit(
        1 << 20, BYTES, "retained-storage: at least this much of a storage cannot be reached; less is not worth a clone"
    )
    retained_share: float = _limit(
        0.5, SHARE, "retained-storage: and less than this share of it can; a clone of more would free little"
    )
    expanded_bytes: int = _limit(64 << 20, BYTES, "expanded: what a copy would take; a smaller one is hardly felt")
    expanded_factor: int = _limit(
        16, COUNT, "expanded: and how many times its real size that is; broadcasting by little is everyday"
    )
    kept_steps: int = _limit(
        4,
        COUNT,
        "graph-kept, deep-graph: so many steps in one graph, or in one list; losses of a few parts are everyday",
    )
    deep_nodes: int = _limit(
        2_000, COUNT, "deep-graph: so many nodes one behind the other; deep networks have hundreds, long sequences more"
    )
    grown_count: int = _limit(
        8, COUNT, "growth: so many tensors of a group more over all the time compared; fewer may come and go by chance"
    )
    deepened_nodes: int = _limit(
        64, COUNT, "growth: so many nodes more, one behind the other, over all the time compared"
    )
    per_kind: int = _limit(
        50, COUNT, "all: of each kind so many are told one by one, the gravest and largest, the others as one"
    )

    def retains(self, account: Account) -> bool:
        """Whether tensors keep a storage alive of which they reach little. What a file backs takes no memory."""
        live, size = account.live_bytes, account.bytes
        if not live or account.backing == "file":
            return False
        return size - live >= self.retained_bytes and live < size * self.retained_share


UNITS = {each.name: str(each.metadata["unit"]) for each in fields(Thresholds)}
