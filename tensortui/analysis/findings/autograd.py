"""Findings about the autograd graph: what backward will refuse, and graphs that pile up."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensortui.analysis.findings.finding import Facts, Finding, label
from tensortui.analysis.grouping import holder_of
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_bytes
from tensortui.model import Graph, GraphNode, Tensor

_ADDS = {"AddBackward0"}
_LEAF = "AccumulateGrad"
_KEPT_ANYWAY = {"parameter", "buffer"}


def stale_saves(facts: Facts) -> Iterator[Finding]:
    """A tensor that was changed in place after a node saved it."""
    if facts.graph is None:
        return
    for node in facts.graph.nodes:
        for saved in node.saved:
            if not saved.stale:
                continue
            tensor = facts.sample.tensors.get(saved.tensor) if saved.tensor is not None else None
            what = "a tensor" if tensor is None else label(tensor)
            yield Finding(
                "stale-save",
                "error",
                f"{safe(node.name)} saved {what} ({safe(saved.name)}) at version {_number(saved.version_saved)}, "
                f"it is now at {_number(saved.version)}: backward will raise",
                () if saved.tensor is None else (saved.tensor,),
                () if tensor is None or tensor.storage is None else (tensor.storage,),
                {
                    "node": node.id,
                    "node_name": safe(node.name),
                    "saved": safe(saved.name),
                    "version_saved": saved.version_saved,
                    "version": saved.version,
                },
                "Change a clone() of it, or use the operation that is not in place.",
                0 if tensor is None else tensor.bytes or 0,
            )


def _number(version: int | None) -> str:
    return "n/a" if version is None else str(version)


def kept_graphs(facts: Facts) -> Iterator[Finding]:
    """Graphs of several steps that one running sum, or one container, keeps alive.

    Steps are told from the parts of one loss by what they share: parts of one step come from one forward pass, or from
    different parameters; steps have passes of their own over the same parameters.
    """
    graph = facts.graph
    if graph is None:
        return
    nodes = {node.id: node for node in graph.nodes}
    scalars: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in facts.sample.tensors.values():
        if tensor.grad_fn is not None and tensor.shape is not None and math.prod(tensor.shape) == 1:
            scalars[tensor.grad_fn].append(tensor)

    in_a_sum: set[int] = set()
    for root in sorted((nodes[number] for number in graph.roots if number in nodes), key=lambda node: -node.id):
        if root.name not in _ADDS or root.id in in_a_sum or not scalars[root.name]:
            continue
        adds, parts = _sum(nodes, root)
        in_a_sum |= adds
        steps = _steps(nodes, parts)
        if steps >= facts.thresholds.kept_steps:
            owners = [tensor for tensor in scalars[root.name] if tensor.names] or scalars[root.name]
            who = label(owners[0]) if len(owners) == 1 else "a sum"
            reached = _reach(nodes, [root])
            yield _kept(
                facts,
                graph,
                reached,
                owners if len(owners) == 1 else [],
                f"{who} sums {_least(graph)}{steps} losses",
                steps,
            )

    for name, tensors in scalars.items():
        boxes: dict[str, list[Tensor]] = defaultdict(list)
        for tensor in tensors:
            if tensor.names and tensor.names[0].endswith("]"):
                boxes[holder_of(tensor.names[0])].append(tensor)
        roots = [nodes[number] for number in graph.roots if number in nodes and nodes[number].name == name]
        for box, members in boxes.items():
            if len(members) < facts.thresholds.kept_steps:
                continue
            steps = min(len(members), _steps(nodes, roots))
            if steps >= facts.thresholds.kept_steps:
                reached = _reach(nodes, roots)
                yield _kept(facts, graph, reached, members, f"{safe(box)} holds {len(members)} losses", steps)


def _kept(
    facts: Facts, graph: Graph, reached: Sequence[GraphNode], owners: Sequence[Tensor], what: str, steps: int
) -> Finding:
    tensors = facts.sample.tensors
    storages: dict[int, int] = {}
    for node in reached:
        for saved in node.saved:
            tensor = tensors.get(saved.tensor) if saved.tensor is not None else None
            if tensor is None or tensor.storage is None:
                continue
            account = facts.accounts.account(tensor.storage)
            if account is not None and account.category not in _KEPT_ANYWAY:
                storages[tensor.storage] = account.bytes
    size = sum(storages.values())
    return Finding(
        "graph-kept",
        "warning",
        f"{what} with their graphs: {_least(graph)}{format_bytes(size)} in {len(storages)} saved storages",
        tuple(tensor.id for tensor in owners),
        tuple(sorted(storages)),
        {"bytes": size, "steps": steps, "nodes": len(reached), "saved_storages": len(storages), "cut": graph.cut},
        "Use loss.detach() or loss.item() for what only reports; a graph is freed with its last reference.",
        size,
    )


def _least(graph: Graph) -> str:
    return "at least " if graph.cut else ""


def _sum(nodes: Mapping[int, GraphNode], root: GraphNode) -> tuple[set[int], list[GraphNode]]:
    """The additions at the top of a graph, and what they add up."""
    adds: set[int] = set()
    parts: dict[int, GraphNode] = {}
    waiting = [root.id]
    while waiting:
        number = waiting.pop()
        node = nodes.get(number)
        if node is None or number in adds:
            continue
        if node.name in _ADDS:
            adds.add(number)
            waiting.extend(following for following in node.next if following is not None)
        elif node.name != _LEAF:
            parts[number] = node
    return adds, list(parts.values())


def _steps(nodes: Mapping[int, GraphNode], parts: Sequence[GraphNode]) -> int:
    """How many of `parts` are of one kind, end in the same leaves, and have no other node in common."""
    owner: dict[int, int] = {}
    shared: set[int] = set()
    leaves: dict[int, set[int]] = {part.id: set() for part in parts}
    for part in parts:
        waiting = [part.id]
        while waiting:
            number = waiting.pop()
            node = nodes.get(number)
            if node is None:
                continue
            if node.name == _LEAF:
                leaves[part.id].add(number)
            elif number not in owner:
                owner[number] = part.id
                waiting.extend(following for following in node.next if following is not None)
            elif owner[number] != part.id:
                shared.update((part.id, owner[number]))
    alike = Counter((part.name, frozenset(leaves[part.id])) for part in parts if part.id not in shared)
    return max((count for (_, ends), count in alike.items() if ends), default=0)


def _reach(nodes: Mapping[int, GraphNode], roots: Iterable[GraphNode]) -> list[GraphNode]:
    seen: dict[int, GraphNode] = {}
    waiting: list[int | None] = [root.id for root in roots]
    while waiting:
        number = waiting.pop()
        node = nodes.get(number) if number is not None else None
        if node is not None and node.id not in seen:
            seen[node.id] = node
            waiting.extend(node.next)
    return list(seen.values())
