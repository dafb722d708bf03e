"""The bytes of sparse tensors, found in the tensors that they consist of.

Every torch function that tells of them gives up the interpreter lock, and with a reference in our hand the target
could find alive what it has just deleted. So the C++ object itself is read, by a system call that cannot fault.
"""

from typing import Any, List, Optional, Tuple

from tensortui.agent.guard import not_alone
from tensortui.agent.memory import Memory
from tensortui.agent.tensor_impl import NBYTES, POINTERS, STORAGE, small

PARTS = {
    "sparse_coo": 2,
    "sparse_csr": 3,
    "sparse_csc": 3,
    "sparse_bsr": 3,
    "sparse_bsc": 3,
}  # dense tensors, by layout
FIRST, LAST = 22, 48  # words of a sparse TensorImpl between which the pointers to its parts lie


class SparseSize:
    """Sums up what the index and value tensors of a sparse tensor keep. `usable` is False where none can be read."""

    def __init__(self, torch: Any) -> None:
        """Learn what a dense tensor looks like from a small one of our own, gone again when this returns."""
        not_alone()
        self.usable = False
        self._pointer = 0  # offset of the pointer to the TensorImpl in a Python tensor
        self._kind = 0  # first word of every dense TensorImpl: its virtual table
        try:
            self._memory = Memory()
            probe = small(torch)
            storage = torch._C._storage_id(probe)
            for offset in POINTERS:
                at = self._memory.words(id(probe) + offset, 1)
                dense = self._memory.words(at[0], STORAGE + 1) if at else []
                if dense and dense[STORAGE] == storage and self._memory.words(storage, NBYTES + 1)[NBYTES] == 37:
                    self._pointer, self._kind, self.usable = offset, dense[0], True
                    return
        except Exception:
            self.usable = False

    def of(self, tensor: Any, layout: str) -> Optional[int]:
        """Return the bytes of the storages of `tensor`'s parts; None where they are not where they should be."""
        expected = PARTS.get(layout)
        if expected is None or not self.usable:
            return None
        at = self._memory.words(id(tensor) + self._pointer, 1)
        parts, total = self.behind(at[0]) if at else (0, 0)
        return total if parts == expected else None

    def behind(self, address: int) -> Tuple[int, int]:
        """Return how many parts the C++ tensor at `address` has, and their bytes; none where it is not sparse."""
        words = self._memory.words(address, LAST) if self.usable else []
        storages: List[int] = []  # of the parts, one after the other
        for word in words[FIRST:]:
            dense = self._memory.words(word, STORAGE + 1)
            if dense and dense[0] == self._kind:
                storages.append(dense[STORAGE])
            elif storages:
                break
        total = sum((self._memory.words(one, NBYTES + 1) or [1 << 62])[-1] for one in set(storages))
        return (len(storages), total) if len(storages) in PARTS.values() and total < 1 << 56 else (0, 0)
