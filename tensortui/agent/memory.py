"""The memory of this process, read by a system call that neither faults nor gives up the interpreter lock."""

import ctypes
import functools
import operator
import os
from array import array
from itertools import chain, starmap
from typing import Any, Iterable, Iterator, List

from tensortui.agent.guard import ONLY_TRUE

WORD = 8
LOWEST, HIGHEST = 1 << 16, 1 << 56  # no object lies below the first, or beyond the second
PROOFS = 2  # what `Memory.unchanged` gives


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


@functools.lru_cache(maxsize=1)
def _function() -> Any:
    """Return the system call, looked up once in the beginning: loading the library may give up the interpreter lock."""
    return ctypes.PyDLL(None).process_vm_readv


class Memory:
    """Reads this process's own memory without ever faulting, and without giving up the GIL."""

    def __init__(self) -> None:
        """Look the function up; raises AttributeError or OSError where the platform has none."""
        self._call = call = _function()
        call.restype = ctypes.c_ssize_t
        call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, *[ctypes.c_ulong] * 2]
        self._pid = os.getpid()
        self._kept: Any = None

    def read(self, places: "array[int]", buffer: "array[int]") -> int:
        """Read the (address, length) pairs of `places` into `buffer`; return how many bytes came, -1 for none."""
        local = Vector(buffer.buffer_info()[0], len(buffer) * buffer.itemsize)
        count = len(places) // 2
        return int(self._call(self._pid, ctypes.addressof(local), 1, places.buffer_info()[0], count, 0))

    def unchanged(self, places: "array[int]", expected: "array[int]") -> Iterator[None]:
        """Return an iterator, written in C throughout, that reads `places` once more when it is gone through.

        It raises KeyError(False) where other words come than those `expected`, and gives `PROOFS` times None.
        """
        again = array("Q", bytes(WORD * len(expected)))
        local = Vector(again.buffer_info()[0], WORD * len(expected))
        call = (self._pid, ctypes.addressof(local), 1, places.buffer_info()[0], len(places) // 2, 0)
        calls, lengths, arrays, wanted = (call,), (WORD * len(expected),), (again,), (expected.tobytes(),)
        parts = (starmap(self._call, calls), map(bytes, arrays))
        came, same = map(operator.eq, parts[0], lengths), map(operator.eq, parts[1], wanted)
        proofs = (map(ONLY_TRUE, came), map(ONLY_TRUE, same))
        # The call knows the first two by their addresses alone. And none of all these may go while the iterator is gone
        # through: what is looked at by it could be one of them.
        self._kept = (places, local, calls, lengths, arrays, wanted, parts, came, same, proofs)
        return chain(*proofs)

    def words(self, address: int, count: int) -> List[int]:
        """Read `count` words at one address, under the GIL; [] where that is impossible or it is no pointer."""
        if not is_pointer(address):
            return []
        buffer = array("Q", bytes(WORD * count))
        got = self.read(array("Q", [address, WORD * count]), buffer)
        return buffer.tolist() if got == WORD * count else []

    def word(self, address: int) -> int:
        """Read one word; 0 where that is impossible."""
        return (self.words(address, 1) or [0])[0]

    def words_up_to(self, address: int, count: int) -> List[int]:
        """Read as many of `count` words as there are before memory that cannot be read."""
        if not is_pointer(address):
            return []
        buffer = array("Q", bytes(WORD * count))
        got = self.read(pairs(range(address, address + WORD * count, WORD), WORD), buffer)
        return buffer.tolist()[: max(got, 0) // WORD]

    def follow(self, addresses: List[int], offset: int) -> List[int]:
        """Return the words that lie `offset` behind the addresses, 0 for an address that is none."""
        likely = [one for one in addresses if is_pointer(one)]
        buffer = array("Q", bytes(WORD * len(likely)))
        got = self.read(pairs([one + offset for one in likely], WORD), buffer) if likely else 0
        if got == WORD * len(likely):
            words = dict(zip(likely, buffer))
        else:
            words = {one: self.word(one + offset) for one in likely}
        return [words.get(one, 0) for one in addresses]

    def blocks(self, addresses: List[int], count: int) -> List[bytes]:
        """Return `count` words from each of the addresses, in one call if it can be; b"" of one that cannot be read."""
        likely = list(filter(is_pointer, addresses))
        buffer = array("Q", bytes(WORD * count * len(likely)))
        if likely and self.read(pairs(likely, WORD * count), buffer) != len(buffer) * WORD:
            return [array("Q", self.words(one, count)).tobytes() for one in addresses]
        read, size = buffer.tobytes(), WORD * count
        parts = [read[at : at + size] for at in range(0, len(read), size)]
        if len(likely) == len(addresses):
            return parts
        following = iter(parts)
        return [next(following) if is_pointer(one) else b"" for one in addresses]


def is_pointer(word: int) -> bool:
    """Whether `word` may be the address of a C or C++ object."""
    return LOWEST <= word < HIGHEST and not word % WORD


def pairs(addresses: Iterable[int], length: int) -> "array[int]":
    """Return the iovec array for pieces of one length."""
    flat = array("Q")
    for address in addresses:
        flat.append(address)
        flat.append(length)
    return flat
