"""To which nodes a node leads, and how deep these lie, told from memory before any of them is touched.

To ask a node for its successors gives each of them an object, however many there are, and what it takes to free a deep
chain grows with each (see `nodes`). So it is known before how many there would be, and how deep.
"""

import ctypes
from array import array
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from tensortui.agent.memory import WORD, Memory, is_pointer
from tensortui.agent.node_hooks import address_of
from tensortui.agent.nodes import NO_SEQUENCE, Key, pointer, sequence

PYTHON = "PyNode"  # a node that is written in Python: its name is known to torch alone

WORDS = 24  # of a node that are looked through
WIDTHS = (2, 3)  # words of an edge: a pointer, what counts its references in older torch, and which input it leads to
MOST = 1 << 24  # edges: more are no vector of them


class Ahead(NamedTuple):
    """A node that was not touched: its address with its sequence number, and the longest path below it.

    One `by_python` has an object anyway, and is known by the address of that.
    """

    key: Key
    length: int
    by_python: bool


class Edges:
    """Reads the edges of nodes. `usable` is False where this torch keeps them in another way."""

    def __init__(self, memory: Memory, path: int, name_of: Callable[[int], Optional[str]]) -> None:
        """Where the edges are is not known yet; `path` is the word of a node with the length of its path.

        `name_of` gives the class by the address of a virtual table.
        """
        self.usable = False
        self._memory = memory
        self._name_of = name_of
        self._place = self._width = 0
        self._own = 0  # in the Python object of a node written in Python: from where on it points to its own
        self._two = ctypes.c_uint64 * 2
        self._path = path

    def learn(self, nodes: List[Tuple[Any, List[int]]]) -> None:
        """Find the vector of edges in some nodes of which it is known where their edges lead to."""
        path = self._path
        for place in range(path + 1, WORDS - 1):
            for width in WIDTHS:
                self._place, self._width = place, width
                if all(self._read(pointer(node) or 0) == expected for node, expected in nodes):
                    self.usable = True
                    return

    def address_of(self, node: Any) -> Optional[int]:
        """Return where a node written in Python lies; None where that is not certain.

        What one points to its own with is in the same place in all of them: to seek it takes ten times as long.
        """
        at = self._memory.word(id(node) + self._own) if self._own else 0
        own = self.at(at) if at else None
        if own is not None and own.by_python and own.key[1] == sequence(node):
            return at
        found = address_of(self._memory, node)
        if found is not None:
            self._own = WORD * self._memory.words(id(node), type(node).__basicsize__ // WORD).index(found)
        return found

    def count(self, address: int) -> int:
        """Return how many edges the node at `address` has, which must be held."""
        begin, end = self._two.from_address(address + WORD * self._place)
        return int(end - begin) // (WORD * self._width)

    def at(self, address: int) -> Optional[Ahead]:
        """Return what the node at `address` is."""
        return self.of(address, self._memory.words(address, self._path + 1))

    def ahead(self, address: int) -> Optional[List[Ahead]]:
        """Return what the edges of the node at `address` lead to; None where that cannot be told."""
        found = self._read(address)
        if found is None:
            return None
        there = [one for one in dict.fromkeys(found) if one]
        blocks = self._memory.blocks(there, self._path + 1)
        nodes = [self.of(at, array("Q", block)) for at, block in zip(there, blocks)]
        return None if None in nodes else [one for one in nodes if one is not None]

    def of(self, address: int, words: Sequence[int]) -> Optional[Ahead]:
        """Return what the first words of a node tell of it; None where there are none."""
        if len(words) <= self._path or not self._path:
            return None
        number, length = words[self._path - 1], words[self._path]
        ended = number >= NO_SEQUENCE
        return Ahead((address, number), 0 if ended else length, self._name_of(words[0]) == PYTHON)

    def _read(self, address: int) -> Optional[List[int]]:
        """Return the addresses that the edges of a node lead to, 0 for an input that needs no gradient."""
        words = self._memory.words(address + WORD * self._place, 2)
        if not words or words[1] < words[0]:
            return None
        count, odd = divmod(words[1] - words[0], WORD * self._width)
        if odd or count > MOST:
            return None
        if not count:
            return []
        edges = self._memory.words(words[0], self._width * count)
        found = edges[:: self._width]
        if len(edges) != self._width * count or not all(one == 0 or is_pointer(one) for one in found):
            return None
        return found
