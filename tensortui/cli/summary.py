"""The JSON document in a screenful of plain text: who, how much, whose, what was found, and the largest storages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensortui.analysis.text import safe, truncate
from tensortui.analysis.units import format_bytes, format_many
from tensortui.cli.table import table

if TYPE_CHECKING:
    from tensortui.model import Graph, Sample

LARGEST = 20
NAMES_SHOWN = 3
FINDINGS_SHOWN = 10


def summary(document: Mapping[str, Any], width: int, graph: Sequence[str] = ()) -> list[str]:
    """Return the lines of the summary, at most `width` characters wide where the content allows.

    `graph` are the lines about the autograd graph, where it was read.
    """
    totals = document["totals"]
    lines = [process_line(document["process"]), coverage_line(document["coverage"]), ""]
    count = f"{format_many(totals['tensors'], 'tensor')} on {format_many(totals['storages'], 'storage')}"
    lines.append(f"{count}, {format_bytes(totals['bytes'])} (each byte once)")
    for title, shares in (("by category", totals["by_category"]), ("by device", totals["by_device"])):
        parts = [
            f"{safe(name)} {format_bytes(size)}" for name, size in sorted(shares.items(), key=lambda item: -item[1])
        ]
        lines.append(f"{title:<12} {', '.join(parts) or 'nothing'}")
    lines += [*graph, *findings(document, width), ""]
    return [*lines, *largest_storages(document, width)]


def process_line(process: Mapping[str, Any]) -> str:
    """Return who this is about."""
    parts = [f"process {process['pid']}", safe(" ".join(process["command"]))]
    parts.append(f"Python {process['python'] or 'n/a'}")
    parts.append(f"torch {safe(process['torch'])}" if process["torch"] else "torch is not imported yet")
    if process["rank"] is not None:
        parts.append(f"rank {process['rank']} of {process['world_size'] or 'n/a'}")
    return "  ".join(part for part in parts if part)


def coverage_line(coverage: Mapping[str, Any]) -> str:
    """Return whether every tensor was seen."""
    if coverage["complete"]:
        return "every live tensor that Python knows was seen"
    return "not every tensor was seen: " + "; ".join(safe(reason) for reason in coverage["reasons"])


def graph_lines(sample: Sample, graph: Graph) -> list[str]:
    """Return how large the graph is, and what it keeps alive."""
    from tensortui.analysis.accounting import Accounts
    from tensortui.analysis.graph import Keeping, Reach, Saves, words

    depth = words.depth(sample)
    reasons = [f"{'':<12} not all of it: {safe(reason)}" for reason in graph.reasons]
    if graph.cut and not graph.nodes:
        row = f", of at least {format_many(depth, 'node')} in a row" if depth else ""
        return [f"graph        not read{row}: what it saved and keeps is not known", *reasons]
    reach = Reach(graph)
    saves = Saves(reach, sample, Accounts(sample))
    keeping = Keeping(reach, saves)
    saved = f"{format_many(len(list(saves)), 'saved tensor')} on {format_many(keeping.storages, 'storage')}"
    nodes, what = format_many(len(graph.nodes), "node"), "the graph alone"
    if words.in_part(graph):
        nodes, what = f"read in part: {words.extent(len(graph.nodes), depth)}", "what was read alone"
    size = f"{format_bytes(keeping.saved_bytes)}; {what} keeps {format_bytes(keeping.kept_bytes)}"
    return [f"graph        {nodes}, {saved}, {size}", *reasons]


def findings(document: Mapping[str, Any], width: int) -> list[str]:
    """Return what was found, and where nothing was looked for."""
    found = document["findings"]
    where = (
        "in the sample and its graph" if "graph" in document else "in the sample; --graph looks through the graph too"
    )
    lines = [f"findings     {len(found) or 'none'}, {where}"]
    graph = document.get("graph")
    if graph is not None and (graph["cut"] or any(node["cut"] for node in graph["nodes"])):
        from tensortui.analysis.graph.words import extent

        nodes = len(graph["nodes"])
        part, where = f"graph read in part: {extent(nodes, 0)}", "in these and in the sample"
        if not nodes:
            part, where = "graph not read", "in the sample"
        lines = [f"findings     {part}; {len(found) or 'none'} {where}"]
    lines += [
        truncate(f"{'':<12} {finding['severity']}: {safe(finding['title'])}", width, ellipsis="...")
        for finding in found[:FINDINGS_SHOWN]
    ]
    more = len(found) - FINDINGS_SHOWN
    if more > 0:
        lines.append(f"{'':<12} and {more} more: --json has them all")
    return [*lines, f"{'':<12} growth needs watching: tensortui attach {document['process']['pid']}"]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return each name once, with how often it is there; what autograd saved comes behind what variables lead to."""
    counts = Counter(map(safe, names))
    ordered = sorted(counts, key=lambda name: " saved by " in name)
    return [name if counts[name] == 1 else f"{counts[name]} x {name}" for name in ordered]


def largest_storages(document: Mapping[str, Any], width: int) -> list[str]:
    """Return a table of the largest storages and the names of what is on them."""
    tensors = {tensor["id"]: tensor for tensor in document["tensors"]}
    storages = sorted(document["storages"], key=lambda storage: -(storage["bytes"] or 0))
    rows = []
    for storage in storages[:LARGEST]:
        names = distinct_names(name for each in storage["tensors"] for name in tensors[each]["names"])
        shown = ", ".join(names[:NAMES_SHOWN]) or "(no name)"
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        rows.append(
            (
                format_bytes(storage["bytes"]),
                format_bytes(storage["live_bytes"]),
                safe(storage["device"]),
                storage["category"],
                str(len(storage["tensors"])),
                shown + more,
            )
        )
    if not rows:
        return []
    lines = table(("storage", "in use", "device", "category", "tensors", "names"), rows, width, right=(0, 1, 4))
    left_out = len(storages) - len(rows)
    return [*lines, f"and {format_many(left_out, 'smaller storage')}"] if left_out else lines
