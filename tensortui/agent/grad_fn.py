"""The name of the node that made a tensor, and how deep its graph is, told without touching the node.

Torch sets `grad_fn` without holding the interpreter lock, as when an operation changes a tensor in place, so reading it
beside that is a race; and each node that Python has touched gets an object that makes the graph's end deeper. So the
pointers are followed in memory, by a system call that cannot fault, down to the name of the node's C++ class.
"""

import re
from array import array
from typing import Any, Dict, List, Optional, Tuple

from tensortui.agent import nodes
from tensortui.agent.edges import Ahead, Edges
from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory, is_pointer
from tensortui.agent.node_hooks import NodeHooks
from tensortui.agent.tensor_impl import POINTERS, routes

# Words of a node: its virtual table, its count of references (in older torch a pointer to itself and one to that),
# its sequence number, the length of its path.
HEAD = 5
LONGEST_PATH = 1 << 40  # nodes: no graph is deeper
LONGEST = 512  # bytes of a mangled name
_LENGTH = re.compile(r"\d+")


class NodeNames:
    """Finds names of nodes. `usable` is False where this torch keeps them in another way."""

    def __init__(self, torch: Any) -> None:
        """Learn it from a small graph of our own, gone again when this returns."""
        not_alone()
        self.usable = False
        self._offsets: Tuple[int, ...] = ()  # from the Python object to the C++ tensor, its autograd data, its node
        self._names: Dict[int, str] = {}  # by the address of the virtual table
        self._path = 0  # word of a node with the length of the longest path below it; 0 where that is not certain
        self.hooks: Optional[NodeHooks] = None
        self.edges: Optional[Edges] = None
        try:
            self._memory = Memory()
            self.hooks = NodeHooks(torch, self._memory)
            functions = torch._C._VariableFunctions
            leaf = functions.empty(1, device="cpu", requires_grad=True)
            first, second = functions.mul(leaf, leaf), functions.neg(leaf)
            self.usable = self._learn(torch, first, second)
            if self.usable:
                self._path = self._learn_path([first, second, functions.neg(functions.neg(first))], [1, 1, 3])
                self.edges = self._learn_edges(torch, first, functions.neg(first)) if self._path else None
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

    def _learn_path(self, tensors: List[Any], lengths: List[int]) -> int:
        """Return the word that holds the length: the sequence number is before it, of nodes that were made in turn."""
        marks = [self.mark(id(one)) or () for one in tensors]
        for place in range(3, HEAD + 1):
            told = [one[place : place + 2] for one in marks]
            numbers = [one[0] for one in told]
            if numbers == sorted(set(numbers)) and [one[1:] for one in told] == [(length,) for length in lengths]:
                return place
        return 0

    def _learn_edges(self, torch: Any, first: Any, second: Any) -> Optional[Edges]:
        """Return what reads the edges of nodes: those of the second tensor lead to the first, the first's to a leaf."""
        get = (getattr(torch._C, "TensorBase", None) or torch._C._TensorBase).__dict__["grad_fn"].__get__
        upper, lower = get(second), get(first)
        end = nodes.pointer(lower.next_functions[0][0])
        at = nodes.pointer(lower)
        edges = Edges(self._memory, self._path, self._name_of)
        if end is None or at is None:
            return None
        edges.learn([(upper, [at]), (lower, [end, end])])
        return edges if edges.usable else None

    def ahead(self, address: int) -> Optional[Ahead]:
        """Return what the node behind the tensor at `address` is; None where there is none, or it cannot be told."""
        found = self.mark(address) if self.edges is not None else None
        return None if found is None or self.edges is None else self.edges.of(found[0], found[1:])

    def depths(self, addresses: List[int]) -> List[int]:
        """Return the length of the longest path behind each of the tensors at `addresses`.

        It is 0 where there is none, and where it cannot be told: a tensor may be gone, its memory another's.
        """
        if not self._path:
            return [0] * len(addresses)
        found = addresses
        for offset in self._offsets:
            found = self._memory.follow(found, offset)
        known = list({one for one in found if is_pointer(one)})
        lengths = {}
        for at, block in zip(known, self._memory.blocks(known, self._path + 1)):
            words = array("Q", block)
            if words and words[self._path] < LONGEST_PATH and self._name_of(words[0]) is not None:
                lengths[at] = words[self._path]
        return [lengths.get(one, 0) for one in found]

    def of(self, tensor: Any) -> Optional[str]:
        """Return the class name of the node behind `tensor`, None where there is none; PYTHON for one of Python."""
        at = id(tensor)
        for offset in self._offsets:
            at = self._memory.word(at + offset)
            if not at:
                return None
        return self._name_of(self._memory.word(at))

    def _name_of(self, table: int) -> Optional[str]:
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
