"""Which rows the tensor table has, in which order: groups laid out, opened and closed, found and searched.

No widget is involved. A row is an int: a tensor's id, or `~i` for the header of the group `keys[i]`. What takes long
over many tensors is given as steps to be run to the end: nothing of it shows before the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import Thresholds
from tensortui.model import Change, Sample, Tensor
from tensortui.ui.columns import name_text
from tensortui.ui.groups import STORAGE, Groups, Key, View, bundle_of
from tensortui.ui.ordering import STEP, Steps, put_back, sort

SMALL = 2_000  # so many changed tensors are dealt with at once


class Rows(Groups):
    """The rows of the table for the newest sample."""

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        """Start without a sample: no rows."""
        super().__init__(thresholds)
        self.order: list[int] = []
        self.keys: list[Key] = []
        self._opened = True  # what a group is that nobody opened or closed by hand
        self._turned: set[Key] = set()
        self._untold = False  # a sample had changed more than its change said: nothing of the groups can be kept

    # -- what changes the rows

    def update(
        self, sample: Sample, accounts: Accounts, change: Change | None, ghosts: Collection[Tensor] = ()
    ) -> Steps:
        """Take a new sample; `change` is what it changed since an earlier one, None for everything.

        The rows of `ghosts`, tensors that have gone, stay where they are until `drop_ghosts`, or the next sample.
        """
        before = self.sample
        if before is sample and not self._untold:  # begun before, and given up half way
            yield from self._place()
            return
        if before is not None and not self._untold and change is not None and change.since == before.seq:
            size = len(change.new) + len(change.changed) + len(change.gone) + len(change.storages)
            if size <= SMALL:
                self.sample, self.accounts = sample, accounts
                self._remove_ghosts()
                self._remember(before, ghosts)
                if self._apply(before, sample, change):
                    self._add_ghosts(ghosts)
                    yield from self._place()
                    return
                self._untold = True
        fresh = self._copy()
        fresh.sample, fresh.accounts, fresh._untold = sample, accounts, False
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
        else:
            fresh._laid, fresh.bundles = {}, {}
            if view.sort_by != before.sort_by:
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
        at, rows = header + 1, self._rows_of(key)
        if self.is_open(key):
            self.order[at:at] = rows
        else:
            del self.order[at : at + len(rows)]
        return True

    def unbundle(self, row: int) -> bool:
        """Give each tensor of a bundle a row of its own; False where `row` stands for one tensor alone."""
        tensor = self.tensor(row)
        bundle = bundle_of(tensor) if tensor is not None else None
        if tensor is None or bundle is None or row not in self.bundles or row not in self.order:
            return False
        at, key, ids = self.order.index(row), self.key_of(tensor), self.bundles[row]
        self._loose = self._loose | {bundle}
        self._unlay(key)
        self._rows_of(key)
        self.order[at : at + 1] = ids
        return True

    def rebundle(self, row: int) -> int | None:
        """Put the tensors that read like `row` into one row again, which is returned; None where they are not apart."""
        tensor = self.tensor(row)
        bundle = bundle_of(tensor) if tensor is not None else None
        if tensor is None or bundle is None or bundle not in self._loose:
            return None
        key = self.key_of(tensor)
        before = set(self._rows_of(key))
        self._loose = self._loose - {bundle}
        self._unlay(key)
        hidden = before - set(self._rows_of(key))
        self.order = [each for each in self.order if each not in hidden]
        return self.bundle_row(row)

    def drop_ghosts(self) -> Steps:
        """Take the rows out whose tensors are gone."""
        self._remove_ghosts()
        yield from self._place()

    # -- what the rows are

    def key_at(self, row: int) -> Key | None:
        """The group of a header row, None for a tensor row."""
        return self.keys[~row] if row < 0 and ~row < len(self.keys) else None

    def is_open(self, key: Key) -> bool:
        """Whether the tensors of a group are shown."""
        return self._opened != (key in self._turned)

    def is_top(self, tensor: Tensor) -> bool:
        """Whether a tensor's row stands for its storage too, being the only one of it."""
        return self.view.group_by == STORAGE and self.key_of(tensor) in self._folded

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
                return self.order.index(self.bundle_row(value))
            if value not in self.members.get(key, ()):
                return None
            return self.order.index(~self.keys.index(key))
        except ValueError:
            return None

    def search(self, needle: str, row: int, step: int, *, here: bool = False) -> int | None:
        """The tensor after (`step` 1) or before (-1) `row` whose name holds `needle`, inside closed groups too.

        One without a name goes by what is shown in place of it.

        The order is that of the table, round its ends. `here` lets the row itself count, as for who types a name: then
        a tensor whose name is just that comes before those with names that begin with it, and these before all others.
        """
        needle = needle.lower()
        tensors = self.sample.tensors.values() if self.sample is not None else ()
        names = ((t, name.lower()) for t in tensors for name in t.names or (name_text(t),))
        hits = [(t, name) for t, name in names if needle in name]
        found = {t.id: self.key_of(t) for t, _ in hits}
        if here:
            exact = {t.id for t, name in hits if needle in (name, name.partition(" @ ")[0])}
            begun = {t.id for t, name in hits if name.startswith(needle)}
            for wanted in (exact, begun):
                tid = self._next({one: found[one] for one in wanted}, row, step, here)
                if tid is not None:
                    return tid
        return self._next(found, row, step, here)

    def _next(self, found: Mapping[int, Key], row: int, step: int, here: bool) -> int | None:
        holding = set(found.values()) & self.members.keys()
        at = self._group_at(row)
        if not holding or at is None:
            return None
        for far in range(len(self.keys) + 1):
            key = self.keys[(at + step * far) % len(self.keys)]
            if key not in holding:
                continue
            hits = self._rows_of(key)[::step]
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
        if tensor is None:
            return ~row if ~row < len(self.keys) else None
        key = self.key_of(tensor)  # while a large table is being arranged it may be in none of the groups shown
        return self.keys.index(key) if key in self.keys else None

    def identity(self, row: int) -> tuple[str, Any]:
        """What a row is, whatever its position: ("tensor", id) or ("group", key)."""
        return ("tensor", row) if row >= 0 else ("group", self.key_at(row))

    # -- the work

    def _copy(self) -> Rows:
        """Rows to be worked on apart; what they have in common is replaced there, never changed."""
        fresh = copy(self)
        fresh._rank, fresh._folded, fresh._moved = self._rank.copy(), self._folded.copy(), set()
        fresh._laid, fresh.bundles = self._laid.copy(), self.bundles.copy()
        return fresh

    def _arrange(self) -> Steps:
        """Sort the groups and lay their rows out in `order`."""
        missing = [key for key in self.members if key not in self._rank]
        for at in range(0, len(missing), STEP // 4):
            self._value(missing[at : at + STEP // 4])
            yield
        yield from self._lay_out((yield from sort(self.members, self._rank, self._tie_of, self.view.reverse)))

    def _place(self) -> Steps:
        """Put the groups that moved where they belong, all others staying in their order."""
        moved, keys = self._moved, self.keys
        if moved:
            found = [key for key in moved if key in self.members]
            self._value(found)
            yield
            kept = [key for key in keys if key not in moved]
            yield
            keys = yield from put_back(kept, found, self._rank, self._tie_of, self.view.reverse)
            yield
        yield from self._lay_out(keys)

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
                order.extend(self._rows_of(key))
        self.keys, self.order, self._moved = keys, order, set()
