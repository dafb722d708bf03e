"""Findings about graphs that outlive their step: losses that are summed or collected, and what is carried on and on.

Steps are told from the parts of one loss by what they share: parts of one step come from one forward pass, or from
different parameters; steps have passes of their own over the same parameters. One forward pass a sample, with one
backward for all, looks the same: there the parameters have not been changed between the passes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tensortui.analysis.findings.finding import Finding, GraphFacts, label
from tensortui.analysis.graph import Reach, Save, is_leaf, is_parameter
from tensortui.analysis.grouping import holder_of, without_line
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_bytes
from tensortui.model import Tensor

_ARITHMETIC = {"AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"}  # what sums and averages are made of
_VIEWS = {  # what only looks at a leaf in another way: no forward pass is behind these
    *("SelectBackward0", "SliceBackward0", "ViewBackward0", "TBackward0", "TransposeBackward0", "PermuteBackward0"),
    *("SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "ExpandBackward0", "AsStridedBackward0"),
    *("UnbindBackward0", "SplitBackward0", "AliasBackward0", "CloneBackward0", "ToCopyBackward0"),
    *("UnsafeViewBackward0", "ReshapeAliasBackward0"),
}
_KEPT_ANYWAY = {"parameter", "buffer"}
LET_GO = "Use loss.detach() or loss.item() for what only reports; a graph is freed with its last reference."
MAY_BE_FINE = "Fine where one backward for all of them follows; else use loss.detach() or loss.item()."
UNTOLD = "These graphs saved no parameter, so whether any was changed between them cannot be told. " + MAY_BE_FINE
SPENT = "A backward has released what they saved; their nodes go with the last reference: keep loss.item()."


class Parts(NamedTuple):
    """Graphs of one kind over the same parameters, with no node in common."""

    steps: int
    nodes: frozenset[int]


def kept_graphs(facts: GraphFacts) -> Iterator[Finding]:
    """Graphs of several steps that one running sum, or one container, keeps alive."""
    least = facts.thresholds.kept_steps
    reach = facts.reach
    for root, _, parts in sums(facts):
        made = _made_by(facts, root)
        owners = [tensor for tensor in made if tensor.names] or made
        one = len(owners) == 1
        who = label(owners[0]) if one else "a sum"
        what = f"sums {_least(facts)}{parts.steps} losses"
        yield _kept(facts, [root], owners if one else [], who, what, parts)
    for name in {tensor.grad_fn for tensor in facts.sample.tensors.values() if tensor.grad_fn is not None}:
        boxes: dict[str, list[Tensor]] = defaultdict(list)
        for tensor in _scalars(facts, name):
            if tensor.names and tensor.names[0].endswith("]"):
                boxes[holder_of(tensor.names[0])].append(tensor)
        for box, members in boxes.items():
            if len(members) < least:
                continue
            roots = _roots_of(members, name, reach)
            parts = _steps(reach, roots)
            if min(len(members), parts.steps) >= least:
                parts = parts._replace(steps=min(len(members), parts.steps))
                yield _kept(facts, roots, members, safe(box), f"holds {len(members)} losses", parts)


def sums(facts: GraphFacts) -> Iterator[tuple[int, set[int], Parts]]:
    """The roots that sum graphs of several steps, the nodes that do it, and the graphs."""
    reach = facts.reach
    seen: set[int] = set()
    for root in sorted(reach.graph.roots, reverse=True):
        node = reach.nodes.get(root)
        if node is None or node.name not in _ARITHMETIC or root in seen or not _made_by(facts, root):
            continue
        adds, roots = _sum(reach, root)
        seen |= adds
        parts = _steps(reach, [part for part in roots if reach.nodes[part].name not in _VIEWS])
        if parts.steps >= facts.thresholds.kept_steps:
            yield root, adds, parts


def states(facts: GraphFacts, nodes: Iterable[int]) -> int | None:
    """In how many states these nodes saved one parameter; None where none of them saved one with its version."""
    seen: dict[int, set[int]] = defaultdict(set)
    for save in _parameters(facts, nodes):
        if save.saved.version_saved is not None and save.storage is not None:
            seen[save.storage.id].add(save.saved.version_saved)
    return max(map(len, seen.values()), default=None)


def _parameters(facts: GraphFacts, nodes: Iterable[int]) -> Iterator[Save]:
    for number in nodes:
        yield from (save for save in facts.saves.of(number) if is_parameter(save, facts.saves))


def _kept(
    facts: GraphFacts, roots: Sequence[int], owners: Sequence[Tensor], who: str, what: str, parts: Parts
) -> Finding:
    tensors = facts.sample.tensors
    reached = _behind(facts.reach, roots)
    storages: dict[int, int] = {}
    for node in reached:
        for save in facts.saves.of(node):
            account = facts.accounts.account(save.storage.id) if save.storage is not None else None
            if save.storage is not None and account is not None and account.category not in _KEPT_ANYWAY:
                storages[save.storage.id] = account.bytes
    size = sum(storages.values())
    seen = states(facts, parts.nodes)
    outlived = (seen or 0) > 1 or any(save.stale for save in _parameters(facts, parts.nodes))
    freed = sum(facts.reach.nodes[node].freed for node in parts.nodes)
    lasting = outlived or not (freed or _trains(facts))
    return Finding(
        "graph-kept",
        "warning" if lasting else "note",
        f"{who} {what} with their graphs: {_least(facts)}{format_bytes(size)} in {len(storages)} saved storages",
        tuple(tensor.id for tensor in owners if tensor.id in tensors),
        tuple(sorted(storages)),
        {
            "bytes": size,
            "steps": parts.steps,
            "states": seen,
            "nodes": len(reached),
            "freed_nodes": freed,
            "saved_storages": len(storages),
            "cut": facts.graph.cut,
        },
        LET_GO if lasting else SPENT if freed else UNTOLD if seen is None else MAY_BE_FINE,
        size,
        about=(without_line(who),),
    )


def _trains(facts: GraphFacts) -> bool:
    """Whether the program trains: then these graphs may still get their backward."""
    return any(tensor.category in ("optimizer", "gradient") for tensor in facts.sample.tensors.values())


def _least(facts: GraphFacts) -> str:
    return "at least " if facts.graph.cut else ""


def _scalars(facts: GraphFacts, name: str | None) -> list[Tensor]:
    return facts.scalars.get(name or "", [])


def _made_by(facts: GraphFacts, root: int) -> list[Tensor]:
    """The tensors of one element that a node made; those that may be of it where none that it made is known."""
    tensors = facts.sample.tensors
    scalars = _scalars(facts, facts.reach.nodes[root].name)
    if any(one in tensors for one in facts.reach.nodes[root].tensors):
        return [tensor for tensor in scalars if facts.reach.makers.get(tensor.id) == root]
    return [tensor for tensor in scalars if facts.reach.makers.get(tensor.id, root) == root]


def _roots_of(members: Iterable[Tensor], name: str | None, reach: Reach) -> list[int]:
    """The nodes that made the tensors; where the graph does not tell, all roots of that name."""
    known = [reach.makers[tensor.id] for tensor in members if reach.makers.get(tensor.id) in reach]
    return known or [number for number in reach.graph.roots if number in reach and reach.nodes[number].name == name]


def _sum(reach: Reach, root: int) -> tuple[set[int], list[int]]:
    """The arithmetic at the top of a graph, and what it is about."""
    adds: set[int] = set()
    parts: dict[int, None] = {}
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number in adds:
            continue
        node = reach.nodes[number]
        if node.name in _ARITHMETIC:
            adds.add(number)
            waiting.extend(reach.following[number])
        elif not is_leaf(node):
            parts[number] = None
    return adds, list(parts)


def _steps(reach: Reach, parts: Sequence[int]) -> Parts:
    """The most of `parts` that are of one kind, end in the same leaves, and have no other node in common."""
    owner: dict[int, int] = {}
    shared: set[int] = set()
    leaves: dict[int, set[int]] = {part: set() for part in parts}
    own: dict[int, list[int]] = {part: [] for part in parts}
    for part in parts:
        waiting = [part]
        while waiting:
            number = waiting.pop()
            if is_leaf(reach.nodes[number]):
                leaves[part].add(number)
            elif number not in owner:
                owner[number] = part
                own[part].append(number)
                waiting.extend(reach.following[number])
            elif owner[number] != part:
                shared.update((part, owner[number]))
    alike: Mapping[tuple[str, frozenset[int]], list[int]] = defaultdict(list)
    for part, ends in leaves.items():
        if part not in shared and ends:
            alike[reach.nodes[part].name, frozenset(ends)].append(part)
    most = max(alike.values(), key=len, default=[])
    return Parts(len(most), frozenset(number for part in most for number in own[part]))


def _behind(reach: Reach, roots: Iterable[int]) -> list[int]:
    seen: dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen[number] = None
            waiting.extend(reach.following[number])
    return list(seen)
