"""The JSON document of schema 1: what scripts read, the same for a live process and a saved one."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from typing import Any

from tensortui.analysis.accounting import Accounts, Totals
from tensortui.analysis.findings import Finding, Thresholds, find
from tensortui.analysis.units import format_many
from tensortui.model import Coverage, Graph, GraphNode, Sample, Storage, Tensor

SCHEMA = 1

Document = dict[str, Any]


def document(
    sample: Sample,
    graph: Graph | None = None,
    *,
    accounts: Accounts | None = None,
    findings: Sequence[Finding] | None = None,
    thresholds: Thresholds | None = None,
) -> Document:
    """Build the document. `accounts` and `findings`, with the
    `thresholds` or those that are usual, are worked out where they are not given.

    Every id in it is that of an entry: where the graph leads to a tensor that the sample does not have there is null,
    and the coverage says so.
    """
    accounts = accounts or Accounts(sample)
    findings = find(sample, accounts, graph, thresholds) if findings is None else findings
    process = sample.process
    whole, reasons = _coverage(sample.coverage, graph)
    nodes: list[Document] = []
    if graph is not None:
        nodes, gone = _nodes(graph, sample.tensors)
        reasons += gone
    out: Document = {
        "schema": SCHEMA,
        "taken_at": datetime.fromtimestamp(sample.taken_at, timezone.utc).isoformat().replace("+00:00", "Z"),
        "process": {
            "pid": process.pid,
            "command": list(process.command),
            "python": process.python,
            "torch": process.torch,
            "cuda": process.cuda,
            "rank": process.rank,
            "local_rank": process.local_rank,
            "world_size": process.world_size,
        },
        "coverage": {"complete": whole and not reasons, "reasons": reasons},
        "totals": _totals(accounts.totals),
        "storages": [storage_entry(storage, accounts) for storage in sample.storages.values()],
        "tensors": [tensor_entry(tensor) for tensor in sample.tensors.values()],
        "findings": [_finding(finding, sample) for finding in findings],
        "cuda": None,
        "transfers": None,
    }
    if graph is not None:
        out["graph"] = {
            "roots": _known(graph.roots, {node["id"] for node in nodes}),
            "nodes": nodes,
            "cut": graph.cut,
            "reasons": list(graph.reasons),
        }
    return out


def dumps(document: Document, *, indent: int | None = None) -> str:
    """The document as text: ASCII, so that it is safe on every terminal and valid UTF-8 whatever the strings hold."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, indent=indent)


def _coverage(coverage: Coverage, graph: Graph | None) -> tuple[bool, list[str]]:
    reasons = list(coverage.reasons)
    if graph is not None:
        reasons += [reason for reason in graph.reasons if reason not in reasons]
        if graph.cut and not graph.reasons:
            reasons.append(f"the graph was cut at {format_many(len(graph.nodes), 'node')}")
    return coverage.complete, reasons


def _totals(totals: Totals) -> Document:
    return {
        "tensors": totals.tensors,
        "storages": totals.storages,
        "bytes": totals.bytes,
        "by_category": dict(totals.by_category),
        "by_device": dict(totals.by_device),
        "by_backing": dict(totals.by_backing),
    }


def storage_entry(storage: Storage, accounts: Accounts) -> Document:
    """One of `storages`."""
    account = accounts.account(storage.id)
    return {
        "id": storage.id,
        "device": storage.device,
        "address": storage.address,
        "bytes": storage.bytes,
        "backing": storage.backing,
        "live_bytes": None if account is None else account.live_bytes,
        "counted_bytes": 0 if account is None else account.counted,
        "category": "other" if account is None else account.category,
        "tensors": [] if account is None else list(account.tensors),
    }


def tensor_entry(tensor: Tensor) -> Document:
    """One of `tensors`."""
    return {
        "id": tensor.id,
        "storage": tensor.storage,
        "names": list(tensor.names),
        "type": tensor.type,
        "shape": _list(tensor.shape),
        "strides": _list(tensor.strides),
        "offset": tensor.offset,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "layout": tensor.layout,
        "bytes": tensor.bytes,
        "distinct_bytes": tensor.distinct_bytes,
        "contiguous": tensor.contiguous,
        "memory_format": tensor.memory_format,
        "flags": list(tensor.flags),
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "version": tensor.version,
        "grad_fn": tensor.grad_fn,
        "category": tensor.category,
        "python": tensor.python,
    }


def _list(value: tuple[int, ...] | None) -> list[int] | None:
    return None if value is None else list(value)


def _nodes(graph: Graph, tensors: Collection[int]) -> tuple[list[Document], list[str]]:
    """The nodes, and what is to be said of tensors that are gone since the graph was read."""
    numbers = {node.id for node in graph.nodes}
    nodes, gone = [], set()
    for node in graph.nodes:
        saved = [one.tensor for one in node.saved]
        gone |= {one for one in (node.leaf, *saved, *node.tensors) if one is not None and one not in tensors}
        nodes.append(_node(node, numbers, tensors))
    if not gone:
        return nodes, []
    what = "saved tensor" if gone <= {save.tensor for node in graph.nodes for save in node.saved} else "tensor"
    many = f"{format_many(len(gone), what)} {'is' if len(gone) == 1 else 'are'}"
    return nodes, [f"the graph was read before the tensors: {many} gone since"]


def _node(node: GraphNode, nodes: Collection[int], tensors: Collection[int]) -> Document:
    return {
        "id": node.id,
        "name": node.name,
        "next": [one if one in nodes else None for one in node.next],
        "leaf": node.leaf if node.leaf in tensors else None,
        "saved": [
            {
                "name": saved.name,
                "tensor": saved.tensor if saved.tensor in tensors else None,
                "version_saved": saved.version_saved,
                "version": saved.version,
                "stale": saved.stale,
                "hook": saved.hook,
                "unpacked_by": saved.unpacked_by,
            }
            for saved in node.saved
        ],
        "made": _known(node.tensors, tensors),
        "function": node.function,
        "freed": node.freed,
        "hooks": node.hooks + node.retained,
        "cut": node.cut or any(one is not None and one not in nodes for one in node.next),
    }


def _known(numbers: Sequence[int], known: Collection[int]) -> list[int]:
    return [number for number in numbers if number in known]


def _finding(finding: Finding, sample: Sample) -> Document:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "title": finding.title,
        "tensors": _known(finding.tensors, sample.tensors),
        "storages": _known(finding.storages, sample.storages),
        "evidence": dict(finding.evidence),
        "advice": finding.advice,
    }
