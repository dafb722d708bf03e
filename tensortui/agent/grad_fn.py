"""The name of the node that made a tensor, told without touching the node.

Torch sets `grad_fn` without holding the interpreter lock, as when an operation changes a tensor in place, so reading it
beside that is a race; and each node that Python has touched gets an object that makes the graph's end deeper. So the
pointers are followed in memory, by a system call that cannot fault, down to the name of the node's C++ class.
"""

import re
from typing import Any, Dict, List, Optional, Tuple

from tensortui.agent import nodes
from tensortui.agent.poolscan import Memory

WORD = 8
SOUGHT = 40  # words of a C++ object in which a pointer is looked for
NEAR = 12  # words of its autograd data: what comes later may belong to a neighbour
LONGEST = 512  # bytes of a mangled name
PYTHON = "PyNode"  # a node that is written in Python: its name is known to torch alone
_LENGTH = re.compile(r"\d+")


class NodeNames:
    """Finds names of nodes. `usable` is False where this torch keeps them in another way."""

    def __init__(self, torch: Any) -> None:
        """Learn it from a small graph of our own, gone again when this returns."""
        self.usable = False
        self._offsets: Tuple[int, ...] = ()  # from the Python object to the C++ tensor, its autograd data, its node
        self._names: Dict[int, str] = {}  # by the address of the virtual table
        try:
            self._memory = Memory()
            functions = torch._C._VariableFunctions
            leaf = functions.empty(1, device="cpu", requires_grad=True)
            self.usable = self._learn(torch, functions.mul(leaf, leaf), functions.neg(leaf))
        except Exception:
            self.usable = False

    def _learn(self, torch: Any, first: Any, second: Any) -> bool:
        """Follow all pointers from the first tensor that lead to its node; the second tells the right ones."""
        base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        node = nodes.pointer(base.__dict__["grad_fn"].__get__(first))
        if node is None:
            return False
        for pointer in (2 * WORD, 3 * WORD):
            for place, word in enumerate(self._words(self._word(id(first) + pointer))):
                for behind, found in enumerate(self._words(word)[:NEAR]):
                    self._offsets = (pointer, place * WORD, behind * WORD)
                    if found == node and (self.of(first), self.of(second)) == ("MulBackward0", "NegBackward0"):
                        return True
        return False

    def _word(self, address: int) -> int:
        likely = address > 1 << 16 and not address % WORD
        return (self._memory.words(address, 1) or [0])[0] if likely else 0

    def _words(self, address: int) -> List[int]:
        """Return the words at an address, as many as there are before memory that cannot be read."""
        for count in (SOUGHT, SOUGHT // 2, SOUGHT // 4):
            words = self._memory.words(address, count) if address > 1 << 16 and not address % WORD else []
            if words:
                return words
        return []

    def of(self, tensor: Any) -> Optional[str]:
        """Return the class name of the node behind `tensor`, None where there is none; PYTHON for one of Python."""
        at = id(tensor)
        for offset in self._offsets:
            at = self._word(at + offset)
            if not at:
                return None
        table = self._word(at)
        name = self._names.get(table)
        if name is None and table:
            name = self._name(table)
            if name is not None:
                self._names[table] = name
        return name

    def _name(self, table: int) -> Optional[str]:
        """Return the last part of the mangled name that the type information before a virtual table points to."""
        text = self._word(self._word(table - WORD) + WORD)
        start = text & -WORD
        for size in (LONGEST, 128, 64):
            words = self._memory.words(start, size // WORD) if text > 1 << 16 else []
            if words:
                data = b"".join(word.to_bytes(WORD, "little") for word in words)[text - start :]
                return plain_name(data.partition(b"\0")[0])
        return None


def plain_name(mangled: bytes) -> Optional[str]:
    """Return the class that a mangled name such as `N5torch8autograd10CopySlicesE` ends with; None for another form."""
    if not mangled.isascii():
        return None
    text = mangled.decode("ascii").lstrip("*")
    place, name = int(text.startswith("N")), None
    while True:
        found = _LENGTH.match(text, place)
        if found is None:
            return name
        place = found.end() + int(found.group())
        name = text[found.end() : place]
        if len(name) != int(found.group()) or not name.isidentifier():
            return None
