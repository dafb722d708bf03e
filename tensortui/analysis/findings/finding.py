"""What a finding is, and from where on something is worth one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensortui.analysis.accounting import Account, Accounts
from tensortui.analysis.growth import Grown
from tensortui.analysis.text import safe
from tensortui.model import Graph, Sample, Tensor

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth telling. `evidence` holds plain values: numbers, strings, lists of them.

    `size` is in bytes, and orders findings of one severity. `stands_for` is how many there are of what it tells: one
    finding stands for all that are not told one by one.
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


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something is worth telling; sizes in bytes, shares of 1."""

    retained_bytes: int = 1 << 20  # at least this much of a storage cannot be reached ...
    retained_share: float = 0.5  # ... and less than this share of it can
    expanded_bytes: int = 64 << 20  # what an expanded tensor would take if it were copied
    expanded_factor: int = 16  # and how many times its real size that is
    kept_steps: int = 4  # graphs of one kind behind one sum, or in one container
    grown_count: int = 8  # so many tensors of a group more, over all the time compared
    per_kind: int = 50  # the largest ones are told one by one, the others as one

    def retains(self, account: Account) -> bool:
        """Whether tensors keep a storage alive of which they reach little. What a file backs takes no memory."""
        live, size = account.live_bytes, account.bytes
        if not live or account.backing == "file":
            return False
        return size - live >= self.retained_bytes and live < size * self.retained_share


class Facts(NamedTuple):
    """What the rules look at."""

    sample: Sample
    accounts: Accounts
    graph: Graph | None
    thresholds: Thresholds
    grown: Sequence[Grown] = ()


def label(tensor: Tensor) -> str:
    """How a title calls a tensor: its first name, else what it is."""
    if tensor.names:
        return safe(tensor.names[0])
    shape = "n/a" if tensor.shape is None else str(tensor.shape)
    return f"a nameless tensor of shape {shape}"


def expression(tensor: Tensor) -> str:
    """How the program itself may write a tensor: its first name without where it was found; "" where it has none."""
    if not tensor.names or " of " in tensor.names[0]:
        return ""
    return safe(tensor.names[0].partition(" @ ")[0])
