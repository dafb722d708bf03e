"""What nodes saved for backward: the tensors as the newest sample has them, and whether they are still good."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensortui.analysis.accounting import Account, Accounts
from tensortui.analysis.graph.reach import Reach
from tensortui.model import GraphNode, Sample, SavedTensor, Storage, Tensor

_BY_THE_GRAPH = " saved by "  # in the name of a tensor that the graph holds


@dataclass(frozen=True, slots=True)
class Save:
    """One tensor that a node saved. `tensor` and `storage` are None where the sample does not have them.

    `version` is that of the newest sample. `bytes` is what its storage counts, None where it is not known. `elsewhere`:
    something other than the graph keeps the storage too. `first`: no other save before it is on the same storage.
    """

    node: int
    place: int  # among what the node saved
    saved: SavedTensor
    tensor: Tensor | None
    storage: Storage | None
    bytes: int | None
    version: int | None
    elsewhere: bool
    first: bool

    @property
    def stale(self) -> bool:
        """Whether it was changed in place since, so that backward will raise."""
        then = self.saved.version_saved
        return self.saved.stale or (then is not None and self.version is not None and then != self.version)


class Saves:
    """All that the nodes of `reach` saved, node by node, and the leaves at its ends, which it holds too."""

    def __init__(self, reach: Reach, sample: Sample, accounts: Accounts) -> None:
        """Look the tensors up in `sample`; `accounts` are those of it."""
        self.sample = sample
        self.accounts = accounts
        self.missing = 0  # tensors that the sample does not have
        nodes = [reach.nodes[number] for number in reach.order]
        graphs = {saved.tensor for node in nodes for saved in node.saved} | {node.leaf for node in nodes}
        self._elsewhere: dict[int, bool] = {}
        self._of: dict[int, tuple[Save, ...]] = {}
        seen: set[int] = set()
        self._leaves: dict[int, Save] = {}
        for node in nodes:
            if node.saved:
                kept = enumerate(node.saved)
                self._of[node.id] = tuple(self._save(node, place, one, seen, graphs) for place, one in kept)
            if node.leaf is not None:
                variable = SavedTensor("variable", node.leaf, None, None, False, False)
                self._leaves[node.id] = self._save(node, -1, variable, set(), graphs)

    def of(self, node: int) -> Sequence[Save]:
        """What a node saved."""
        return self._of.get(node, ())

    def leaf(self, node: int) -> Save | None:
        """The tensor that a node at an end fills the gradient of; not one that it saved, but it holds it."""
        return self._leaves.get(node)

    def __iter__(self) -> Iterator[Save]:
        """Every save, the nodes in their order."""
        for saves in self._of.values():
            yield from saves

    def _save(self, node: GraphNode, place: int, saved: SavedTensor, seen: set[int], graphs: set[int | None]) -> Save:
        tensor = self.sample.tensors.get(saved.tensor) if saved.tensor is not None else None
        if saved.tensor is not None and tensor is None:
            self.missing += 1
        lies_on = tensor.storage if tensor is not None else None
        storage = self.sample.storages.get(lies_on) if lies_on is not None else None
        version = saved.version if tensor is None or tensor.version is None else tensor.version
        if storage is None:
            return Save(node.id, place, saved, tensor, None, None, version, False, True)
        account = self.accounts.account(storage.id)
        if storage.id not in self._elsewhere:
            self._elsewhere[storage.id] = account is not None and kept_elsewhere(account, self.sample, graphs)
        first = storage.id not in seen
        seen.add(storage.id)
        size = None if account is None else account.counted
        return Save(node.id, place, saved, tensor, storage, size, version, self._elsewhere[storage.id], first)

    def savers(self, tensor: Tensor) -> list[Save]:
        """Who saved a tensor, or another on its storage; the tensor itself comes first."""
        same = [save for save in self if save.tensor is not None and save.tensor.id == tensor.id]
        if tensor.storage is None:
            return same
        others = (save for save in self if save.storage is not None and save.storage.id == tensor.storage)
        return same + [save for save in others if save.tensor is None or save.tensor.id != tensor.id]


def has_own_name(tensor: Tensor) -> bool:
    """Whether a tensor has a name in the program, and not only one that the graph gives it."""
    return any(_BY_THE_GRAPH not in name for name in tensor.names)


def known(save: Save, saves: Saves) -> Tensor | None:
    """The tensor on the storage of a save by which the program knows it: itself, or one that it is a view of."""
    if save.tensor is not None and has_own_name(save.tensor):
        return save.tensor
    named = [tensor for tensor in mates(save, saves).values() if has_own_name(tensor)]
    return min(named, key=lambda tensor: ("view" in tensor.flags, tensor.id), default=None)


def kept_elsewhere(account: Account, sample: Sample, graphs: set[int | None]) -> bool:
    """Whether a storage is kept by more than the graph, as far as names and Python objects tell.

    A name that is not "... saved by ..." is one in the program. An object without a name that no node saved belongs to
    somebody who was not found. A tensor that only a view's `_base` keeps holds nothing by itself.
    """
    for number in account.tensors:
        tensor = sample.tensors.get(number)
        if tensor is None or "base-only" in tensor.flags:
            continue
        if has_own_name(tensor):
            return True
        if not tensor.names and tensor.python and number not in graphs:
            return True
    return False


def mates(save: Save, saves: Saves) -> Mapping[int, Tensor]:
    """The other tensors on the storage of a save, by their ids."""
    account = saves.accounts.account(save.storage.id) if save.storage is not None else None
    if account is None:
        return {}
    own = save.saved.tensor
    return {one: saves.sample.tensors[one] for one in account.tensors if one != own and one in saves.sample.tensors}
