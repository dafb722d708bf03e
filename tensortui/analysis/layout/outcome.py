"""What an operation on a tensor would come to: a view or a copy, of what layout, for how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tensortui.analysis.layout.place import Place
from tensortui.analysis.layout.refusing import refuse

SAME, VIEW, COPY, IMPOSSIBLE = "same", "view", "copy", "impossible"
NOTHING = "nothing: meta has no bytes"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`what` is same (the tensor itself), view, copy or impossible; `why` says so in a sentence where that helps.

    A copy reads `read` bytes (each address once; None where that is not known) and writes `written`; `link` names what
    it goes over where that is between devices.
    """

    what: str
    result: Place | None
    read: int | None = 0
    written: int = 0
    link: str = ""
    why: str = ""


def same(place: Place, why: str = "") -> Outcome:
    """The tensor itself comes back."""
    return Outcome(SAME, place, why=why)


def view(place: Place, why: str = "") -> Outcome:
    """Another tensor on the same bytes."""
    return Outcome(VIEW, place, why=why)


def copy(source: Place, result: Place, why: str = "") -> Outcome:
    """New memory, filled from the source; LayoutError where PyTorch would refuse. On meta there is nothing to fill."""
    refuse(source, result)
    if result.device == "meta":
        return Outcome(COPY, result, 0, 0, NOTHING, why)
    return Outcome(COPY, result, source.distinct_bytes, result.bytes, link(source.device, result.device), why)


def link(source: str, target: str) -> str:
    """What bytes go over from one device to another; "" where they stay."""
    kinds = source.partition(":")[0], target.partition(":")[0]
    if source == target or kinds == ("cpu", "cpu"):
        return ""
    if "cpu" in kinds:
        other = kinds[0] if kinds[1] == "cpu" else kinds[1]
        return "PCIe" if other in ("cuda", "xpu") else f"the link to {other}"
    return f"the link from {source} to {target}"
