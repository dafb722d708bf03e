"""Which tensor is the gradient of which, told without reading `.grad`.

Reading `.grad` while another thread of the target is inside torch, where it goes without the interpreter lock, has
crashed torch 2.13 (a count of references went wrong), also when no backward ran. So the pointers are followed in
memory, by a system call that cannot fault, from a parameter to its gradient, and to the Python object of that. One
that has no Python object yet is told from memory as well (unwrapped.py), where it is a dense tensor; else it could only
be had from torch, which is never asked: nothing tells for certain that no thread is inside torch in that moment.
"""

from typing import Any, List, Optional, Set, Tuple

from tensortui.agent.alive import Alive
from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.owned import MARK
from tensortui.agent.sparse import SparseSize
from tensortui.agent.tensor_impl import NBYTES, POINTERS, SOUGHT, STORAGE, Pair, routes, with_gradient

MOST_BYTES = 1 << 48
# Where a C++ tensor lies, its gradient, and the Python object of that; and whether the gradient keeps that alive.
Found = Tuple[int, int, Optional[int], bool]


class GradientPointers:
    """Where torch keeps a tensor's gradient. `usable` is False where that is not certain."""

    def __init__(self, torch: Any) -> None:
        """Learn it from small tensors of our own, gone again when this returns."""
        not_alone()
        self.usable = False
        self._offsets: Tuple[int, ...] = ()  # from the Python object to the C++ one, its autograd data, the gradient
        self._slot = 0  # from a C++ tensor to its Python object
        try:
            self._memory = Memory()
            self._alive = Alive(self._memory)
            self._sparse = SparseSize(torch)
            first, second = with_gradient(torch), with_gradient(torch)
            self._none = 0
            self.usable = self._learn(torch._C._storage_id(first[1]), first, second) and self._learn_none(torch)
        except Exception:
            self.usable = False

    def _learn(self, storage: int, first: Pair, second: Pair) -> bool:
        """Follow all pointers from the first tensor that lead to its gradient; the second tells the right ones."""
        for pointer in POINTERS:
            inner = self._memory.word(id(first[1]) + pointer)
            words = self._memory.words_up_to(inner, SOUGHT)
            if storage not in words or id(first[1]) not in words:
                continue
            self._slot = words.index(id(first[1])) * WORD
            for route in routes(self._memory, first[0], pointer, inner):
                self._offsets = route
                if self.of([*map(id, first), *map(id, second)]) == [id(first[1]), 0, id(second[1]), 0]:
                    return True
        return False

    def _learn_none(self, torch: Any) -> bool:
        """Learn the one C++ object that stands for no gradient, where there is nothing else that could."""
        blank = torch._C._VariableFunctions.empty(1, device="cpu", requires_grad=True)
        found = [id(blank)]
        for offset in self._offsets:
            found = self._memory.follow(found, offset)
        self._none = found[0]
        return self.of([id(blank)]) == [0]

    def of(self, objects: List[int]) -> List[Optional[int]]:
        """Return the address of the Python object of each tensor's gradient, given those of the tensors.

        It is 0 where there is no gradient, and None where one has no Python object.
        """
        return [wrapped for _, _, wrapped, _ in self.all_of(objects)]

    def all_of(self, objects: List[int]) -> List[Found]:
        """Return the addresses of the C++ objects too: of each tensor, and of its gradient (0 where there is none)."""
        own = found = self._memory.follow(objects, self._offsets[0])
        for offset in self._offsets[1:]:
            found = self._memory.follow(found, offset)
        wrapped = self._memory.follow(found, self._slot)
        found = [0 if one == self._none else one for one in found]
        places = [one & -WORD or (None if inner else 0) for inner, one in zip(found, wrapped)]
        return list(zip(own, found, places, [bool(one & MARK) for one in wrapped]))

    def object_of(self, tensor: Any, kinds: Set[int]) -> Any:
        """Return the Python object of the gradient of `tensor`, None where there is none to be had. Only `Alone`.

        Its type must be one of those at the addresses `kinds`, and it must not be C++ that keeps it alive (owned.py).
        """
        if not self.usable:
            return None
        _, _, place, marked = self.all_of([id(tensor)])[0]
        return next(iter(self._alive.take([place], kinds)), None) if place and not marked else None

    def bytes_of(self, objects: List[int]) -> int:
        """Return the bytes of the storages of those tensors' gradients, told without Python objects for them."""
        found = objects
        for offset in self._offsets:
            found = self._memory.follow(found, offset)
        storages = self._memory.follow(found, STORAGE * WORD)
        sizes = self._memory.follow(list(set(storages)), NBYTES * WORD)  # several gradients may lie on one storage
        sizes += [self._sparse.behind(one)[1] for one, storage in zip(found, storages) if not storage]
        return sum(one for one in sizes if one < MOST_BYTES)
