"""Find the live objects of some types by reading the allocator's pools, without stopping the target.

`gc.get_objects()` holds the GIL for about 0.1 us an object, 0.2 s at two million. Small objects lie in the pools of
pymalloc, so their memory is read with process_vm_readv, which cannot fault. What looks like an object of a wanted
type is looked at once more: its type, its reference count, and that both of its neighbours in the collector's list
point back to it. In the moment in which that is certain a reference is taken, and only a weak one kept.

The layout is not assumed: `PoolScanner` checks it on objects of its own and says so when this interpreter differs.
"""

import sys
import weakref
from array import array
from itertools import chain, repeat
from typing import Any, Deque, Dict, Iterable, List, Optional, Set, Tuple

from tensortui.agent.alive import GC_HEAD, TRIES, Alive, objects_at
from tensortui.agent.census import Work
from tensortui.agent.guard import Alone
from tensortui.agent.maps import read_mappings
from tensortui.agent.memory import PROOFS, Memory, pairs

POOL = 16384 if sys.version_info >= (3, 10) else 4096
HEADER = 48
ALIGNMENT = 16
LARGEST = 512  # larger objects do not lie in pools
PRE_HEADER = 16  # the words before the collector's head, where the type has them
MANAGED = 0x18 if sys.version_info >= (3, 12) else 0x10 if sys.version_info >= (3, 11) else 0
INLINE_VALUES = 1 << 2 if sys.version_info >= (3, 13) else 0
FULL_LIMIT = 400_000  # pools of address space that are looked at one by one: 6 GiB
COARSE = 262_144  # above that, one probe in so many bytes, then the neighbourhood of what was found
ARENA = 1 << 20
BATCH = 64
MOST_SLOTS = 30  # attribute slots inside an instance

type_flags = type.__dict__["__flags__"].__get__
type_basicsize = type.__dict__["__basicsize__"].__get__


def anonymous_ranges(ranges: List[Tuple[int, int]]) -> Work:
    """Add the ranges of private anonymous writable memory, cut to whole pools, to `ranges`."""

    def take(low: int, high: int, modes: str, path: str) -> None:
        if modes == "rw-p" and (not path or path.startswith(("[heap", "[anon"))):
            start = (low + POOL - 1) & -POOL
            if high - start >= POOL:
                ranges.append((start, high & -POOL))

    yield from read_mappings(take)


class PoolScanner:
    """Finds the objects of given types. `reason` says why it cannot, "" where it can."""

    def __init__(self) -> None:
        """Check the layout on objects of our own."""
        self.reason = ""
        self._keys_at: Optional[int] = None
        try:
            self.memory = Memory()
            self._alive = Alive(self.memory)
            with Alone():  # a collection by another thread would link our objects to others while we look at them
                self._check()
        except Exception as error:
            self.reason = "the allocator's layout is not the expected one: %s" % error

    # -- layout

    def _check(self) -> None:
        class Plain:
            pass

        class Slotted:
            __slots__ = ("__weakref__", "a", "b", "c")

        if INLINE_VALUES:
            self._keys_at = self._find_cached_keys(Plain)
        for kind in (Plain, Slotted):
            for thing in [kind() for _ in range(3)]:
                before, sizes = self._blocks(kind)
                start = id(thing) - before
                size = self._size_class(start)
                if size not in sizes:
                    raise ValueError("a pool has another size class")
                if ((start & (POOL - 1)) - HEADER) % size:
                    raise ValueError("an object lies elsewhere in its pool")
                if not any(self._alive.sure([id(thing)], {id(kind)})[0] for _ in range(TRIES)):
                    raise ValueError("an object of our own was not found again")

    def _size_class(self, address: int) -> int:
        """Return the block size of the pool that `address` lies in; raises ValueError where there is no pool."""
        header = array("I", bytes(HEADER))
        got = self.memory.read(array("Q", [address & -POOL, HEADER]), header)
        if got != HEADER or not valid(header[9], header[11]):
            raise ValueError("an object does not lie in a pool")
        return (header[9] + 1) * ALIGNMENT

    def _find_cached_keys(self, kind: type) -> int:
        """Return the offset of ht_cached_keys in a heap type: it decides how large an instance is from 3.13 on."""
        thing = kind()
        plain = GC_HEAD + PRE_HEADER + type_basicsize(kind)
        size = self._size_class(id(thing))
        for place, word in enumerate(self.memory.words(id(kind), 160)):
            if place > 50 and word > 1 << 16 and not word & 7:
                slots = self._slots(id(kind), place * 8)
                if 0 < slots < MOST_SLOTS and round_up(plain + inline_size(slots + 1), ALIGNMENT) == size:
                    return place * 8
        raise ValueError("the keys of a type were not found")

    def _slots(self, kind: int, offset: int) -> int:
        """Return how many attribute slots the next instance of a type gets; 0 where there are no keys."""
        pointer = self.memory.words(kind + offset, 1)
        keys = self.memory.words(pointer[0], 4) if pointer else []
        return keys[2] + keys[3] if keys and keys[2] <= 64 and keys[3] <= 64 else 0  # dk_usable + dk_nentries

    def _blocks(self, kind: type) -> Tuple[int, Iterable[int]]:
        """Return where in its block an instance of `kind` starts, and the sizes that the block may have."""
        flags = type_flags(kind)
        before = GC_HEAD + (PRE_HEADER if flags & MANAGED else 0)
        size = before + type_basicsize(kind)
        if not flags & INLINE_VALUES:
            size = round_up(size, ALIGNMENT)
            return before, range(size, size + 1)
        # Each instance gets one slot fewer than the one before, down to what its type uses.
        fewest = 0 if self._keys_at is None else self._slots(id(kind), self._keys_at)
        if not fewest:
            raise ValueError("the size of an instance is not known")
        smallest, largest = (round_up(size + inline_size(slots), ALIGNMENT) for slots in (fewest, MOST_SLOTS))
        return before, range(smallest, largest + 1, ALIGNMENT)

    # -- the scan

    def scan(self, kinds: List["weakref.ref[Any]"], found: Deque[Any], dead: Deque[Any]) -> Work:
        """Append weak references to the live instances of `kinds` to `found`, with `dead.append` as their callback."""
        blocks: Dict[int, Dict[int, Set[int]]] = {}  # block size -> where an object starts in it -> type ids
        self._types: Dict[int, weakref.ref[Any]] = {}
        for ref in kinds:
            kind = ref()
            if kind is not None:
                self._types[id(kind)] = ref
                before, sizes = self._blocks(kind)
                for size in sizes:
                    blocks.setdefault(size, {}).setdefault(before, set()).add(id(kind))
                if blocks and max(blocks) > LARGEST:
                    raise ValueError("instances of a type do not lie in pools")
            del kind
            yield
        pools: Dict[int, List[int]] = {size: [] for size in blocks}
        yield from self._find_pools(pools)
        for size, starts in blocks.items():
            per = max(1, (64 << 10) // POOL)
            for at in range(0, len(pools[size]), per):
                some = pools[size][at : at + per]
                buffer = array("Q", bytes(POOL * len(some)))
                got = self.memory.read(pairs(some, POOL), buffer)
                for place in range(max(got, 0) // POOL):
                    for before, ids in starts.items():
                        self._look(buffer, place, some[place], size, before, ids, found, dead)
                    yield

    def _find_pools(self, pools: Dict[int, List[int]]) -> Work:
        ranges: List[Tuple[int, int]] = []
        yield from anonymous_ranges(ranges)
        if sum(high - low for low, high in ranges) // POOL <= FULL_LIMIT:
            for low, high in ranges:
                yield from self._headers(range(low, high, POOL), pools)
            return
        # Too much to look at each pool: an arena's pools are all in use but for the newest arena's, so a few probes
        # find it; the newest is reached by the links between pools that have room.
        near: Set[int] = set()
        every: Dict[int, List[int]] = {size: [] for size in range(ALIGNMENT, LARGEST + 1, ALIGNMENT)}
        for low, high in ranges:
            yield from self._headers(range(low, high, COARSE), every, near)
        seen: Set[int] = set()
        for window in sorted(near):
            for low, high in ranges:
                first, last = max(low, window - ARENA), min(high, window + 2 * ARENA)
                fresh = [at for at in range(first, last, POOL) if at not in seen] if first < last else []
                seen.update(fresh)
                yield from self._headers(fresh, pools)

    def _headers(self, addresses: Any, pools: Dict[int, List[int]], near: Optional[Set[int]] = None) -> Work:
        """Sort the pools among `addresses` by size class; `near` collects the arenas' neighbourhoods."""
        todo = [addresses]
        while todo:
            some = todo.pop()
            if len(some) > BATCH:
                todo += [some[BATCH:], some[:BATCH]]
                continue
            buffer = array("I", bytes(HEADER * len(some)))
            got = max(self.memory.read(pairs(some, HEADER), buffer), 0) // HEADER
            if got < len(some):  # some page cannot be read: go on behind it
                todo.append(some[got + 1 :])
            words = buffer.tolist()
            for place in range(got):
                index, last = words[12 * place + 9], words[12 * place + 11]
                if valid(index, last) and (index + 1) * ALIGNMENT in pools:
                    pools[(index + 1) * ALIGNMENT].append(some[place])
                    if near is not None:
                        near.add(some[place] & -ARENA)
                        for half in (4, 6):  # nextpool, prevpool
                            near.add((words[12 * place + half] | words[12 * place + half + 1] << 32) & -ARENA)
            yield

    def _look(
        self, buffer: "array[int]", place: int, pool: int, size: int, before: int, ids: Set[int],
        found: Deque[Any], dead: Deque[Any],
    ) -> None:  # fmt: skip
        """Pick the objects out of one pool that was read."""
        first = (place * POOL + HEADER + before) // 8
        kinds = buffer[first + 1 : (place + 1) * (POOL // 8) : size // 8].tolist()
        ids = ids.intersection(kinds)
        if not ids:
            return
        likely = []
        for number, kind in enumerate(kinds):
            if kind in ids and 0 < buffer[first + number * (size // 8)] < 1 << 40:
                likely.append(pool + HEADER + before + number * size)
        for at in range(0, len(likely), BATCH):
            self._take(likely[at : at + BATCH], ids, found, dead)

    def _take(self, likely: List[int], ids: Set[int], found: Deque[Any], dead: Deque[Any]) -> None:
        """Keep weak references to those of `likely` that are live objects now."""
        for _ in range(TRIES):
            with Alone():
                # Where a type has died another may have got its address, even one without weak references.
                ids = {one for one in ids if self._types[one]() is not None}
                sure, proof = self._alive.sure(likely, ids)
                if not sure:
                    return
                refs = map(weakref.ref, objects_at(sure), repeat(dead.append))
                try:
                    # The memory is compared once more, and the references are taken, by one call of a C function:
                    # nothing can be freed in between.
                    found.extend(list(chain(proof, refs))[PROOFS:])
                    return
                except KeyError as error:
                    if error.args != (False,):
                        raise


def valid(index: int, last: int) -> bool:
    """Whether a size class and the last offset of a pool's header fit each other."""
    return index < LARGEST // ALIGNMENT and last == POOL - (index + 1) * ALIGNMENT


def round_up(size: int, to: int) -> int:
    """Return the next multiple of `to`, a power of two."""
    return (size + to - 1) & -to


def inline_size(slots: int) -> int:
    """Return the bytes that attribute slots take inside an instance."""
    return round_up(slots, 8) + 8 * (slots + 1)
