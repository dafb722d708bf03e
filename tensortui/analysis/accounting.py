"""Whose the bytes are: the category and the living bytes of each storage, and totals that count each byte once.

`Accounts` follows a source: it takes sample after sample and works on what changed alone, so that a hundred thousand
tensors of which a thousand change cost what a thousand cost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from tensortui.analysis.changes import unlike
from tensortui.analysis.overlaps import Overlaps
from tensortui.model import BACKINGS, CATEGORIES, CATEGORY_RANK, Sample, Storage, Tensor
from tensortui.model.strided import MAX_MASK_BITS, PACKED, extent, intervals, itemsize, mask, range_mask, union

_MAX_PIECES = 1 << 16  # ranges of one storage; what has more is counted bit by bit
_MAX_WORK = 1 << 31  # bits touched while doing so: well under a tenth of a second


@dataclass(frozen=True, slots=True)
class Account:
    """One storage: what it is for, what of it living tensors can address, and which tensors lie on it, oldest first.

    `live_bytes` leaves out tensors that only a view's `_base` keeps; None where it cannot be told. `counted` is what
    the totals count here: nothing where no memory is held, and bytes that several storages share only once.
    """

    category: str
    live_bytes: int | None
    tensors: tuple[int, ...]
    bytes: int
    device: str
    backing: str
    counted: int
    held_by: int  # tensors that are more than the base of a view


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums that count each byte once; `bytes` is all of it, `by_backing` splits it (memory, shared, file)."""

    tensors: int = 0
    storages: int = 0
    bytes: int = 0
    by_category: Mapping[str, int] = field(default_factory=dict)
    by_device: Mapping[str, int] = field(default_factory=dict)
    by_backing: Mapping[str, int] = field(default_factory=dict)


class Accounts:
    """The accounts of every storage of the newest sample."""

    def __init__(self, sample: Sample | None = None) -> None:
        """Start empty, or with `sample`."""
        self._clear()
        if sample is not None:
            self.update(sample)

    def _clear(self) -> None:
        self._seq: int | None = None
        self._tensors: Mapping[int, Tensor] = {}
        self._storages: Mapping[int, Storage] = {}
        self._members: dict[int, tuple[int, ...]] = {}  # the tensors on each storage that has any
        self._accounts: dict[int, Account] = {}
        self._overlaps: dict[str, Overlaps] = {}
        self._shared: dict[int, int] = {}  # what a storage that shares memory with others counts
        self._bytes = 0
        self._by_category = dict.fromkeys(CATEGORIES, 0)
        self._by_device: Counter[str] = Counter()
        self._by_backing: Counter[str] = Counter()

    def update(self, sample: Sample) -> frozenset[int]:
        """Move on to `sample`; returns the storages whose account may differ now.

        Where `sample.change` is not relative to the sample we are at, the two are compared in full.
        """
        if self._seq is not None and sample.change.since == self._seq:
            change = sample.change
            touched: Iterable[int] = chain(change.new, change.changed, change.gone)
            dirty = set(change.storages)
        else:
            touched = unlike(self._tensors, sample.tensors)
            dirty = set(unlike(self._storages, sample.storages))
        before, after = self._tensors, sample.tensors
        left: dict[int, set[int]] = {}
        joined: dict[int, list[int]] = {}
        for tid in touched:
            old, new = before.get(tid), after.get(tid)
            was = None if old is None else old.storage
            now = None if new is None else new.storage
            if was == now and old is not None and new is not None and _same_place(old, new):
                continue
            if was is not None:
                dirty.add(was)
                if was != now:
                    left.setdefault(was, set()).add(tid)
            if now is not None:
                dirty.add(now)
                if was != now:
                    joined.setdefault(now, []).append(tid)
        for number in left.keys() | joined.keys():
            self._move(number, left.get(number, ()), joined.get(number, ()))
        stored, self._storages = self._storages, sample.storages
        self._seq, self._tensors = sample.seq, after
        for number in dirty:
            self._recount(number)
        dirty |= self._share(stored, dirty)
        return frozenset(dirty)

    def account(self, storage: int) -> Account | None:
        """The account of a storage; None for one that the sample does not have."""
        return self._accounts.get(storage)

    @property
    def accounts(self) -> Mapping[int, Account]:
        """Every account by storage id; it changes with the next update."""
        return MappingProxyType(self._accounts)

    def frozen(self) -> Accounts:
        """The accounts as they are now, for another thread: no update reaches them."""
        still = copy(self)
        still._accounts = self._accounts.copy()
        return still

    def bytes_of(self, storages: Iterable[int]) -> int:
        """The bytes of some storages, each byte once."""
        found = [(n, account) for n in storages if (account := self._accounts.get(n)) and account.backing != "none"]
        alone = sum(account.bytes for number, account in found if number not in self._shared)
        places: dict[str, list[tuple[int, int]]] = {}
        for number, account in found:
            if number in self._shared:
                start = self._storages[number].address or 0
                places.setdefault(account.device, []).append((start, start + account.bytes))
        return alone + sum(end - start for ranges in places.values() for start, end in union(ranges))

    @property
    def totals(self) -> Totals:
        """The sums, each byte once. Categories, devices and backings without bytes are left out."""
        return Totals(
            len(self._tensors),
            len(self._storages),
            self._bytes,
            {name: size for name, size in self._by_category.items() if size},
            {name: self._by_device[name] for name in sorted(self._by_device) if self._by_device[name]},
            {name: self._by_backing[name] for name in BACKINGS if self._by_backing[name]},
        )

    def _move(self, number: int, left: Collection[int], joined: Iterable[int]) -> None:
        """Take tensors from a storage, and put others on it, behind those that stay."""
        members = (*[tid for tid in self._members.pop(number, ()) if tid not in left], *joined)
        if members:
            self._members[number] = members

    def _recount(self, number: int) -> None:
        old = self._accounts.pop(number, None)
        if old is not None:
            self._add(old, -1)
        storage = self._storages.get(number)
        if storage is None:
            return
        members = self._members.get(number, ())
        tensors = [self._tensors[tid] for tid in members]
        # Lists rather than generators: with a hundred thousand storages of one tensor each these two lines count.
        account = Account(
            CATEGORIES[min([CATEGORY_RANK[tensor.category] for tensor in tensors], default=-1)],
            live_bytes(storage.bytes, tensors),
            members,
            storage.bytes or 0,
            storage.device,
            storage.backing,
            self._counted(storage),
            sum(["base-only" not in tensor.flags for tensor in tensors]),
        )
        self._accounts[number] = account
        self._add(account, 1)

    def _share(self, before: Mapping[int, Storage], dirty: Iterable[int]) -> set[int]:
        """Count the bytes that several storages lie over for one of them; returns those that count otherwise now."""
        gone: dict[str, list[Storage]] = {}
        new: dict[str, list[Storage]] = {}
        for number in dirty:
            old, now = before.get(number), self._storages.get(number)
            if old is not now and old != now:
                if old is not None:
                    gone.setdefault(old.device, []).append(old)
                if now is not None:
                    new.setdefault(now.device, []).append(now)
        for device in gone.keys() | new.keys():
            self._overlaps.setdefault(device, Overlaps()).update(gone.get(device, ()), new.get(device, ()))
        shared: dict[int, int] = {}
        for overlaps in self._overlaps.values():
            for cluster in overlaps.clusters:
                shared.update(self._split(cluster))
        before_now = ((number, self._shared.get(number), shared.get(number)) for number in shared.keys() | self._shared)
        unlike = {number for number, was, now in before_now if was != now}
        self._shared = shared
        for number in unlike:
            account = self._accounts.get(number)
            if account is not None:
                self._add(account, -1)
                self._accounts[number] = account = replace(account, counted=self._counted(self._storages[number]))
                self._add(account, 1)
        return unlike

    def _counted(self, storage: Storage) -> int:
        return 0 if storage.backing == "none" else self._shared.get(storage.id, storage.bytes or 0)

    def _split(self, cluster: Iterable[tuple[int, int, int]]) -> dict[int, int]:
        """What each storage of a cluster counts: a shared byte goes to the category that comes first."""
        counted = {}
        covered: list[tuple[int, int]] = []
        size = 0
        for start, end, number in sorted(cluster, key=lambda span: (self._rank(span[2]), span)):
            covered = union([*covered, (start, end)])
            whole = sum(last - first for first, last in covered)
            counted[number] = whole - size
            size = whole
        return counted

    def _rank(self, number: int) -> int:
        return CATEGORY_RANK[self._accounts[number].category]

    def _add(self, account: Account, sign: int) -> None:
        size = sign * account.counted
        self._bytes += size
        self._by_category[account.category] += size
        self._by_device[account.device] += size
        self._by_backing[account.backing] += size


def live_bytes(size: int | None, tensors: Iterable[Tensor]) -> int | None:
    """Distinct bytes of a storage of `size` that `tensors` can address, leaving out base-only ones."""
    if not size:
        return size
    places: dict[tuple[tuple[int, ...], tuple[int, ...], int, int], None] = {}
    for tensor in tensors:
        if "base-only" in tensor.flags:
            continue
        if tensor.bytes is not None and tensor.bytes >= size and tensor.contiguous and tensor.offset == 0:
            return size
        unit = itemsize(tensor.dtype)
        if tensor.shape is None or tensor.strides is None or tensor.offset is None or unit is None:
            return None
        if len(tensor.shape) != len(tensor.strides) or (tensor.dtype in PACKED):
            return None
        places[tensor.shape, tensor.strides, tensor.offset, unit] = None
    ranges: list[tuple[int, int]] = []
    loose = []
    for place in places:
        pieces = intervals(*place, limit=_MAX_PIECES - len(ranges))
        if pieces is None:
            loose.append(place)
        else:
            ranges.extend(pieces)
    covered = union((max(0, start), min(end, size)) for start, end in ranges if start < size)
    loose = [place for place in loose if not _inside(place, covered, size)]
    if not loose:
        return sum(end - start for start, end in covered)
    return _by_mask(size, covered, loose)


def _inside(
    place: tuple[tuple[int, ...], tuple[int, ...], int, int], covered: list[tuple[int, int]], size: int
) -> bool:
    shape, strides, offset, unit = place
    first, last = offset * unit, min(size, (offset + extent(shape, strides)) * unit)
    return any(start <= first and last <= end for start, end in covered)


def _by_mask(
    size: int,
    covered: list[tuple[int, int]],
    loose: list[tuple[tuple[int, ...], tuple[int, ...], int, int]],
) -> int | None:
    """Count with one bit a unit; None where that would be too many bits, or too often."""
    unit = math.gcd(size, *(place[3] for place in loose), *chain.from_iterable(covered))
    bits = size // unit
    if bits > MAX_MASK_BITS or bits * 40 * len(loose) > _MAX_WORK:
        return None
    whole = range_mask(bits, ((start // unit, end // unit) for start, end in covered))
    for place in loose:
        part = mask(*place, unit)
        if part is None:
            return None
        whole |= part
    return (whole & ((1 << bits) - 1)).bit_count() * unit


def _same_place(old: Tensor, new: Tensor) -> bool:
    """Whether two records of one tensor mean the same to its storage; most changes are of the version alone."""
    return (
        old.offset == new.offset
        and old.category == new.category
        and old.shape == new.shape
        and old.strides == new.strides
        and old.dtype == new.dtype
        and old.flags == new.flags
    )
