"""Rows of the gradients that no Python object stands for: those that a backward has made and nobody has asked for.

They are told from memory alone. To ask torch for one would make it a Python object, and is not safe while other threads
run: see gradients.py.
"""

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from tensortui.agent.census import Census, Tracked, Work
from tensortui.agent.dense import Dense
from tensortui.agent.read import CPP_ONLY, META, Facts
from tensortui.agent.rows import Table, cell
from tensortui.wire.messages import GRADIENT, NONE, TENSOR_COLUMNS

DTYPE, DEVICE, FLAGS = ([name for name, _ in TENSOR_COLUMNS].index(one) for one in ("dtype", "device", "flags"))
CHUNK = 8  # rows that are dropped between two yields

# Quoted, for typing would keep our class.
Place = Tuple["Tracked", int, int]  # a leaf, and where its C++ tensor and its gradient's lie


class Gradient(Tracked):
    """A gradient without a Python object. It has no reference, so that none stops an exchange of its leaf."""

    __slots__ = ("address", "seen", "turn")

    def __init__(self, number: int, born: float, address: int) -> None:
        """Start with one that lies at an address."""
        Tracked.__init__(self, number, weakref.ref(set()), 0, born)
        self.found = GRADIENT
        self.cpp_only = True
        self.address = address
        self.seen = b""  # what its row was made from
        self.turn = 0


class Unwrapped:
    """Keeps a row for each of them, as long as it is the gradient of the same leaf and lies at the same address."""

    def __init__(
        self,
        torch: Any,
        census: Census,
        table: Table,
        put: Callable[[Tracked, Facts], None],
        drop: Callable[[Tracked], None],
    ) -> None:
        """Start with none; `put` and `drop` change rows, of which those of the leaves are in `table`."""
        self._dense = Dense(torch)
        self._census = census
        self._table = table
        self._put, self._drop = put, drop
        self._turn = 0
        self.by_leaf: Dict[int, Gradient] = {}  # by the number of the leaf

    def begin(self) -> None:
        """Begin to look through all leaves: what is not shown before `end` is gone."""
        self._turn += 1

    def is_shown(self, leaf: Tracked, address: int) -> bool:
        """Whether there is a row for the gradient of `leaf` at an address."""
        known = self.by_leaf.get(leaf.id)
        return known is not None and known.address == address

    def find(self, number: int) -> Optional[Gradient]:
        """Return the gradient whose row has a number."""
        return next((one for one in self.by_leaf.values() if one.id == number), None)

    def look(self, places: List[Place]) -> List[bytes]:
        """Return what is there, b"" where that is not certain. The leaves must be alive."""
        if not self._dense.usable or not places:
            return [b""] * len(places)
        found = self._dense.look([address for _, _, address in places])
        new = [at for at, (leaf, _, address) in enumerate(places) if not self._is_known(leaf, address, found[at])]
        for at, own in zip(new, self._dense.look([places[at][1] for at in new])):
            if not self._dense.alike(found[at], own):
                found[at] = b""
        return found

    def _is_known(self, leaf: Tracked, address: int, seen: bytes) -> bool:
        known = self.by_leaf.get(leaf.id)
        return known is not None and known.address == address and known.seen == seen

    def keep(self, leaf: Tracked, address: int, seen: bytes, name: str) -> bool:
        """Whether the row of a gradient is still right, by what `look` returned: then it stays."""
        known = self.by_leaf.get(leaf.id)
        if known is None or known.address != address or known.seen != seen or known.names != name:
            return False
        known.turn = self._turn
        return True

    def show(self, leaf: Tracked, address: int, seen: bytes, name: str) -> bool:
        """Make or change the row of a gradient, by what `look` returned; False where that makes no sense."""
        facts = self._facts(leaf, seen)
        if facts is None:
            return False
        known = self.by_leaf.get(leaf.id)
        if known is not None and known.address != address:
            self._drop(self.by_leaf.pop(leaf.id))
            known = None
        if known is None:
            known = self.by_leaf[leaf.id] = Gradient(self._census.number(), self._census.clock(), address)
        known.seen, known.names, known.turn = seen, name, self._turn
        self._put(known, facts)
        return True

    def _facts(self, leaf: Tracked, seen: bytes) -> Optional[Facts]:
        row = self._table.rows.get(leaf.id)
        if row is None:
            return None
        facts = self._dense.facts(seen)
        facts.dtype, facts.device = self._of("dtype", cell(row, DTYPE)), self._of("device", cell(row, DEVICE))
        facts.flags = CPP_ONLY | cell(row, FLAGS) & META
        return facts if facts.dtype is not None and self._dense.fits(facts, facts.dtype) else None

    def _of(self, column: str, place: int) -> Any:
        return None if place == NONE else self._table.dictionary(column).entries[place]

    def end(self) -> Work:
        """Drop the rows of those that are gone, were replaced or have got a Python object; yields between pieces."""
        gone = [leaf for leaf, known in self.by_leaf.items() if known.turn != self._turn]
        for place, leaf in enumerate(gone):
            if not place % CHUNK:
                yield
            self._drop(self.by_leaf.pop(leaf))
