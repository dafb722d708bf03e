"""Findings about graphs that go on and on: a state that is carried from step to step with all that made it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tensortui.analysis.findings.finding import Finding, GraphFacts, label
from tensortui.analysis.findings.kept import states, sums
from tensortui.analysis.graph import Reach, is_leaf
from tensortui.analysis.grouping import without_line
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_count
from tensortui.model import Tensor

CARRIED = "detach() what is carried from one step to the next; only so the graph of the old steps is freed."
LONG = "Fine for a long sequence; a sum or a state that is carried on without detach() grows like this with each step."


def deep_graphs(facts: GraphFacts) -> Iterator[Finding]:
    """Graphs that reach back over several updates of the parameters, and very deep ones. Of sums others tell."""
    reach = facts.reach
    told = {root for root, _, _ in sums(facts)}
    deepest = 0
    for roots, nodes in _components(reach):
        if told.intersection(roots):
            continue
        ids = [tensor for root in roots for tensor in reach.nodes[root].tensors if tensor in facts.sample.tensors]
        depth = _depth(reach, nodes)
        if facts.graph.cut:
            depth = max([depth, *(facts.sample.depths.get(one, 0) for one in ids)])
        seen = states(facts, nodes) or 0
        lasting = seen >= facts.thresholds.kept_steps
        if not lasting and depth < facts.thresholds.deep_nodes:
            continue
        deepest = max(deepest, depth)
        named = [label(facts.sample.tensors[one]) for one in ids if facts.sample.tensors[one].names]
        who = named[0] if named else safe(reach.nodes[roots[0]].name)
        least = "at least " if facts.graph.cut else ""
        over = f" and over {seen} states of the parameters" if lasting else ""
        yield Finding(
            "deep-graph",
            "warning" if lasting else "note",
            f"the graph behind {who} goes back {least}{format_count(depth)} nodes{over}",
            tuple(ids),
            (),
            {"depth": depth, "nodes": len(nodes), "states": seen or None, "cut": facts.graph.cut},
            CARRIED if lasting else LONG,
            about=(without_line(who),),
        )
    if facts.graph.cut:
        yield from _unread(facts, deepest)


def _unread(facts: GraphFacts, told: int) -> Iterator[Finding]:
    """The deepest graph of which nothing was read, where it is deeper than those that were: it may be a part of them.

    What has the name of a tensor whose graph was read is in its place by now.
    """
    known = [facts.sample.tensors[one] for one in facts.reach.makers if one in facts.sample.tensors]
    names = {tensor.names[0] for tensor in known if tensor.names}
    depths: dict[int, list[Tensor]] = defaultdict(list)
    for number, length in facts.sample.depths.items():
        tensor = facts.sample.tensors.get(number)
        if tensor is not None and number not in facts.reach.makers and not names.intersection(tensor.names[:1]):
            depths[length].append(tensor)
    depth = max(depths, default=0)
    if depth < facts.thresholds.deep_nodes or depth <= told:
        return
    tensors = sorted(depths[depth], key=lambda tensor: (not tensor.names, tensor.id))
    who = label(tensors[0])
    yield Finding(
        "deep-graph",
        "note",
        f"the graph behind {who} goes back at least {format_count(depth)} nodes; it was not read",
        tuple(tensor.id for tensor in tensors),
        (),
        {"depth": depth, "nodes": 0, "states": None, "cut": True},
        LONG,
        about=(without_line(who),),
    )


def _components(reach: Reach) -> list[tuple[list[int], list[int]]]:
    """Graphs that have a node in common which is no leaf, each with its roots; the nodes in order."""
    above: dict[int, int] = {number: number for number in reach.order}

    def top(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    for number in reach.order:
        for following in reach.following[number]:
            if not is_leaf(reach.nodes[following]):
                above[top(following)] = top(number)
    nodes: dict[int, list[int]] = defaultdict(list)
    roots: dict[int, list[int]] = defaultdict(list)
    for number in reach.order:
        if not is_leaf(reach.nodes[number]):
            nodes[top(number)].append(number)
    for number in reach.roots:
        roots[top(number)].append(number)
    return [(roots[one], members) for one, members in nodes.items()]


def _depth(reach: Reach, nodes: Sequence[int]) -> int:
    """The most nodes that stand one behind the other."""
    depth: dict[int, int] = {}
    for number in reversed(nodes):
        depth[number] = 1 + max((depth.get(one, 0) for one in reach.following[number]), default=0)
    return max(depth.values(), default=0)
