"""Which rows the tensor table has, in which order: grouping, folding, sorting and filtering, kept up by what changed.

No widget is involved. A row is an int: a tensor's id, or `~i` for the header of the group `keys[i]`. What takes long
over many tensors is given as steps to be run to the end: nothing of it shows before the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

from tensortui.analysis.accounting import Account, Accounts
from tensortui.analysis.filtering import Filter
from tensortui.analysis.findings import Thresholds
from tensortui.analysis.grouping import KEYS as GROUPINGS
from tensortui.model import CATEGORY_RANK, Change, Sample, Storage, Tensor
from tensortui.ui.columns import BY_KEY, storage_bytes
from tensortui.ui.ordering import STEP, Steps, put_back, sort

STORAGE = "storage"
GROUP_MODES = (STORAGE, *GROUPINGS)
THRESHOLDS = Thresholds()
SMALL = 2_000  # so many changed tensors, or groups, are dealt with at once

Key = Any  # a storage id; below zero the tensor id that has no storage (~id); or the text of a grouping


def wasted(account: Account | None) -> bool:
    """Whether a storage is kept alive by tensors that reach little of it."""
    return account is not None and THRESHOLDS.retains(account)


@dataclass(frozen=True)
class View:
    """How the table is looked at."""

    group_by: str = STORAGE
    sort_by: str = "bytes"
    reverse: bool = True
    filter: Filter | None = None  # None where nothing is left out


class Rows:
    """The rows of the table for the newest sample."""

    def __init__(self) -> None:
        """Start without a sample: no rows."""
        self.sample: Sample | None = None
        self.accounts = Accounts()
        self.view = View()
        self.order: list[int] = []
        self.keys: list[Key] = []
        self.members: dict[Key, list[int]] = {}
        self.shown = 0  # tensors that pass the filter
        self.ghosts: dict[int, Tensor] = {}  # gone, but still on screen for a moment
        self._ghost_storages: dict[int, Storage] = {}
        self._opened = True  # what a group is that nobody opened or closed by hand
        self._turned: set[Key] = set()
        self._rank: dict[Key, Any] = {}
        self._folded: set[Key] = set()
        self._moved: set[Key] = set()  # groups that are not where they belong

    # -- what changes the rows

    def update(
        self, sample: Sample, accounts: Accounts, change: Change | None, ghosts: Collection[Tensor] = ()
    ) -> Steps:
        """Take a new sample; `change` is what it changed since an earlier one, None for everything.

        The rows of `ghosts`, tensors that have gone, stay where they are until `drop_ghosts`, or the next sample.
        """
        before = self.sample
        if before is sample:  # begun before, and given up half way
            yield from self._place()
            return
        if before is not None and change is not None and change.since == before.seq:
            size = len(change.new) + len(change.changed) + len(change.gone) + len(change.storages)
            if size <= SMALL:
                self.sample, self.accounts = sample, accounts
                self._remove_ghosts()
                self._remember(before, ghosts)
                if self._apply(before, sample, change):
                    self._add_ghosts(ghosts)
                    yield from self._place()
                    return
        fresh = self._copy()
        fresh.sample, fresh.accounts = sample, accounts
        if before is not None:
            fresh._remember(before, ghosts)
        yield from fresh._regroup()
        yield from fresh._arrange()
        vars(self).update(vars(fresh))

    def change(self, view: View, opened: bool | None = None) -> Steps:
        """Look at the same sample in another way; `opened` opens or closes every group."""
        before, fresh = self.view, self._copy()
        fresh.view = view
        if view.group_by != before.group_by:
            fresh._opened = view.group_by == STORAGE
            fresh._turned = set()
        if opened is not None:
            fresh._opened = opened
            fresh._turned = set()
        if (view.group_by, view.filter) != (before.group_by, before.filter):
            yield from fresh._regroup()
        elif view.sort_by != before.sort_by:
            fresh._rank, fresh._folded = {}, set()
        if view != before or opened is not None:
            yield from fresh._arrange()
        vars(self).update(vars(fresh))

    def toggle(self, key: Key, opened: bool | None = None) -> bool:
        """Open or close a group; returns whether anything changed."""
        if key not in self.members or key in self._folded or (opened is not None and self.is_open(key) == opened):
            return False
        header = self.find(("group", key))
        if header is None:
            return False
        self._turned ^= {key}
        at, rows = header + 1, self.members[key]
        if self.is_open(key):
            self.order[at:at] = self._sorted(rows)
        else:
            del self.order[at : at + len(rows)]
        return True

    def drop_ghosts(self) -> Steps:
        """Take the rows out whose tensors are gone."""
        self._remove_ghosts()
        yield from self._place()

    # -- what the rows are

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

    def key_at(self, row: int) -> Key | None:
        """The group of a header row, None for a tensor row."""
        return self.keys[~row] if row < 0 and ~row < len(self.keys) else None

    def key_of(self, tensor: Tensor) -> Key:
        """The group a tensor belongs to."""
        if self.view.group_by == STORAGE:
            return tensor.storage if tensor.storage is not None else ~tensor.id
        return GROUPINGS[self.view.group_by](tensor)

    def is_open(self, key: Key) -> bool:
        """Whether the tensors of a group are shown."""
        return self._opened != (key in self._turned)

    def is_top(self, tensor: Tensor) -> bool:
        """Whether a tensor's row stands for its storage too, being the only one of it."""
        return self.view.group_by == STORAGE and self.key_of(tensor) in self._folded

    def group_bytes(self, key: Key) -> int:
        """The bytes of a group, each once."""
        if self.view.group_by == STORAGE:
            return storage_bytes(self.storage(key))
        held = {t.storage for tid in self.members.get(key, ()) if (t := self.tensor(tid)) is not None}
        return self.accounts.bytes_of(sid for sid in held if sid is not None)

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
            if value not in self.members.get(key, ()):
                return None
            return self.order.index(~self.keys.index(key))
        except ValueError:
            return None

    def search(self, needle: str, row: int, step: int, *, here: bool = False) -> int | None:
        """The tensor after (`step` 1) or before (-1) `row` whose name holds `needle`, inside closed groups too.

        The order is that of the table, round its ends; `here` lets the row itself count.
        """
        needle = needle.lower()
        tensors = self.sample.tensors.values() if self.sample is not None else ()
        found = {t.id: self.key_of(t) for t in tensors if any(needle in name.lower() for name in t.names)}
        holding = set(found.values()) & self.members.keys()
        at = self._group_at(row)
        if not holding or at is None:
            return None
        for far in range(len(self.keys) + 1):
            key = self.keys[(at + step * far) % len(self.keys)]
            if key not in holding:
                continue
            hits = self._sorted(self.members[key])[::step]
            if far == 0 or far == len(self.keys):
                # The row's own group: first what is behind the row, and after a whole round what is before it.
                cut = hits.index(row) + (not here) if row in hits else 0 if step > 0 else len(hits)
                hits = hits[cut:] if far == 0 else hits[:cut]
            for tid in hits:
                if tid in found:
                    return tid
        return None

    def _group_at(self, row: int) -> int | None:
        """The position in `keys` of the group of a row."""
        tensor = self.tensor(row) if row >= 0 else None
        if row >= 0 and tensor is None:
            return None
        at = ~row if tensor is None else self.keys.index(self.key_of(tensor)) if self.keys else None
        return at if at is not None and at < len(self.keys) else None

    def identity(self, row: int) -> tuple[str, Any]:
        """What a row is, whatever its position: ("tensor", id) or ("group", key)."""
        return ("tensor", row) if row >= 0 else ("group", self.key_at(row))

    # -- the work

    def _copy(self) -> Rows:
        """Rows to be worked on apart; what they have in common is replaced there, never changed."""
        fresh = copy(self)
        fresh._rank, fresh._folded, fresh._moved = self._rank.copy(), self._folded.copy(), set()
        return fresh

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
        self._folded.discard(key)

    def _arrange(self) -> Steps:
        """Sort the groups and lay their rows out in `order`."""
        missing = [key for key in self.members if key not in self._rank]
        for at in range(0, len(missing), STEP // 4):
            self._value(missing[at : at + STEP // 4])
            yield
        yield from self._lay_out((yield from sort(self.members, self._rank, self.view.reverse)))

    def _place(self) -> Steps:
        """Put the groups that moved where they belong, all others staying in their order."""
        moved, keys = self._moved, self.keys
        if moved:
            found = [key for key in moved if key in self.members]
            self._value(found)
            yield
            kept = [key for key in keys if key not in moved]
            yield
            keys = put_back(kept, found, self._rank, self.view.reverse)
            yield
        yield from self._lay_out(keys)

    def _value(self, keys: Iterable[Key]) -> None:
        """Work out by what these groups are sorted, and whether they fold."""
        storage = self.view.group_by == STORAGE
        for key in keys:
            self._rank[key] = self._rank_of(key)
            if storage and self._folds(key):
                self._folded.add(key)

    def _lay_out(self, keys: list[Key]) -> Steps:
        """Write down the rows of the groups `keys`, and be done."""
        members, folded, opened, turned = self.members, self._folded, self._opened, self._turned
        order: list[int] = []
        for at, key in enumerate(keys):
            if at % STEP == STEP - 1:
                yield
            rows = members[key]
            if key in folded:
                order.append(rows[0])
                continue
            order.append(~at)
            if rows and opened != (key in turned):
                order.extend(self._sorted(rows))
        self.keys, self.order, self._moved = keys, order, set()

    def _sorted(self, rows: list[int]) -> list[int]:
        """The tensors of a group in the order of the table."""
        if len(rows) < 2:
            return rows
        value = BY_KEY[self.view.sort_by].sort
        values = {tid: value(tensor) for tid in rows if (tensor := self.tensor(tid)) is not None}
        return sorted(sorted(values), key=values.__getitem__, reverse=self.view.reverse)

    def _folds(self, key: Key) -> bool:
        """A storage whose only tensor says it all is one row, unless there is something to warn of."""
        if key < 0:
            return True
        account = self.accounts.account(key)
        return len(self.members[key]) == 1 and (account is None or (len(account.tensors) <= 1 and not wasted(account)))

    def _rank_of(self, key: Key) -> Any:
        sort_by, reverse = self.view.sort_by, self.view.reverse
        if sort_by == "bytes":
            return self.group_bytes(key)
        if sort_by == "category" and self.view.group_by == "category":
            return CATEGORY_RANK.get(key, 99)
        if sort_by == "name" and self.view.group_by != STORAGE:
            return str(key)
        value = BY_KEY[sort_by].sort
        values = [value(tensor) for tid in self.members[key] if (tensor := self.tensor(tid)) is not None]
        if not values:
            return value(NOTHING)
        return max(values) if reverse else min(values)


NOTHING = Tensor(-1, None, (), "", (), (), 0, "", "", "", 0, 0, True, None, (), False, True, 0, None, "other")
