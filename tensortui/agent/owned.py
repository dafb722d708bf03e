"""Which Python tensors do not keep their C++ tensors alive, but are kept alive by them: before torch 2.10.

When the last reference from Python to such a tensor goes while C++ still refers to it, torch turns the ownership round,
and marks that in the C++ tensor. From then on a reference of ours to the Python object is worth nothing: a backward,
which runs without the interpreter lock, may let go of the C++ tensor while it is looked at, and the process ends by a
segmentation fault (seen with torch 2.8 within seconds). As long as the lock is ours the mark cannot come: torch sets it
when the last reference goes, and we have one.
"""

from typing import Any

from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.tensor_impl import POINTERS, SOUGHT, with_gradient

MARK = 1  # in the pointer from the C++ tensor to the Python object
UNREAD = "tensors that only C++ keeps alive are not read: this torch does not let that be done safely: %d"


class Ownership:
    """Tells it from memory. `turns` is False where torch never turns it round, or not in this way."""

    def __init__(self, torch: Any) -> None:
        """Learn it from a small tensor of our own, gone again when this returns."""
        not_alone()
        self.turns = False
        self._pointer = self._slot = 0  # from the Python object to the C++ one, and back
        try:
            self._memory = Memory()
            self.turns = self._learn(torch)
        except Exception:
            self.turns = False

    def _learn(self, torch: Any) -> bool:
        owner, tensor = with_gradient(torch)
        address = id(tensor)
        for pointer in POINTERS:
            inner = self._memory.word(address + pointer)
            words = self._memory.words_up_to(inner, SOUGHT)
            if address in words:
                self._pointer, self._slot = pointer, words.index(address) * WORD
                break
        else:
            return False
        before = self.by_cpp(address)
        del tensor  # what refers to it from now on is the C++ owner alone
        turned = self._memory.word(inner + self._slot) == address | MARK
        del owner
        return not before and turned

    def by_cpp(self, address: int) -> bool:
        """Whether the C++ tensor keeps the Python one at `address` alive, which is in the hand of the caller."""
        inner = self._memory.word(address + self._pointer)
        return self._memory.word(inner + self._slot) == address | MARK

    def is_safe(self, address: int) -> bool:
        """Whether torch may be asked about the tensor at `address`, which the caller has in hand. Only `Alone`."""
        return not self.turns or not self.by_cpp(address)
