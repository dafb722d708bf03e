"""Findings about storages: memory that nobody can reach, memory that is gone, memory that only seems to be there."""

from __future__ import annotations

from collections.abc import Iterator

from tensortui.analysis.findings.finding import Facts, Finding, expression, label
from tensortui.analysis.grouping import without_line
from tensortui.analysis.units import format_bytes, format_share

_UNREAL = {"meta", "fake", "subclass"}
# What a forward pass makes is there for a moment only: it is told as a note.
_PASSING = {"saved", "activation", "gradient"}


def retained(facts: Facts) -> Iterator[Finding]:
    """A storage of which living tensors reach a small part."""
    limits = facts.thresholds
    tensors = facts.sample.tensors
    for number, account in facts.accounts.accounts.items():
        if not limits.retains(account):
            continue
        live = account.live_bytes or 0
        holders = [tid for tid in account.tensors if "base-only" not in tensors[tid].flags]
        holders.sort(key=lambda tid: (not tensors[tid].names, tid))
        first = label(tensors[holders[0]])
        who = first if len(holders) == 1 else f"{first} and {len(holders) - 1} more"
        yield Finding(
            "retained-storage",
            "note" if account.category in _PASSING else "warning",
            f"{who} keeps {format_bytes(account.bytes)} alive for {format_bytes(live)}",
            tuple(holders),
            (number,),
            {
                "live_bytes": live,
                "bytes": account.bytes,
                "share": format_share(live / account.bytes),
                "device": account.device,
            },
            f"Keep a copy instead: {variable}.clone() frees the rest; saving it as it is writes the whole storage."
            if (variable := expression(tensors[holders[0]]))
            else "Keep a clone() of the part that is needed; the rest is then freed.",
            account.bytes,
            about=(without_line(first),) if tensors[holders[0]].names else (),
        )


def freed(facts: Facts) -> Iterator[Finding]:
    """Tensors that still have a shape, on storages that were resized to 0 bytes."""
    storages: list[int] = []
    ids: list[int] = []
    apparent = 0
    for number, account in facts.accounts.accounts.items():
        if account.bytes or account.backing != "none" or account.device == "meta":
            continue
        empty = [facts.sample.tensors[tid] for tid in account.tensors]
        empty = [tensor for tensor in empty if tensor.distinct_bytes and not _UNREAL & set(tensor.flags)]
        if empty:
            storages.append(number)
            ids.extend(tensor.id for tensor in empty)
            apparent += max(tensor.distinct_bytes or 0 for tensor in empty)
    if ids:
        first = label(facts.sample.tensors[ids[0]])
        who = first if len(ids) == 1 else f"{first} and {len(ids) - 1} more"
        yield Finding(
            "freed-storage",
            "note",
            f"{who}: the storage was freed, {format_bytes(apparent)} are not there",
            tuple(ids),
            tuple(storages),
            {"apparent_bytes": apparent, "tensors": len(ids), "storages": len(storages)},
            "Sharded training does this between uses; reading such a tensor in between would crash.",
            apparent,
        )


def expanded(facts: Facts) -> Iterator[Finding]:
    """Tensors that would become very much larger when copied."""
    limits = facts.thresholds
    for tensor in facts.sample.tensors.values():
        if "expanded" not in tensor.flags or tensor.bytes is None or not tensor.distinct_bytes:
            continue
        if tensor.bytes < limits.expanded_bytes or tensor.bytes < tensor.distinct_bytes * limits.expanded_factor:
            continue
        yield Finding(
            "expanded",
            "note",
            f"{label(tensor)} looks like {format_bytes(tensor.bytes)} but is {format_bytes(tensor.distinct_bytes)}",
            (tensor.id,),
            () if tensor.storage is None else (tensor.storage,),
            {"bytes": tensor.bytes, "distinct_bytes": tensor.distinct_bytes, "strides": list(tensor.strides or ())},
            "It costs nothing as it is; contiguous(), clone() or an in-place result would take all of it.",
            tensor.bytes,
        )
