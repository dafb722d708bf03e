"""Findings about saved tensors that were changed since: what backward will refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensortui.analysis.findings.finding import Finding, GraphFacts, label
from tensortui.analysis.graph import Reach, Save, Saves, has_own_name, is_parameter, known, writer
from tensortui.analysis.graph.words import by
from tensortui.analysis.grouping import without_line
from tensortui.analysis.text import safe

_NAMED = 5  # parameters that the evidence names


def stale_saves(facts: GraphFacts) -> Iterator[Finding]:
    """Tensors that were changed in place after a node saved them.

    A graph that a backward has been through will not be used again, whatever is stale of it. A parameter is changed by
    each step of an optimizer: where a graph outlives one, nobody knows whether another backward is meant.
    """
    reach, saves = facts.reach, facts.saves
    useful = unspent(reach)
    stale = [save for save in saves if save.stale and save.node in useful]
    updated = [save for save in stale if is_parameter(save, saves)]
    parameters = {id(save) for save in updated}
    for save in stale:
        if id(save) not in parameters:
            yield _changed(save, reach, saves)
    if updated:
        yield _updated(updated, reach)


def unspent(reach: Reach) -> set[int]:
    """The nodes to which a backward can come that meets none before or behind them that another one has released."""
    spent: set[int] = set()
    for number in reversed(reach.order):
        if reach.nodes[number].freed or any(one in spent for one in reach.following[number]):
            spent.add(number)
    begins = {*reach.graph.roots, *reach.roots}
    useful: set[int] = set()
    for number in reach.order:
        begun = (number in begins or reach.nodes[number].tensors) and number not in spent
        if begun or any(one in useful for one in reach.before[number]):
            useful.add(number)
    return useful


def _changed(save: Save, reach: Reach, saves: Saves) -> Finding:
    name = safe(reach.nodes[save.node].name)
    tensor, own = save.tensor, known(save, saves)
    who = tensor if own is None else own
    what = safe(save.saved.name)
    if tensor is not None and (has_own_name(tensor) or not tensor.names):
        what = f"{label(tensor)} ({what})"  # else it is known by what the node saved it as, and by no other name
    if own is not None and own is not tensor:
        what += f" on the storage of {label(own)}"
    return Finding(
        "stale-save",
        "error",
        f"{name} saved {what} at version {_number(save.saved.version_saved)}, "
        f"it is now at {_number(save.version)}: backward will raise",
        () if save.saved.tensor is None else (save.saved.tensor,),
        () if save.storage is None else (save.storage.id,),
        {**_evidence(save, reach), "changed_by": by(writer(save, reach, saves))},
        "Change a clone() of it, or use the operation that is not in place.",
        0 if tensor is None else tensor.bytes or 0,
        about=(name, save.saved.name, without_line(label(who)) if who is not None else ""),
    )


def _updated(saves: Sequence[Save], reach: Reach) -> Finding:
    tensors = {save.saved.tensor: save.tensor for save in saves if save.saved.tensor is not None}
    storages = dict.fromkeys(save.storage.id for save in saves if save.storage is not None)
    names = list(dict.fromkeys(label(tensor) for tensor in tensors.values() if tensor is not None))
    many = f"{len(storages)} saved parameters were" if len(storages) > 1 else "a saved parameter was"
    nodes = len({save.node for save in saves})
    through = f"{nodes} nodes" if nodes > 1 else safe(reach.nodes[saves[0].node].name)
    return Finding(
        "stale-save",
        "note",
        f"{many} changed since, as an optimizer step does: a backward through {through} would raise",
        tuple(tensors),
        tuple(storages),
        {**_evidence(saves[0], reach), "nodes": nodes, "parameters": len(storages), "names": names[:_NAMED]},
        "Fine where no backward comes here any more; else let it come before the step, or detach() what is carried on.",
        sum(tensor.bytes or 0 for tensor in tensors.values() if tensor is not None),
        about=("parameters",),
    )


def _evidence(save: Save, reach: Reach) -> dict[str, object]:
    return {
        "node": save.node,
        "node_name": safe(reach.nodes[save.node].name),
        "saved": safe(save.saved.name),
        "version_saved": save.saved.version_saved,
        "version": save.version,
    }


def _number(version: int | None) -> str:
    return "n/a" if version is None else str(version)
