"""Which rows the tensor table has, in which order: grouping, folding, sorting and filtering, kept up by what changed.

No widget is involved. A row is an int: a tensor's id, or `~i` for the header of the group `keys[i]`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tensortui.analysis.accounting import Account, Accounts
from tensortui.analysis.filtering import Filter
from tensortui.analysis.findings import Thresholds
from tensortui.analysis.grouping import KEYS as GROUPINGS
from tensortui.model import CATEGORY_RANK, Change, Sample, Storage, Tensor
from tensortui.ui.columns import BY_KEY, storage_bytes

STORAGE = "storage"
GROUP_MODES = (STORAGE, *GROUPINGS)
THRESHOLDS = Thresholds()

Key = Any  # a storage id; below zero the tensor id that has no storage (~id); or the text of a grouping


def wasted(account: Account | None) -> bool:
    """Whether a storage is kept alive by tensors that reach little of it."""
    return account is not None and THRESHOLDS.retains(account)


class Rows:
    """The rows of the table for the newest sample."""

    def __init__(self) -> None:
        """Start without a sample: no rows."""
        self.sample: Sample | None = None
        self.accounts = Accounts()
        self.group_by = STORAGE
        self.sort_by = "bytes"
        self.reverse = True
        self.filter: Filter | None = None  # None where nothing is left out
        self.order: list[int] = []
        self.keys: list[Key] = []
        self.members: dict[Key, list[int]] = {}
        self.shown = 0  # tensors that pass the filter
        self.ghosts: dict[int, Tensor] = {}  # gone, but still on screen for a moment
        self._ghost_storages: dict[int | None, Storage] = {}
        self._opened = True  # what a group is that nobody opened or closed by hand
        self._turned: set[Key] = set()
        self._rank: dict[Key, Any] = {}
        self._folded: set[Key] = set()

    # -- what changes the rows

    def update(self, sample: Sample, accounts: Accounts, change: Change | None) -> None:
        """Take a new sample; `change` is what it changed since an earlier one, None for everything."""
        before = self.sample
        self.sample, self.accounts = sample, accounts
        known = change is not None and before is not None and change.since == before.seq
        if not known or not self._apply(before, sample, change):  # type: ignore[arg-type]
            self._regroup()
        self._arrange()

    def set_view(self, *, group_by: str | None = None, sort_by: str | None = None, reverse: bool | None = None) -> None:
        """Change the grouping, the sort column or its direction."""
        if group_by is not None and group_by != self.group_by:
            self.group_by = group_by
            self._opened = group_by == STORAGE
            self._turned.clear()
            self._regroup()
        if sort_by is not None and sort_by != self.sort_by:
            self.sort_by = sort_by
            self._rank.clear()
        if reverse is not None:
            self.reverse = reverse
        self._arrange()

    def set_filter(self, filter: Filter | None) -> None:
        """Show only the tensors that pass; None, or an empty filter, shows all."""
        self.filter = filter or None
        self._regroup()
        self._arrange()

    def toggle(self, key: Key, opened: bool | None = None) -> bool:
        """Open or close a group; returns whether anything changed."""
        if key not in self.members or key in self._folded or (opened is not None and self.is_open(key) == opened):
            return False
        self._turned ^= {key}
        self._arrange()
        return True

    def open_all(self, opened: bool) -> None:
        """Open or close every group."""
        self._opened = opened
        self._turned.clear()
        self._arrange()

    def set_ghosts(self, ghosts: Collection[Tensor], storages: Mapping[int, Storage] | None = None) -> None:
        """Keep these rows, whose tensors are gone, where they were; replaces the ghosts of before.

        `storages` are those of the sample they were in: a storage that went with its tensor keeps its place too.
        """
        self._drop_ghosts()
        kept: dict[int | None, Storage] = dict(self._ghost_storages)
        kept.update((storages or {}).items())
        self._ghost_storages = {t.storage: kept[t.storage] for t in ghosts if t.storage in kept}
        for tensor in ghosts:
            key = self.key_of(tensor)
            self.ghosts[tensor.id] = tensor
            self.members.setdefault(key, []).append(tensor.id)
            self._forget(key)
        self._arrange()

    # -- what the rows are

    def tensor(self, tid: int) -> Tensor | None:
        """The tensor of a row, also one that is gone."""
        found = self.sample.tensors.get(tid) if self.sample is not None else None
        return found if found is not None else self.ghosts.get(tid)

    def storage(self, sid: int | None) -> Storage | None:
        """A storage, also one that is gone but whose row is still there."""
        found = self.sample.storages.get(sid) if self.sample is not None and sid is not None else None
        return found if found is not None else self._ghost_storages.get(sid)

    def key_at(self, row: int) -> Key | None:
        """The group of a header row, None for a tensor row."""
        return self.keys[~row] if row < 0 and ~row < len(self.keys) else None

    def key_of(self, tensor: Tensor) -> Key:
        """The group a tensor belongs to."""
        if self.group_by == STORAGE:
            return tensor.storage if tensor.storage is not None else ~tensor.id
        return GROUPINGS[self.group_by](tensor)

    def is_open(self, key: Key) -> bool:
        """Whether the tensors of a group are shown."""
        return self._opened != (key in self._turned)

    def is_top(self, tensor: Tensor) -> bool:
        """Whether a tensor's row stands for its storage too, being the only one of it."""
        return self.group_by == STORAGE and self.key_of(tensor) in self._folded

    def group_bytes(self, key: Key) -> int:
        """The bytes of the distinct storages of a group."""
        if self.group_by == STORAGE:
            return storage_bytes(self.storage(key))
        held = {t.storage for tid in self.members.get(key, ()) if (t := self.tensor(tid)) is not None}
        return sum(storage_bytes(self.storage(sid)) for sid in held)

    def find(self, row_key: tuple[str, Any]) -> int | None:
        """The position of ("tensor", id) or ("group", key); a tensor inside a closed group is found at its header."""
        kind, value = row_key
        try:
            if kind == "group":
                return self.order.index(~self.keys.index(value))
            tensor = self.tensor(value)
            if tensor is None:
                return None
            key = self.key_of(tensor)
            if key in self._folded or self.is_open(key):
                return self.order.index(value)
            return self.order.index(~self.keys.index(key))
        except ValueError:
            return None

    def search(self, needle: str, row: int, step: int, *, here: bool = False) -> int | None:
        """The tensor after (`step` 1) or before (-1) `row` whose name holds `needle`, inside closed groups too.

        The order is that of the table, round its ends; `here` lets the row itself count.
        """
        needle = needle.lower()
        ids = [tid for key in self.keys for tid in self._sorted(self.members[key])]
        inside = self._sorted(self.members.get(self.key_at(row), [])) if row < 0 else [row]
        start = ids.index(inside[0]) if inside and inside[0] in ids else 0
        if row < 0 and step > 0:
            here = True  # the first tensor of a header comes after it
        for far in range(0 if here else 1, len(ids) + 1):
            tensor = self.tensor(ids[(start + step * far) % len(ids)]) if ids else None
            if tensor is not None and any(needle in name.lower() for name in tensor.names):
                return tensor.id
        return None

    def identity(self, row: int) -> tuple[str, Any]:
        """What a row is, whatever its position: ("tensor", id) or ("group", key)."""
        return ("tensor", row) if row >= 0 else ("group", self.key_at(row))

    # -- the work

    def _drop_ghosts(self) -> None:
        for tid, tensor in self.ghosts.items():
            key = self.key_of(tensor)
            rows = self.members.get(key)
            if rows is not None and tid in rows:
                rows.remove(tid)
                self._settle(key)
        self.ghosts = {}

    def _regroup(self) -> None:
        self.members, self._rank, self._folded = {}, {}, set()
        self.shown = 0
        if self.sample is None:
            return
        members, key_of, tensors = self.members, self.key_of, self.sample.tensors
        if self.group_by == STORAGE and self.filter is None:
            members.update((sid, []) for sid in self.sample.storages)
        ids = tensors if self.filter is None else self.filter.select(self.sample)
        self.shown = len(ids)
        for tid in ids:
            key = key_of(tensors[tid])
            rows = members.get(key)
            if rows is None:
                members[key] = [tid]
            else:
                rows.append(tid)
        for tid, tensor in self.ghosts.items():
            members.setdefault(key_of(tensor), []).append(tid)

    def _apply(self, before: Sample, sample: Sample, change: Change) -> bool:
        """Move only what changed. False when the numbers do not come out, so that everything must be done anew."""
        removed: dict[Key, set[int]] = {}
        added: dict[Key, list[int]] = {}
        for tid in change.gone | change.changed | change.new:
            old, new = before.tensors.get(tid), sample.tensors.get(tid)
            was = old is not None and self._passes(old, before)
            now = new is not None and self._passes(new, sample)
            self.shown += now - was
            from_key = self.key_of(old) if was and old is not None else None
            to_key = self.key_of(new) if now and new is not None else None
            if was and not (now and from_key == to_key):
                removed.setdefault(from_key, set()).add(tid)
            if now and not (was and from_key == to_key):
                added.setdefault(to_key, []).append(tid)
            if was and now and from_key == to_key:
                self._forget(to_key)
        for key, tids in removed.items():
            rows = self.members.get(key)
            if rows is not None:
                rows[:] = [tid for tid in rows if tid not in tids]
        for key, new_rows in added.items():
            self.members.setdefault(key, []).extend(new_rows)
        touched: Iterable[Key] = (*removed, *added)
        if self.group_by == STORAGE:
            if self.filter is None:
                for sid in change.storages:
                    if sid in sample.storages:
                        self.members.setdefault(sid, [])
            touched = (*touched, *change.storages)
        for key in touched:
            self._settle(key)
        return self.filter is not None or self.shown == len(sample.tensors)

    def _passes(self, tensor: Tensor, sample: Sample) -> bool:
        return self.filter is None or self.filter.matches(tensor, sample.storages)

    def _settle(self, key: Key) -> None:
        """After a group lost or gained rows: forget what was worked out, and drop it when nothing of it is left."""
        self._forget(key)
        if self.members.get(key):
            return
        held = self.sample is not None and self.group_by == STORAGE and self.filter is None
        if not (held and self.sample is not None and key in self.sample.storages):
            self.members.pop(key, None)

    def _forget(self, key: Key) -> None:
        self._rank.pop(key, None)
        self._folded.discard(key)

    def _arrange(self) -> None:
        """Sort the groups and lay their rows out in `order`."""
        rank, members, folded = self._rank, self.members, self._folded
        missing = [key for key in members if key not in rank] if len(rank) < len(members) else ()
        for key in missing:
            rank[key] = self._rank_of(key)
            if self.group_by == STORAGE and self._folds(key):
                folded.add(key)
        # Ties go by key, so that a row keeps its place whenever its group was last touched.
        self.keys = keys = sorted(sorted(members), key=rank.__getitem__, reverse=self.reverse)
        order: list[int] = []
        opened, turned = self._opened, self._turned
        for at, key in enumerate(keys):
            rows = members[key]
            if key in folded:
                order.append(rows[0])
                continue
            order.append(~at)
            if rows and opened != (key in turned):
                order.extend(self._sorted(rows))
        self.order = order

    def _sorted(self, rows: list[int]) -> list[int]:
        """The tensors of a group in the order of the table."""
        if len(rows) < 2:
            return rows
        value = BY_KEY[self.sort_by].sort
        values = {tid: value(tensor) for tid in rows if (tensor := self.tensor(tid)) is not None}
        return sorted(sorted(values), key=values.__getitem__, reverse=self.reverse)

    def _folds(self, key: Key) -> bool:
        """A storage whose only tensor says it all is one row, unless there is something to warn of."""
        if key < 0:
            return True
        account = self.accounts.account(key)
        return len(self.members[key]) == 1 and (account is None or (len(account.tensors) <= 1 and not wasted(account)))

    def _rank_of(self, key: Key) -> Any:
        if self.sort_by == "bytes":
            return self.group_bytes(key)
        if self.sort_by == "category" and self.group_by == "category":
            return CATEGORY_RANK.get(key, 99)
        if self.sort_by == "name" and self.group_by != STORAGE:
            return str(key)
        value = BY_KEY[self.sort_by].sort
        values = [value(tensor) for tid in self.members[key] if (tensor := self.tensor(tid)) is not None]
        if not values:
            return value(NOTHING)
        return max(values) if self.reverse else min(values)


NOTHING = Tensor(-1, None, (), "", (), (), 0, "", "", "", 0, 0, True, None, (), False, True, 0, None, "other")
