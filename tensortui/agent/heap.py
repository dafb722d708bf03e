"""Search the memory of this process for pointers: what holds an object has its address in it.

The memory is read by the kernel's copy, which cannot fault, and searched by memmem, at about 10 GB/s; no object is
touched and no list of them made. Only what is in memory now is read: pages that were never used, or are swapped out,
stay as they are.
"""

import ctypes
import os
from array import array
from typing import Dict, List, Set, Tuple

from tensortui.agent.census import Work
from tensortui.agent.descriptors import Held
from tensortui.agent.guard import APART
from tensortui.agent.maps import read_mappings
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.poolscan import HEADER, POOL, valid

PIECE = 256 << 10  # bytes that are read at once: they stay in the cache while they are searched
PAGE = 4096
PAGES = 8192  # of whose presence is asked at once
NEEDLE = 5  # bytes of an address, the lowest: the upper ones are the same in all of them and slow the search down
MOST = 2_000  # places of one word
OFTEN = 100  # of them between two pieces of work
PRESENT = bytes(one >> 7 for one in range(256))  # of the highest byte of an entry of /proc/self/pagemap

Hit = Tuple[int, int]  # where a word was found, and the word


class Heap:
    """The private writable memory of this process, as far as it is there. `size` is how many bytes are searched."""

    def __init__(self, memory: Memory, skipped: List[Tuple[int, int]]) -> None:
        """Leave out the (first, behind the last) addresses in `skipped`, as the contents of large tensors."""
        self._memory = memory
        self._skipped = sorted(skipped)
        self._scratch = array("Q", bytes(PIECE))
        # Address and length, in turns: where small objects of Python lie, and all else.
        self._pools: array[int] = array("Q")
        self._rest: array[int] = array("Q")
        self.size = 0
        find = self._find = ctypes.PyDLL(None).memmem
        find.restype = ctypes.c_void_p
        find.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def survey(self) -> Work:
        """Find out what there is to search; raises OSError where the memory map cannot be read."""
        ranges: List[Tuple[int, int]] = []

        def take(low: int, high: int, modes: str, _: str) -> None:
            if modes == "rw-p":
                ranges.append((low, high))

        yield from read_mappings(take)
        self._pools, self._rest = array("Q"), array("Q")
        self.size = 0
        file = Held()
        yield APART
        try:
            file.take(os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            pass
        try:
            yield  # what follows allocates
            for low, high in self._without_skipped(ranges):
                yield from self._add(low, high, file)
            yield APART
        finally:
            file.close()
        yield

    def _without_skipped(self, ranges: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
        """Cut what is skipped out of the ranges; both are in the order of their addresses."""
        found = []
        place = 0
        for low, high in ranges:
            at = low
            while place < len(self._skipped) and self._skipped[place][1] <= low:
                place += 1
            for first, end in self._skipped[place:]:
                if first >= high:
                    break
                if first > at:
                    found.append((at, first & -WORD))
                at = max(at, (end + WORD - 1) & -WORD)
            if at < high:
                found.append((at, high))
        return found

    def _add(self, low: int, high: int, file: Held) -> Work:
        """Add what is present of a range, as pieces."""
        for start in range(low & -PAGE, high, PAGES * PAGE):
            count = min(PAGES, (high - start + PAGE - 1) // PAGE)
            present = b"\1" * count
            if file.fd >= 0:
                yield APART
                said = os.pread(file.fd, 8 * count, start // PAGE * 8)[7::8].translate(PRESENT)
                present = said if len(said) == count else present
                yield  # what follows allocates
            first = present.find(b"\1")
            while first >= 0:
                end = present.find(b"\0", first)
                end = count if end < 0 else end
                self._cut(max(low, start + first * PAGE), min(high, start + end * PAGE))
                first = present.find(b"\1", end)
            yield

    def _cut(self, low: int, high: int) -> None:
        self.size += high - low
        header = array("I", bytes(HEADER))
        for at in range(low, high, PIECE):
            pool = (at + POOL - 1) & -POOL
            got = self._memory.read(array("Q", [pool, HEADER]), header) if pool + HEADER <= high else 0
            into = self._pools if got == HEADER and valid(header[9], header[11]) else self._rest
            into.append(at)
            into.append(min(PIECE, high - at))

    def search(self, words: List[int], found: List[Hit], pools: bool) -> Work:
        """Append where each of `words` lies to `found`, up to MOST places each; yields between pieces of 0.1 ms.

        With `pools` only where small objects of Python lie, else everywhere else.
        """
        pieces = self._pools if pools else self._rest
        needles: Dict[bytes, Set[int]] = {}
        for word in words:
            needles.setdefault(word.to_bytes(8, "little")[:NEEDLE], set()).add(word)
        left = dict.fromkeys(words, MOST)
        scratch, base = self._scratch, self._scratch.buffer_info()[0]
        for place in range(0, len(pieces), 2):
            start, length = pieces[place : place + 2]
            got = max(self._memory.read(array("Q", [start, length]), scratch), 0)
            for needle, wanted in list(needles.items()):
                at, count = self._find(base, got, needle, NEEDLE), 0
                while at:
                    where = at - base
                    word = scratch[where // WORD]
                    if not where % WORD and word in wanted and not base <= start + where < base + PIECE:
                        found.append((start + where, word))
                        left[word] -= 1
                        if not left[word]:
                            wanted.discard(word)
                            if not wanted:
                                del needles[needle]
                                break
                    count += 1
                    if not count % OFTEN:
                        yield
                    at = self._find(at + 1, base + got - at - 1, needle, NEEDLE)
            yield
