"""The name of the node that made a tensor, told without touching the node.

Torch sets `grad_fn` without holding the interpreter lock, as when an operation changes a tensor in place, so reading it
beside that is a race; and each node that Python has touched gets an object that makes the graph's end deeper. So the
pointers are followed in memory, by a system call that cannot fault, down to the name of the node's C++ class.
"""

import re
from typing import Any, Dict, Optional, Tuple

from tensortui.agent import nodes
from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.tensor_impl import POINTERS, routes

HEAD = 5  # words of a node: its virtual table, a pointer to itself, its sequence number, the length of its path
LONGEST = 512  # bytes of a mangled name
PYTHON = "PyNode"  # a node that is written in Python: its name is known to torch alone
_LENGTH = re.compile(r"\d+")


class NodeNames:
    """Finds names of nodes. `usable` is False where this torch keeps them in another way."""

    def __init__(self, torch: Any) -> None:
        """Learn it from a small graph of our own, gone again when this returns."""
        not_alone()
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
        for pointer in POINTERS:
            for route in routes(self._memory, first, pointer, node):
                self._offsets = route
                if (self.of(first), self.of(second)) == ("MulBackward0", "NegBackward0"):
                    return True
        return False

    def of(self, tensor: Any) -> Optional[str]:
        """Return the class name of the node behind `tensor`, None where there is none; PYTHON for one of Python."""
        at = id(tensor)
        for offset in self._offsets:
            at = self._memory.word(at + offset)
            if not at:
                return None
        table = self._memory.word(at)
        name = self._names.get(table)
        if name is None and table:
            name = self._name(table)
            if name is not None:
                self._names[table] = name
        return name

    def mark(self, address: int) -> Optional[Tuple[int, ...]]:
        """Return what tells the node behind the tensor at `address` from all others that live or lived; None for none.

        That is its own address with its first words: its sequence number is among them.
        """
        at = address
        for offset in self._offsets:
            at = self._memory.word(at + offset)
            if not at:
                return None
        return (at, *self._memory.words(at, HEAD))

    def _name(self, table: int) -> Optional[str]:
        """Return the last part of the mangled name that the type information before a virtual table points to."""
        text = self._memory.word(self._memory.word(table - WORD) + WORD)
        start = text & -WORD
        words = self._memory.words_up_to(start, LONGEST // WORD)
        data = b"".join(word.to_bytes(WORD, "little") for word in words)[text - start :]
        return plain_name(data.partition(b"\0")[0])


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
