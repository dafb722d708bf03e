"""Storages: tensors that share one block of memory on one device, with its size and what backs it."""

import bisect
import ctypes
import time
from typing import Any, Dict, List, Optional

from tensortui.agent.census import Work
from tensortui.agent.maps import read_mappings
from tensortui.agent.read import Facts
from tensortui.agent.rows import Row, Table, number
from tensortui.agent.sparse import small

MEMORY, SHARED, FILE, NOTHING = range(4)  # messages.BACKINGS
MAPS_EVERY = 2.0


class Size:
    """Finds the size of a storage in the StorageImpl itself: `untyped_storage()` would leave an object behind."""

    DATA, NBYTES = 16, 48  # offsets in StorageImpl; checked against a tensor whose numbers are known

    def __init__(self, torch: Any) -> None:
        """Check the layout on one small tensor of our own, which is gone again when this returns."""
        self.exact = False
        try:
            inner = torch._C
            probe = small(torch)
            at = inner._storage_id(probe)
            word = ctypes.c_int64.from_address
            self.exact = word(at + self.DATA).value == inner._data_address(probe) and word(at + self.NBYTES).value == 37
        except Exception:
            self.exact = False

    def of(self, storage_id: int, tensor: Any) -> Optional[int]:
        """Return the bytes of the storage of `tensor`, which the caller holds; None where they cannot be read."""
        if not self.exact:
            return None
        size = ctypes.c_int64.from_address(storage_id + self.NBYTES).value
        return size if 0 <= size < 1 << 56 else None


class Maps:
    """The memory map of this process: which addresses belong to shared memory or to a file."""

    def __init__(self) -> None:
        """Start unread."""
        self._starts: List[int] = []
        self._ends: List[int] = []
        self._kinds: List[int] = []
        self._read_at = float("-inf")

    def read(self) -> Work:
        """Read /proc/self/maps anew, at most every other second; without it everything counts as memory."""
        now = time.monotonic()
        if now - self._read_at < MAPS_EVERY:
            return
        self._read_at = now
        starts: List[int] = []
        ends: List[int] = []
        kinds: List[int] = []

        def take(low: int, high: int, modes: str, path: str) -> None:
            kind = self._kind(modes, path)
            if kind != MEMORY:
                starts.append(low)
                ends.append(high)
                kinds.append(kind)

        try:
            yield from read_mappings(take)
        except (OSError, ValueError):
            return
        self._starts, self._ends, self._kinds = starts, ends, kinds

    @staticmethod
    def _kind(modes: str, path: str) -> int:
        if modes[3:4] == "s" and path.startswith(("/dev/shm", "/memfd:", "/dev/zero", "/SYSV", "anon_inode")):
            return SHARED
        if path.startswith("/") and not path.startswith("/dev/"):
            return FILE if not path.startswith("/memfd:") else SHARED
        return MEMORY

    def backing(self, address: int) -> int:
        """Return what backs the memory at `address`."""
        place = bisect.bisect_right(self._starts, address) - 1
        return self._kinds[place] if place >= 0 and address < self._ends[place] else MEMORY


class Storages:
    """Gives every (device, address) its id for as long as a tensor uses it; ids are never reused."""

    def __init__(self, table: Table, maps: Maps) -> None:
        """Start with none; rows go to `table`."""
        self._table = table
        self._maps = maps
        self._ids: Dict[str, int] = {}
        self._keys: Dict[int, str] = {}
        self._users: Dict[int, int] = {}
        self._backings: Dict[int, int] = {}
        self._next_id = 1

    def find(self, facts: Facts) -> Optional[int]:
        """Return the id of the storage that a tensor with `facts` uses; None where it has none."""
        if not facts.storage_id:
            return None
        # Several StorageImpls may lie over one block (DLPack, numpy); where there is no block, they are all there is.
        place = "@%x" % facts.address if facts.address else "#%x" % facts.storage_id
        key = (facts.device or "") + place
        known = self._ids.get(key)
        if known is None:
            known = self._next_id
            self._next_id += 1
            self._ids[key] = known
            self._keys[known] = key
            self._users[known] = 0
        self._table.put(self._row(known, facts))
        return known

    def _row(self, known: int, facts: Facts) -> Row:
        if not facts.address:
            backing = NOTHING
        elif facts.device == "cpu":
            found = self._backings.get(known)
            backing = self._backings[known] = self._maps.backing(facts.address) if found is None else found
        else:
            backing = MEMORY
        device = self._table.dictionary("device").index(facts.device)
        return (known, device, number(facts.address), number(facts.nbytes), backing)

    def use(self, new: Optional[int], old: Optional[int]) -> None:
        """Move one tensor's use from storage `old` to `new`; a storage that nobody uses any more is gone."""
        if new == old:
            return
        if new is not None:
            self._users[new] += 1
        if old is not None:
            self._users[old] -= 1
            if not self._users[old]:
                del self._users[old]
                del self._ids[self._keys.pop(old)]
                self._backings.pop(old, None)
                self._table.drop(old)
