"""The hooks on a node of the autograd graph, and on the tensor that it made: torch tells of them nowhere.

They are in vectors of the C++ node, and those of `retain_grad` in a map. Where these lie is learned from nodes of our
own, by what a hook changes in them; what is not certain is not read. Nothing of a node is touched: it is all read by a
system call that cannot fault.
"""

from collections import OrderedDict
from functools import partial
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from tensortui.agent import nodes
from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory, is_pointer

SOUGHT = 48  # words of a node in which its hooks are looked for
FIRST = 3  # word: before it is what every node begins with
BACK = 80  # words of a C++ node in which its Python object is looked for,
NUMBER = slice(1, 5)  # and those in which its sequence number is
MOST = 256  # hooks of one kind on one node: more are not believed
_DICTIONARIES = (id(dict), id(OrderedDict))


class Vector(NamedTuple):
    """A vector of hooks: its word in the node; of an entry for hooks of Python, the table and its dictionary's word."""

    place: int
    table: int
    hooks: int


def address_of(memory: Memory, node: Any) -> Optional[int]:
    """Return the address of the C++ node; None where that is not certain.

    What a Function of Python made points to its own in one of its last words, and that one points back.
    """
    at = nodes.pointer(node)
    number = nodes.sequence(node) if at is None else 0
    if at is not None or number >> 63:
        return at
    for word in reversed(memory.words(id(node), type(node).__basicsize__ // WORD)):
        there = memory.words_up_to(word, BACK) if is_pointer(word) else []
        if id(node) in there and number in there[NUMBER]:
            return word
    return None


class NodeHooks:
    """Counts the hooks of nodes: none of a kind of which it is not certain where it is kept."""

    def __init__(self, torch: Any, memory: Memory) -> None:
        """Learn it from small graphs of our own, gone again when this returns."""
        not_alone()
        self._memory = memory
        self._base = (getattr(torch._C, "TensorBase", None) or torch._C._TensorBase).__dict__
        self._functions = torch._C._VariableFunctions
        acts = (self._hook_tensor, self._hook_after, self._hook_before)
        found = [self._try(partial(self._learn, act)) for act in acts]
        places = [one.place for one in found if one is not None]
        self.vectors: List[Vector] = [one for one in found if one is not None and places.count(one.place) == 1]
        self.retained: int = self._try(self._learn_retained) or 0  # word with how many outputs retain their gradient
        self._size = max([one.place + 2 for one in self.vectors] + [self.retained]) + 1

    def _try(self, learn: Callable[[], Any]) -> Any:
        try:
            return learn()
        except Exception:
            return None

    def count(self, node: Any) -> Tuple[int, int]:
        """Return how many hooks the program registered on `node` and its outputs, and how many of these retain_grad."""
        at = address_of(self._memory, node)
        words = self._memory.words_up_to(at, self._size) if at is not None else []
        if len(words) < self._size:
            return 0, 0
        hooks = sum(self._count(words, one) for one in self.vectors)
        retained = words[self.retained] if self.retained else 0
        return hooks, retained if retained <= MOST else 0

    def _count(self, words: List[int], vector: Vector) -> int:
        begin, end, limit = words[vector.place : vector.place + 3]
        entries, left = divmod(end - begin, WORD)
        if not is_pointer(begin) or left or end > limit or not 0 < entries <= MOST:
            return 0
        count = 0
        for entry in self._memory.words(begin, entries):
            parts = self._memory.words(entry, vector.hooks + 1)
            if parts and parts[0] == vector.table:
                count += self._used(parts[vector.hooks]) or 0
            else:
                count += bool(parts)  # of C++, as DistributedDataParallel's
        return count

    def _used(self, address: int) -> Optional[int]:
        """Return how many entries the dictionary at `address` has; None where there is none."""
        words = self._memory.words(address, 3)
        return words[2] if words and words[1] in _DICTIONARIES and words[2] <= MOST else None

    # -- learning

    def _made(self, function: str) -> Any:
        leaf = self._functions.empty(2, device="cpu", requires_grad=True)
        return getattr(self._functions, function)(leaf)

    def _node(self, tensor: Any) -> Any:
        return self._base["grad_fn"].__get__(tensor)

    def _words(self, tensor: Any) -> List[int]:
        return self._memory.words_up_to(nodes.pointer(self._node(tensor)) or 0, SOUGHT)

    def _hook_tensor(self, tensor: Any) -> None:
        """Do as `Tensor.register_hook` does, which the program may have replaced."""
        hooks = self._base["_backward_hooks"]
        kept = hooks.__get__(tensor)
        if kept is None:
            kept = OrderedDict()
            hooks.__set__(tensor, kept)
            self._node(tensor)._register_hook_dict(tensor)
        kept[len(kept)] = id

    def _hook_after(self, tensor: Any) -> None:
        self._node(tensor).register_hook(id)

    def _hook_before(self, tensor: Any) -> None:
        self._node(tensor).register_prehook(id)

    def _learn(self, act: Callable[[Any], Any]) -> Optional[Vector]:
        """Find the one vector that gets an entry by the first hook, and another hook in it by the second."""
        tensor = self._made("neg")
        before = self._words(tensor)
        act(tensor)
        after = self._words(tensor)
        found = [
            place
            for place in range(FIRST, min(len(before), len(after)) - 2)
            if before[place : place + 3] == [0, 0, 0]
            and is_pointer(after[place])
            and after[place + 1] == after[place + 2] == after[place] + WORD
        ]
        if len(found) != 1:
            return None
        parts = self._memory.words(self._memory.word(after[found[0]]), 3)
        for hooks in range(1, len(parts)):
            vector = Vector(found[0], parts[0], hooks)
            if self._used(parts[hooks]) == 1 and self._holds(vector, act):
                return vector
        return None

    def _holds(self, vector: Vector, act: Callable[[Any], Any]) -> bool:
        """Whether it is true of a node of another kind too, for as many hooks as there are."""
        tensor = self._made("exp")
        for count in range(3):
            if self._count(self._words(tensor), vector) != count:
                return False
            act(tensor)
        return True

    def _learn_retained(self) -> int:
        """Find the one word that counts the outputs that retain their gradient."""
        outputs = self._functions.unbind(self._functions.empty(3, device="cpu", requires_grad=True))
        seen = [self._words(outputs[0])]
        for one in outputs:
            self._base["retain_grad"](one)
            seen.append(self._words(outputs[0]))
        found = [place for place, told in enumerate(zip(*seen)) if told == (0, 1, 2, 3)]
        return found[0] if len(found) == 1 else 0
