"""Which addresses hold live objects: told from memory alone, proven in the moment in which a reference is taken."""

import ctypes
from array import array
from itertools import chain
from typing import Any, Iterator, List, Set, Tuple

from tensortui.agent.guard import Alone
from tensortui.agent.memory import PROOFS, Memory, pairs

GC_HEAD = 16
TRIES = 3
MASK = ~3  # the collector keeps flags in the low bits of a link back


def objects_at(addresses: List[int]) -> "ctypes.Array[ctypes.py_object[Any]]":
    """Return the objects at `addresses`, which must be alive: each access to an element makes a new reference."""
    return (ctypes.py_object * len(addresses)).from_buffer(array("Q", addresses))


class Alive:
    """Tells live objects that the collector tracks from whatever else their memory may hold."""

    def __init__(self, memory: Memory) -> None:
        """Read with `memory`."""
        self._memory = memory

    def take(self, likely: List[int], ids: Set[int]) -> List[Any]:
        """Return those of the objects at `likely` that are alive now. The caller is `Alone` and drops them in that."""
        for _ in range(TRIES):
            with Alone():
                sure, proof = self.sure(likely, ids)
                try:
                    return list(chain(proof, objects_at(sure)))[PROOFS:] if sure else []
                except KeyError as error:
                    if error.args != (False,):
                        raise
        return []

    def sure(self, likely: List[int], ids: Set[int]) -> Tuple[List[int], Iterator[None]]:
        """Return those addresses at which a tracked object of one of the types lives, as far as memory can tell.

        With them comes an iterator that looks again when it is gone through: it raises KeyError(False) unless types and
        reference counts are what they were, and gives `PROOFS` times None. (The collector's links may change by what
        we allocate ourselves meanwhile.)
        """
        heads = array("Q", bytes(32 * len(likely)))
        places = pairs([address - GC_HEAD for address in likely], 32)
        if self._memory.read(places, heads) != 32 * len(likely):
            return self._one_by_one(likely, ids)
        sure = []
        again = array("Q")
        for place, address in enumerate(likely):
            after, back, count, kind = heads[4 * place : 4 * place + 4]
            if kind in ids and 0 < count < 1 << 40 and after > 1 << 16 and back & MASK > 1 << 16 and not after & 7:
                sure.append(address)
                again.extend((address - GC_HEAD, 32, after, 16, back & MASK, 16))
        if not sure:
            return [], iter(())
        words = array("Q", bytes(64 * len(sure)))
        if self._memory.read(again, words) != 64 * len(sure):
            return self._one_by_one(sure, ids)
        live: List[int] = []
        checked, expected = array("Q"), array("Q")
        for place, address in enumerate(sure):
            at = address - GC_HEAD
            seen = words[8 * place : 8 * place + 8]
            after, back, count, kind, _, after_prev, back_next, _ = seen
            asked = again[6 * place : 6 * place + 6]
            linked = after_prev & MASK == at and back_next == at and (after, back & MASK) == (asked[2], asked[4])
            if kind in ids and 0 < count < 1 << 40 and linked:
                live.append(address)
                checked.extend((address, 16))
                expected.extend((count, kind))
        return live, self._memory.unchanged(checked, expected)

    def _one_by_one(self, likely: List[int], ids: Set[int]) -> Tuple[List[int], Iterator[None]]:
        """Do the same where some of the memory cannot be read."""
        if len(likely) == 1:
            return [], iter(())
        return self.sure([one for each in likely for one in self.sure([each], ids)[0]], ids)
