"""The groups of the tensor table: which tensors belong together, by what groups are sorted, and which are one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from tensortui.analysis.accounting import Account, Accounts
from tensortui.analysis.filtering import Filter
from tensortui.analysis.findings import Thresholds
from tensortui.analysis.grouping import KEYS as GROUPINGS
from tensortui.analysis.text import natural
from tensortui.model import CATEGORY_RANK, Change, Sample, Storage, Tensor
from tensortui.ui.columns import BY_KEY, storage_bytes
from tensortui.ui.ordering import STEP, Steps

STORAGE = "storage"
GROUP_MODES = (STORAGE, *GROUPINGS)
SAVED_BY = " saved by "

Key = Any  # a storage id; below zero the tensor id that has no storage (~id); or the text of a grouping


@dataclass(frozen=True)
class Group:
    """A group other than a storage."""

    key: str

    @property
    def id(self) -> str:
        """What tells it from others."""
        return self.key


@dataclass(frozen=True)
class View:
    """How the table is looked at."""

    group_by: str = STORAGE
    sort_by: str = "bytes"
    reverse: bool = True
    filter: Filter | None = None  # None where nothing is left out


class Groups:
    """The groups that a view of a sample has, kept up by what changed."""

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Start without a sample: no groups. What is beyond the `thresholds` is warned of."""
        self.thresholds = thresholds or Thresholds()
        self.sample: Sample | None = None
        self.accounts = Accounts()
        self.view = View()
        self.members: dict[Key, list[int]] = {}
        self.shown = 0  # tensors that pass the filter
        self.ghosts: dict[int, Tensor] = {}  # gone, but still on screen for a moment
        self._ghost_storages: dict[int, Storage] = {}
        self._rank: dict[Key, Any] = {}
        self._laid: dict[Key, list[int]] = {}  # the rows of groups, sorted and bundled
        self.bundles: dict[int, tuple[int, ...]] = {}  # the tensors that the row of the first stands for
        self._loose: set[tuple[Any, ...]] = set()  # bundles that were opened
        self._folded: set[Key] = set()
        self._moved: set[Key] = set()  # groups that are not where they belong

    def tensor(self, tid: int) -> Tensor | None:
        """The tensor of a row, also one that is gone."""
        found = self.sample.tensors.get(tid) if self.sample is not None else None
        return found if found is not None else self.ghosts.get(tid)

    def storage(self, sid: int | None) -> Storage | None:
        """A storage, also one that is gone but whose row is still there."""
        if sid is None:
            return None
        found = self.sample.storages.get(sid) if self.sample is not None else None
        return found if found is not None else self._ghost_storages.get(sid)

    def key_of(self, tensor: Tensor) -> Key:
        """The group a tensor belongs to."""
        if self.view.group_by == STORAGE:
            return tensor.storage if tensor.storage is not None else ~tensor.id
        return GROUPINGS[self.view.group_by](tensor)

    def group_bytes(self, key: Key) -> int | None:
        """The bytes of a group, each once; None where they are not known."""
        if self.view.group_by == STORAGE:
            return storage_bytes(self.storage(key))
        held = {t.storage for tid in self.members.get(key, ()) if (t := self.tensor(tid)) is not None}
        return self.accounts.size_of(sid for sid in held if sid is not None)

    def shares_storages(self, key: Key) -> bool:
        """Whether a storage counts in this group and in another one of the table, so that they add up to too much."""
        tensors = (tensor for tid in self.members.get(key, ()) if (tensor := self.tensor(tid)) is not None)
        own = Counter(tensor.storage for tensor in tensors if tensor.storage is not None)
        for storage, count in own.items():
            account = self.accounts.account(storage)
            if account is None or len(account.tensors) == count or account.backing == "none":
                continue
            mates = (mate for tid in account.tensors if (mate := self.tensor(tid)) is not None)
            if any((other := self.key_of(mate)) != key and other in self.members for mate in mates):
                return True
        return False

    def _remember(self, before: Sample, ghosts: Collection[Tensor]) -> None:
        """Know the ghosts, tensors of the sample `before`, and what they lay on."""
        self.ghosts = {tensor.id: tensor for tensor in ghosts}
        stored = (before.storages.get(t.storage) for t in ghosts if t.storage is not None)
        self._ghost_storages = {storage.id: storage for storage in stored if storage is not None}

    def _remove_ghosts(self) -> None:
        for tid, tensor in self.ghosts.items():
            key = self.key_of(tensor)
            rows = self.members.get(key)
            if rows is not None and tid in rows:
                rows.remove(tid)
                self._settle(key)
        self.ghosts, self._ghost_storages = {}, {}

    def _regroup(self) -> Steps:
        """Find the groups and their tensors anew."""
        self.members, self._rank, self._folded = {}, {}, set()
        self._laid, self.bundles = {}, {}
        self.shown = 0
        sample, wanted = self.sample, self.view.filter
        if sample is None:
            return
        members, key_of = self.members, self.key_of
        if self.view.group_by == STORAGE and wanted is None:
            members.update((sid, []) for sid in sample.storages)
        tensors = list(sample.tensors.values())
        for at in range(0, len(tensors), STEP):
            for tensor in tensors[at : at + STEP]:
                if wanted is None or wanted.matches(tensor, sample.storages):
                    self.shown += 1
                    members.setdefault(key_of(tensor), []).append(tensor.id)
            yield
        self._add_ghosts(self.ghosts.values())

    def _apply(self, before: Sample, sample: Sample, change: Change) -> bool:
        """Move only what changed. False when the numbers do not come out, so that everything must be done anew."""
        removed: dict[Key, set[int]] = {}
        added: dict[Key, list[int]] = {}
        ids = change.gone | change.changed | change.new
        # What a storage is matters to its tensors too: to a filter, to the bytes of their groups, to what is folded.
        beside = [account.tensors for sid in change.storages if (account := self.accounts.account(sid)) is not None]
        for tid in ids.union(*beside):
            old, new = before.tensors.get(tid), sample.tensors.get(tid)
            was = old is not None and self._passes(old, before)
            now = new is not None and self._passes(new, sample)
            self.shown += now - was
            from_key = self.key_of(old) if old is not None else None
            to_key = self.key_of(new) if new is not None else None
            if was and not (now and from_key == to_key):
                removed.setdefault(from_key, set()).add(tid)
            if now and not (was and from_key == to_key):
                added.setdefault(to_key, []).append(tid)
            # Also where the filter hides it: its storage may hold more, or be used otherwise, now.
            for key in (from_key, to_key):
                if key in self.members:
                    self._forget(key)
        for key, tids in removed.items():
            rows = self.members.get(key)
            if rows is not None:
                rows[:] = [tid for tid in rows if tid not in tids]
        for key, new_rows in added.items():
            self.members.setdefault(key, []).extend(new_rows)
        touched: Iterable[Key] = (*removed, *added)
        if self.view.group_by == STORAGE:
            if self.view.filter is None:
                for sid in change.storages:
                    if sid in sample.storages:
                        self.members.setdefault(sid, [])
            touched = (*touched, *change.storages)
        for key in touched:
            self._settle(key)
        return self.view.filter is not None or self.shown == len(sample.tensors)

    def _passes(self, tensor: Tensor, sample: Sample) -> bool:
        return self.view.filter is None or self.view.filter.matches(tensor, sample.storages)

    def _add_ghosts(self, ghosts: Iterable[Tensor]) -> None:
        for tensor in ghosts:
            key = self.key_of(tensor)
            rows = self.members.setdefault(key, [])
            if tensor.id not in rows:
                rows.append(tensor.id)
                self._forget(key)

    def _settle(self, key: Key) -> None:
        """After a group lost or gained rows: forget what was worked out, and drop it when nothing of it is left."""
        self._forget(key)
        if self.members.get(key):
            return
        held = self.sample is not None and self.view.group_by == STORAGE and self.view.filter is None
        if not (held and self.sample is not None and key in self.sample.storages):
            self.members.pop(key, None)

    def _forget(self, key: Key) -> None:
        self._moved.add(key)
        self._rank.pop(key, None)
        self._unlay(key)
        self._folded.discard(key)

    def _value(self, keys: Iterable[Key]) -> None:
        """Work out by what these groups are sorted, and whether they fold."""
        storage = self.view.group_by == STORAGE
        for key in keys:
            self._rank[key] = self._rank_of(key)
            if storage and self._folds(key):
                self._folded.add(key)

    def _rows_of(self, key: Key) -> list[int]:
        """The rows of a group in the order of the table, those of one bundle as one."""
        rows = self._laid.get(key)
        if rows is None:
            rows = self._laid[key] = self._bundled(self._sorted(self.members[key]))
        return rows

    def _unlay(self, key: Key) -> None:
        for row in self._laid.pop(key, ()):
            self.bundles.pop(row, None)

    def _sorted(self, rows: list[int]) -> list[int]:
        """The tensors of a group in the order of the table; on a storage views come behind what they are views of."""
        if len(rows) < 2:
            return rows
        value = BY_KEY[self.view.sort_by].sort
        tensors = [tensor for tid in rows if (tensor := self.tensor(tid)) is not None]
        tensors.sort(key=_tie)
        tensors.sort(key=value, reverse=self.view.reverse)
        if self.view.group_by == STORAGE:
            tensors.sort(key=lambda tensor: ("view" in tensor.flags) + 2 * is_saved_view(tensor))
        return [tensor.id for tensor in tensors]

    def _bundled(self, rows: list[int]) -> list[int]:
        """The rows with saved views of one storage that read the same as one row, unless it was opened."""
        bundles: dict[tuple[Any, ...], list[int]] = {}
        out: list[int] = []
        for tid in rows:
            tensor = self.tensor(tid)
            bundle = bundle_of(tensor) if tensor is not None else None
            if bundle is not None and bundle not in self._loose:
                bundles.setdefault(bundle, []).append(tid)
                if bundles[bundle][0] != tid:
                    continue
            out.append(tid)
        self.bundles.update((ids[0], tuple(ids)) for ids in bundles.values() if len(ids) > 1)
        return out

    def bundle_row(self, tid: int) -> int:
        """The tensor whose row shows this one: itself, unless it is in a bundle."""
        tensor = self.tensor(tid)
        if tensor is None or bundle_of(tensor) is None:
            return tid
        rows = self._laid.get(self.key_of(tensor), ())
        return next((row for row in rows if tid in self.bundles.get(row, ())), tid)

    def wasted(self, account: Account | None) -> bool:
        """Whether a storage is kept alive by tensors that reach little of it."""
        return account is not None and self.thresholds.retains(account)

    def _folds(self, key: Key) -> bool:
        """A storage whose only tensor says it all is one row, unless there is something to warn of."""
        if key < 0:
            return True
        account = self.accounts.account(key)
        alone = account is None or (len(account.tensors) <= 1 and not self.wasted(account))
        return alone and len(self.members[key]) == 1

    def _rank_of(self, key: Key) -> Any:
        sort_by, reverse = self.view.sort_by, self.view.reverse
        if sort_by == "bytes":
            return self.group_bytes(key) or 0
        if sort_by == "category" and self.view.group_by == "category":
            return CATEGORY_RANK.get(key, 99)
        if sort_by == "name" and self.view.group_by != STORAGE:
            return natural(str(key))
        value = BY_KEY[sort_by].sort
        values = [value(tensor) for tid in self.members[key] if (tensor := self.tensor(tid)) is not None]
        if not values:
            return value(NOTHING)
        return max(values) if reverse else min(values)

    def _tie_of(self, key: Key) -> str:
        """The order of groups of one rank."""
        if self.view.group_by != STORAGE:
            return f"{natural(str(key))}\0{key}"
        ties = [_tie(tensor) for tid in self.members[key] if (tensor := self.tensor(tid)) is not None]
        return min(ties) if ties else f"\0{abs(key):020}"


def _tie(tensor: Tensor) -> str:
    """What decides between tensors that are equal in the column that is sorted by: the base, the name, the number."""
    name = natural(tensor.names[0]) if tensor.names else "\x7f"
    return f"{'1' if 'view' in tensor.flags else '0'}{name}\0{tensor.id:020}"


def is_saved_view(tensor: Tensor) -> bool:
    """Whether a tensor is there only because autograd saved it, without memory of its own as a rule."""
    return bool(tensor.names) and SAVED_BY in tensor.names[0]


def bundle_of(tensor: Tensor) -> tuple[Any, ...] | None:
    """What is the same for saved views that are told as one; None for any other tensor."""
    if tensor.storage is None or not is_saved_view(tensor):
        return None
    return (tensor.storage, tensor.names, tensor.shape, tensor.strides, tensor.offset, tensor.dtype)


NOTHING = Tensor(-1, None, (), "", (), (), 0, "", "", "", 0, 0, True, None, (), False, True, 0, None, "other")
