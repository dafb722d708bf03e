"""Findings about what becomes more with time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tensortui.analysis.findings.finding import Facts, Finding
from tensortui.analysis.growth import Grown
from tensortui.analysis.kinds import Kind, Place
from tensortui.analysis.text import safe
from tensortui.analysis.units import format_bytes, format_count, format_many

_SAVED = "saved"
OUTLIVES = "Use loss.detach() or loss.item() where a result of a step outlives it."
NAMED_WITHIN = 15.0  # seconds: what is new may have no name for a moment, and more of it while a program starts
CARRIED = "detach() what is carried from one step to the next, or keep loss.item(): it drags all steps before along."
UNROLLED = "Fine within one long sequence; what is carried from step to step without detach() grows like this for ever."
KEEP = "Find what still refers to the old ones; keep numbers, not tensors."


def growth(facts: Facts) -> Iterator[Finding]:
    """A group of tensors that grows without going back; those without names of their own are told as one."""
    saved = [grown for grown in facts.grown if grown.kind.category == _SAVED]
    others = [grown for grown in facts.grown if grown.kind.category != _SAVED]
    nameless = [grown for grown in others if not grown.kind.name and grown.seconds >= NAMED_WITHIN]
    for grown in others:
        if grown.kind.name:
            yield _finding(facts, safe(grown.kind.name), [grown], KEEP, grown.kind.name)
    if saved:
        what = f"what the autograd graph saved, in {format_many(len(saved), 'group')},"
        yield _finding(facts, what, saved, OUTLIVES, "saved")
    if nameless:
        what = f"the number of tensors without a name, in {format_many(len(nameless), 'group')},"
        yield _finding(facts, what, nameless, KEEP, "")


def deepening(facts: Facts) -> Iterator[Finding]:
    """Graphs that become deeper with each step, as one: what is carried on may be several tensors."""
    least = facts.thresholds.deepened_nodes
    deeper = [
        one for one in facts.deeper if one.after - one.before >= least and one.depth.now - one.depth.start >= least
    ]
    if not deeper:
        return
    first = deeper[0]
    trains = any(tensor.category in ("optimizer", "gradient") for tensor in facts.sample.tensors.values())
    lasting = (first.steps or 0) >= facts.thresholds.kept_steps if trains else first.seconds >= NAMED_WITHIN
    names = [safe(one.depth.name) or "a tensor without a name" for one in deeper]
    others = f" and {format_many(len(deeper) - 1, 'other')}" if len(deeper) > 1 else ""
    more = first.after - first.before
    rate = format_many(more, "node") + _pace(more, "node", first.seconds, first.steps)
    yield Finding(
        "growth",
        "warning" if lasting else "note",
        f"the graph behind {names[0]}{others} grows: {rate}, {format_count(first.depth.now)} in a row now",
        tuple(one.depth.tensor for one in deeper),
        (),
        {
            "behind": names[:10],
            "nodes": more,
            "depth": first.depth.now,
            "seconds": round(first.seconds, 1),
            "steps": first.steps,
        },
        CARRIED if lasting else UNROLLED,
        about=("depth",),
    )


def _finding(facts: Facts, what: str, groups: Sequence[Grown], advice: str, about: str) -> Finding:
    count, size = _more(groups)
    seconds, steps = round(groups[0].seconds, 1), groups[0].steps
    rate = f"{format_many(count, 'tensor')}, {format_bytes(size)}{_pace(count, 'tensor', seconds, steps)}"
    holders = sorted({safe(grown.kind.holder) for grown in groups if grown.kind.name})
    tensors = [number for grown in groups for number in grown.tensors if number in facts.sample.tensors]
    return Finding(
        "growth",
        "warning",
        f"{what} grows: {rate}",
        tuple(tensors),
        (),
        {
            "groups": list(dict.fromkeys(_group(grown.kind) for grown in groups))[:10],
            **({"holders": holders[:10]} if holders else {}),
            "count": count,
            "bytes": size,
            "seconds": seconds,
            "steps": steps,
        },
        advice,
        size,
        about=(about,),
    )


def _more(groups: Sequence[Grown]) -> tuple[int, int]:
    """How many tensors more, and their bytes: in groups without names no more than there are with those of a name."""
    count = size = 0
    places: dict[tuple[Place, bool], list[Grown]] = defaultdict(list)
    for grown in groups:
        places[grown.kind.place, bool(grown.kind.name)].append(grown)
    for here in places.values():
        tensors = sum(grown.count - grown.count_before for grown in here)
        bytes_ = sum(grown.bytes - grown.bytes_before for grown in here)
        limit = here[0].in_all
        count += tensors if limit is None else min(tensors, limit.tensors)
        size += bytes_ if limit is None else min(bytes_, limit.bytes)
    return count, size


def _group(kind: Kind) -> str:
    """What the tensors of a group go by, and what they are where they have no name."""
    if kind.name:
        return safe(kind.name)
    shape = "shape n/a" if kind.shape is None else str(list(kind.shape))
    return f"{kind.category} {shape} {kind.dtype or 'dtype n/a'} on {kind.device or 'no device'}"


def _pace(more: int, noun: str, seconds: float, steps: int | None) -> str:
    said = f" more in {seconds:.0f} s"
    if steps:
        rate = f"{more / steps:.3g}"
        said += f" and {format_many(steps, 'step')} ({rate} {noun if rate == '1' else noun + 's'} a step)"
    return said
