"""Storages: tensors that share one block of memory on one device, with its size and what backs it."""

import bisect
import time
from array import array
from typing import Any, Dict, List, Optional

from tensortui.agent.census import Work
from tensortui.agent.guard import not_alone
from tensortui.agent.maps import read_mappings
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.read import Facts
from tensortui.agent.rows import Table, cell, number
from tensortui.agent.tensor_impl import POINTERS, STORAGE, small
from tensortui.wire.messages import STORAGE_COLUMNS

MEMORY, SHARED, FILE, NOTHING = range(4)  # messages.BACKINGS
ADDRESS, BYTES, BACKING = ([name for name, _ in STORAGE_COLUMNS].index(one) for one in ("address", "bytes", "backing"))
MAPS_EVERY = 2.0


class Size:
    """Finds the size of a storage in the StorageImpl itself: `untyped_storage()` would leave an object behind."""

    DATA, NBYTES = 16, 48  # offsets in StorageImpl; checked against a tensor whose numbers are known

    def __init__(self, torch: Any) -> None:
        """Check the layout on one small tensor of our own, which is gone again when this returns."""
        not_alone()
        self.exact = False
        self.pointer: Optional[int] = None  # offset of the pointer from the Python tensor to the C++ one, where known
        try:
            inner = torch._C
            self._memory = Memory()
            probe = small(torch)
            at = inner._storage_id(probe)
            word = self._memory.word
            self.exact = word(at + self.DATA) == inner._data_address(probe) and word(at + self.NBYTES) == 37
            likely = [one for one in POINTERS if word(word(id(probe) + one) + STORAGE * WORD) == at]
            self.pointer = likely[0] if self.exact and likely else None
        except Exception:
            self.exact = False

    def of(self, storage_id: int, tensor: Any) -> Optional[int]:
        """Return the bytes of the storage of `tensor`; None where they cannot be read.

        The caller holds the tensor, but torch may give it another storage without the interpreter lock: this one may be
        gone by now. So it is read by a system call that cannot fault.
        """
        words = self._memory.words(storage_id + self.NBYTES, 1) if self.exact else []
        return words[0] if words and words[0] < 1 << 56 else None


class Maps:
    """The memory map of this process: which addresses belong to shared memory or to a file."""

    def __init__(self) -> None:
        """Start unread."""
        self.begun = 0  # how often it has been read, or is being
        self.known = 0  # which of these what is known comes from
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
        self.begun = number_ = self.begun + 1
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
        self.known = number_

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


class Block:
    """Memory that several StorageImpls lie over, as numpy and DLPack make them: it is as large as the largest."""

    __slots__ = ("_impls", "_rest", "_sizes", "_users")

    def __init__(self, impl: int, users: int, size: int) -> None:
        """Begin with the StorageImpl that all tensors have used so far."""
        self._rest = impl  # of the tensors that have not been read since
        self._impls: Dict[int, int] = {}  # by tensor
        self._users = {impl: users}
        self._sizes = {impl: size}

    @property
    def size(self) -> int:
        """The bytes of the largest StorageImpl."""
        return max(self._sizes.values())

    @property
    def only(self) -> Optional[int]:
        """The StorageImpl that is left, None where there are several."""
        return next(iter(self._users)) if len(self._users) == 1 else None

    def read(self, tensor: int, impl: int, size: int, new: bool) -> None:
        """Take in what was read of a tensor, which is `new` here or not."""
        before = None if new else self._impls.get(tensor, self._rest)
        self._impls[tensor] = impl
        self._sizes[impl] = size
        if before != impl:
            self._users[impl] = self._users.get(impl, 0) + 1
            if before is not None:
                self._drop(before)

    def leave(self, tensor: int) -> None:
        """A tensor is gone, or uses other memory."""
        self._drop(self._impls.pop(tensor, self._rest))

    def _drop(self, impl: int) -> None:
        self._users[impl] -= 1
        if not self._users[impl]:
            del self._users[impl], self._sizes[impl]


class Storages:
    """Gives every (device, address) its id for as long as a tensor uses it; ids are never reused."""

    def __init__(self, table: Table) -> None:
        """Start with none; rows go to `table`."""
        self._table = table
        self._maps = Maps()
        self._ids: Dict[str, int] = {}
        self._keys: Dict[int, str] = {}
        self._users: Dict[int, int] = {}
        self._impls: Dict[int, int] = {}  # the StorageImpl, where there is no more than one
        self._blocks: Dict[int, Block] = {}  # where there are several
        self._unsettled: Dict[int, int] = {}  # those that no map has been read for yet, with how many had been before
        self._settled_by = 0
        self._next_id = 1

    def use(self, tensor: int, facts: Facts, old: Optional[int]) -> Optional[int]:
        """Return the id of the storage that a tensor uses by `facts`, having used `old`; None where it has none."""
        new = self._find(facts)
        if new is not None:
            size = self._size(new, tensor, facts, new == old)
            device = self._table.dictionary("device").index(facts.device)
            self._table.put((new, device, number(facts.address), size, self._backing(new, facts)))
        if new != old:
            if new is not None:
                self._users[new] += 1
            self.leave(tensor, old)
        return new

    def leave(self, tensor: int, old: Optional[int]) -> None:
        """End the use that a tensor made of `old`; a storage that nobody uses any more is gone."""
        if old is None:
            return
        self._users[old] -= 1
        if not self._users[old]:
            del self._users[old], self._ids[self._keys.pop(old)]
            for one in (self._impls, self._blocks, self._unsettled):
                one.pop(old, None)
            self._table.drop(old)
        elif old in self._blocks:
            self._blocks[old].leave(tensor)
            self._change(old, BYTES, self._close(old, self._blocks[old]))

    def _find(self, facts: Facts) -> Optional[int]:
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
        return known

    def _size(self, known: int, tensor: int, facts: Facts, here: bool) -> int:
        """Return the size of a storage by what was read of a tensor, which has been `here` before or not."""
        impl, size = facts.storage_id or 0, number(facts.nbytes)
        block = self._blocks.get(known)
        if block is None:
            only = self._impls.setdefault(known, impl)
            if only == impl:
                return size
            if self._users[known] == here:  # it is alone: one StorageImpl took the place of the other
                self._impls[known] = impl
                return size
            before = cell(self._table.rows[known], BYTES)
            block = self._blocks[known] = Block(only, self._users[known], before)
        block.read(tensor, impl, size, not here)
        return self._close(known, block)

    def _close(self, known: int, block: Block) -> int:
        """Return the size of a block, which is none any more where one StorageImpl is left."""
        if block.only is not None:
            self._impls[known] = block.only
            del self._blocks[known]
        return block.size

    # -- what backs them

    def _backing(self, known: int, facts: Facts) -> int:
        row = self._table.rows.get(known)
        if row is not None:
            return cell(row, BACKING)
        if not facts.address:
            return NOTHING
        if facts.device != "cpu":
            return MEMORY
        self._unsettled[known] = self._maps.begun
        return self._maps.backing(facts.address)

    def settle(self) -> Work:
        """Say what backs the new storages, by a map whose reading began after they were first seen."""
        if self._unsettled or not self._maps.begun:
            yield from self._maps.read()
        if self._settled_by == self._maps.known:
            return
        self._settled_by = self._maps.known
        for known in list(self._unsettled):
            if self._unsettled.get(known, self._settled_by) < self._settled_by:
                del self._unsettled[known]
                self._change(known, BACKING, self._maps.backing(cell(self._table.rows[known], ADDRESS)))
            yield

    def _change(self, known: int, place: int, value: int) -> None:
        cells = array("q", self._table.rows[known])
        if cells[place] != value:
            cells[place] = value
            self._table.put(tuple(cells))
