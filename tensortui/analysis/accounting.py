"""Whose the bytes are: the category and the living bytes of each storage, and totals that count each byte once.

`Accounts` follows a source: it takes sample after sample and works on what changed alone, so that a hundred thousand
tensors of which a thousand change cost what a thousand cost.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType

from tensortui.analysis.changes import unlike
from tensortui.analysis.overlaps import Beside, Cluster, Overlaps, beside
from tensortui.model import BACKINGS, CATEGORIES, CATEGORY_RANK, Sample, Storage, Tensor
from tensortui.model.strided import MAX_MASK_BITS, PACKED, extent, intervals, itemsize, mask, range_mask, union

_MAX_PIECES = 1 << 16  # ranges of one storage; what has more is counted bit by bit
_MAX_WORK = 1 << 31  # bits touched while doing so: well under a tenth of a second


_Place = tuple[tuple[int, ...], tuple[int, ...], int, int]  # shape, strides, offset, size of an element


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
        self._clusters: dict[int, Cluster] = {}  # by each of their storages
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
        ranks = {number: self._rank(number) for number in dirty}
        for number in dirty:
            self._recount(number)
        dirty |= self._share(stored, dirty, [number for number, rank in ranks.items() if rank != self._rank(number)])
        return frozenset(dirty)

    def account(self, storage: int) -> Account | None:
        """The account of a storage; None for one that the sample does not have."""
        return self._accounts.get(storage)

    def beside(self, storage: int) -> Beside:
        """The other storages that lie over memory of this one."""
        cluster = self._clusters.get(storage)
        return Beside({}, 0) if cluster is None else beside(cluster, storage)

    @property
    def accounts(self) -> Mapping[int, Account]:
        """Every account by storage id; it changes with the next update."""
        return MappingProxyType(self._accounts)

    def frozen(self) -> Accounts:
        """The accounts as they are now, for another thread: no update reaches them."""
        still = copy(self)
        for name in ("_accounts", "_members", "_clusters", "_shared", "_by_category", "_by_device", "_by_backing"):
            setattr(still, name, getattr(self, name).copy())
        still._overlaps = {device: copy(overlaps) for device, overlaps in self._overlaps.items()}
        return still

    def bytes_of(self, storages: Iterable[int]) -> int:
        """The bytes of some storages, each byte once; those whose size is not known count nothing."""
        found = [(n, account) for n in storages if (account := self._accounts.get(n)) and account.backing != "none"]
        alone = sum(account.bytes for number, account in found if number not in self._shared)
        places: dict[str, list[tuple[int, int]]] = {}
        for number, account in found:
            if number in self._shared:
                start = self._storages[number].address or 0
                places.setdefault(account.device, []).append((start, start + account.bytes))
        return alone + sum(end - start for ranges in places.values() for start, end in union(ranges))

    def size_of(self, storages: Iterable[int]) -> int | None:
        """The same, but None where there are storages that hold memory and the size of none of them is known."""
        chosen = list(storages)
        held = [self._storages[n] for n in chosen if (account := self._accounts.get(n)) and account.backing != "none"]
        if held and all(storage.bytes is None for storage in held):
            return None
        return self.bytes_of(chosen)

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

    def _share(self, before: Mapping[int, Storage], dirty: Iterable[int], ranked: Iterable[int]) -> set[int]:
        """Count the bytes that several storages lie over for one of them; returns those that count otherwise now.

        `ranked` are those that moved to another category: only where they lie, or where a storage came, went or moved,
        bytes are shared out anew.
        """
        gone: dict[str, list[Storage]] = {}
        new: dict[str, list[Storage]] = {}
        for number in dirty:
            old, now = before.get(number), self._storages.get(number)
            if old is not now and old != now:
                if old is not None:
                    gone.setdefault(old.device, []).append(old)
                if now is not None:
                    new.setdefault(now.device, []).append(now)
        lost: list[Cluster] = []
        fresh: list[Cluster] = []
        for device in gone.keys() | new.keys():
            overlaps = self._overlaps.setdefault(device, Overlaps())
            left, made = overlaps.update(gone.get(device, ()), new.get(device, ()))
            lost.extend(left)
            fresh.extend(made)
        was: dict[int, int | None] = {}
        for _, _, number in chain.from_iterable(lost):
            del self._clusters[number]
            was[number] = self._shared.pop(number)
        for cluster in fresh:
            self._clusters.update((number, cluster) for _, _, number in cluster)
        again = {cluster[0]: cluster for cluster in fresh}
        for number in ranked:
            if number in self._clusters:
                cluster = self._clusters[number]
                again[cluster[0]] = cluster
        for cluster in again.values():
            for number, counted in self._split(cluster):
                was.setdefault(number, self._shared.get(number))
                self._shared[number] = counted
        unlike = {number for number, counts in was.items() if counts != self._shared.get(number)}
        for number in unlike:
            account = self._accounts.get(number)
            if account is not None:
                self._add(account, -1)
                self._accounts[number] = account = replace(account, counted=self._counted(self._storages[number]))
                self._add(account, 1)
        return unlike

    def _counted(self, storage: Storage) -> int:
        return 0 if storage.backing == "none" else self._shared.get(storage.id, storage.bytes or 0)

    def _split(self, cluster: Cluster) -> Iterator[tuple[int, int]]:
        """What each storage of a cluster counts: a shared byte goes to the category that comes first."""
        starts: list[int] = []  # of what is covered so far, in order and apart
        ends: list[int] = []
        for start, end, number in sorted(cluster, key=lambda span: (self._rank(span[2]), span)):
            first, last = bisect_left(ends, start), bisect_right(starts, end)  # what it meets
            known = sum(ends[first:last]) - sum(starts[first:last])
            low, high = (min(start, starts[first]), max(end, ends[last - 1])) if first < last else (start, end)
            starts[first:last], ends[first:last] = [low], [high]
            yield number, high - low - known

    def _rank(self, number: int) -> int:
        account = self._accounts.get(number)
        return -1 if account is None else CATEGORY_RANK[account.category]

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
    tensors = [tensor for tensor in tensors if "base-only" not in tensor.flags]
    for tensor in tensors:
        if tensor.bytes is not None and tensor.bytes >= size and tensor.contiguous and tensor.offset == 0:
            return size
    places: dict[_Place, None] = {}
    for tensor in tensors:
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


def _inside(place: _Place, covered: Sequence[tuple[int, int]], size: int) -> bool:
    """Whether all of a place lies in one of the `covered` ranges, which are sorted and apart."""
    shape, strides, offset, unit = place
    first, last = offset * unit, min(size, (offset + extent(shape, strides)) * unit)
    at = bisect_left(covered, (first + 1, 0)) - 1  # the last that begins no later
    return at >= 0 and last <= covered[at][1]


def _by_mask(size: int, covered: Sequence[tuple[int, int]], loose: Sequence[_Place]) -> int | None:
    """Count with one bit a unit; None where that would be too many bits, or too often."""
    if size // max(place[3] for place in loose) * 40 * len(loose) > _MAX_WORK:
        return None  # the unit is no larger
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
