"""Versions: which saved tensors were changed in place since, by what, and which changes backward would not notice.

Every in-place change counts up the version of a tensor; views of each other share the counter, so one changed through
another is noticed too. Only what the sample shows is said: a write under `no_grad`, as an optimizer makes it, leaves no
record but the count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tensortui.analysis.graph.reach import Reach
from tensortui.analysis.graph.saves import Save, Saves, mates
from tensortui.model import Tensor

THROUGH_A_VIEW = "CopySlices"  # what autograd records on a tensor of which a view was changed in place


@dataclass(frozen=True, slots=True)
class Writer:
    """What is known of who changed a saved tensor in place.

    `kind` is "operation" (`operation` was recorded on `tensor`, `node` where it is in the graph), "view" (the same, on
    a view), "optimizer" (a parameter, and others went up with it) or "unrecorded".
    """

    kind: str
    operation: str = ""
    tensor: Tensor | None = None
    node: int | None = None
    together: int = 0  # parameters that this graph saved and that went up by the same number, this one with them


def stale(saves: Saves) -> list[Save]:
    """The saves that backward will refuse."""
    return [save for save in saves if save.stale]


def writer(save: Save, reach: Reach, saves: Saves) -> Writer:
    """Who changed a stale save in place, as far as the sample shows.

    An operation that works in place is recorded as the one that made the tensor. So a tensor on the saved storage whose
    maker is neither the node that saved it nor one of those before it was changed by that maker.
    """
    makers = {save.node, *(one for one in reach.nodes[save.node].next if one is not None)}
    names = {reach.nodes[one].name for one in makers if one in reach.nodes}
    made_by = reach.makers
    own = [save.tensor] if save.tensor is not None else []
    for tensor in (*own, *mates(save, saves).values()):
        if tensor.grad_fn is None or "base-only" in tensor.flags:
            continue
        node = made_by.get(tensor.id)
        if tensor.grad_fn == THROUGH_A_VIEW and node not in makers:
            return Writer("view", tensor.grad_fn, tensor, node)
        unknown = tensor.grad_fn not in names if node is None else node not in makers
        if unknown and "view" not in tensor.flags:
            return Writer("operation", tensor.grad_fn, tensor, node)
    together = _parameters_with(save, saves) if is_parameter(save, saves) else 0
    return Writer("optimizer", together=together) if together > 1 else Writer("unrecorded")


def is_parameter(save: Save, saves: Saves) -> bool:
    """Whether a save is a parameter or a view of one, as a linear layer saves its weight."""
    account = saves.accounts.account(save.storage.id) if save.storage is not None else None
    return account is not None and account.category == "parameter"


def _steps(save: Save) -> int | None:
    then = save.saved.version_saved
    return None if then is None or save.version is None else save.version - then


def _parameters_with(save: Save, saves: Saves) -> int:
    """How many saved parameters went up by as much as this one."""
    alike = (one for one in stale(saves) if _steps(one) == _steps(save) and is_parameter(one, saves))
    return len({one.storage.id for one in alike if one.storage is not None})


def unnoticed(save: Save, saves: Saves) -> list[Tensor]:
    """Tensors on the saved storage that were changed in place under a counter of their own, as `.data` gives them.

    Counters that read the same may be one; those that read otherwise are not. What is written through these is changed
    without backward noticing.
    """
    found = []
    for tensor in mates(save, saves).values():
        if tensor.version and save.version is not None and tensor.version != save.version:
            found.append(tensor)
    return found


def sharers(tensors: Iterable[Tensor], tensor: Tensor) -> list[Tensor]:
    """Those of `tensors` that share the version counter with `tensor` for certain: views of one base, read the same."""
    return [
        one
        for one in tensors
        if one.id != tensor.id
        and one.storage == tensor.storage
        and one.version == tensor.version
        and ("view" in one.flags or "view" in tensor.flags)
    ]
