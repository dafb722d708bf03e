"""Findings about parameters: one tensor under several names, several tensors on the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tensortui.analysis.findings.finding import Facts, Finding, label
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_bytes
from tensortui.model import Tensor
from tensortui.model.strided import itemsize


def tied(facts: Facts) -> Iterator[Finding]:
    """One parameter that two modules of a model use."""
    pairs = {}
    composite: set[tuple[str, str]] = set()
    for tensor in facts.sample.tensors.values():
        if tensor.category != "parameter" or len(tensor.names) < 2:
            continue
        found = _pairs(tensor.names)
        pairs[tensor.id] = found
        composite.update((one, two) for one, two, suffix in found if suffix > 1)
    for tid, found in pairs.items():
        # Two paths to one whole model (a wrapper and what it wraps) are no tie: they agree on modules inside too.
        real = [(one, two) for one, two, _ in found if (one, two) not in composite]
        if not real:
            continue
        tensor = facts.sample.tensors[tid]
        names = [safe(name) for name in tensor.names]
        yield Finding(
            "tied",
            "note",
            f"{names[0]} has {len(names)} names: it is one tensor, counted once",
            (tid,),
            () if tensor.storage is None else (tensor.storage,),
            {"names": names, "bytes": tensor.bytes},
            "Nothing to do if that is meant; a copy of one of the modules would untie it.",
        )


def _pairs(names: Iterable[str]) -> list[tuple[str, str, int]]:
    """Pairs of module paths in one object that lead to the same tensor, and how many words behind them agree."""
    paths = [name.split(".") for name in names if "@" not in name and " of " not in name and "[" not in name]
    out = []
    for at, one in enumerate(paths):
        for two in paths[at + 1 :]:
            if one[0] != two[0]:
                continue  # two variables that lead to the same model
            suffix = 0
            while suffix < min(len(one), len(two)) - 1 and one[-1 - suffix] == two[-1 - suffix]:
                suffix += 1
            left, right = one[: len(one) - suffix], two[: len(two) - suffix]
            if len(left) == 1 or len(right) == 1:
                continue  # one contains the other
            out.append((".".join(left), ".".join(right), suffix))
    return out


def overlap(facts: Facts) -> Iterator[Finding]:
    """Two parameters that are different tensors on the same bytes."""
    by_storage: dict[int, list[tuple[int, int, Tensor]]] = {}
    for tensor in facts.sample.tensors.values():
        if tensor.category != "parameter" or not tensor.is_leaf or not tensor.requires_grad or tensor.storage is None:
            continue
        if not tensor.contiguous or tensor.offset is None or not tensor.distinct_bytes:
            continue
        start = tensor.offset * (itemsize(tensor.dtype) or 0)
        by_storage.setdefault(tensor.storage, []).append((start, start + tensor.distinct_bytes, tensor))
    for storage, parts in by_storage.items():
        account = facts.accounts.account(storage)
        if len(parts) < 2 or account is None or not account.bytes:
            continue
        parts.sort(key=lambda part: part[:2])
        end, before = parts[0][1], parts[0][2]
        for start, stop, tensor in parts[1:]:
            if start < end:
                shared = min(end, stop) - start
                yield Finding(
                    "overlap",
                    "warning",
                    f"{label(before)} and {label(tensor)} are two parameters on the same {format_bytes(shared)}",
                    (before.id, tensor.id),
                    (storage,),
                    {"shared_bytes": shared},
                    "Each has a gradient and optimizer state of its own and changes both; assign the parameter itself.",
                )
            if stop > end:
                end, before = stop, tensor
