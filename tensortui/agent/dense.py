"""Dense C++ tensors by their memory alone: shape, strides and storage of those that no Python object leads to.

A backward changes them without the interpreter lock. So what is read may be torn, or of another object that came to the
same address: it counts only where all that can be compared with the tensor's owner agrees, and its storage is as large
as it says.
"""

import sys
from array import array
from math import prod
from typing import Any, Dict, List, Optional, Tuple

from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.read import Facts
from tensortui.agent.tensor_impl import DATA, NBYTES, POINTERS, SOUGHT, STORAGE

INLINE = 5  # dimensions whose sizes and strides lie in the C++ tensor itself
# Behind the number of dimensions: sizes, strides, offset and number of elements. Then comes a word with the dtype in
# two bytes, the device in two, and one that says there is a device.
STRIDES, OFFSET, ELEMENTS, KIND = 1 + INLINE, 1 + 2 * INLINE, 2 + 2 * INLINE, 3 + 2 * INLINE
KIND_BITS = (1 << 40) - 1
MOST_DIMENSIONS = 64
MOST_BYTES = 1 << 48
SEEN = 3  # words that go ahead of those: the storage, its address and its size
SIZES, STEPS, START = (3, 5, 7), (2, 11, 71), 13  # of a small tensor of our own, no two numbers alike
LONG = (2, 3, 4, 5, 6, 7)  # and of one with too many dimensions to be kept inline


class Dense:
    """Reads dense C++ tensors. `usable` is False where it is not certain how torch lays them out."""

    def __init__(self, torch: Any) -> None:
        """Learn it from small tensors of our own, gone again when this returns."""
        not_alone()
        self.usable = False
        self._class = b""  # first word of every dense C++ tensor: its virtual table
        self._at = 0  # word with the number of dimensions
        self._widths: Dict[str, int] = {}  # bytes of an element, by dtype
        try:
            self._memory = Memory()
            self.usable = self._learn(torch)
        except Exception:
            self.usable = False

    def _learn(self, torch: Any) -> bool:
        make = torch._C._VariableFunctions
        whole = make.empty(1000, dtype=torch.float32, device="cpu")
        probe = make.as_strided(whole, SIZES, STEPS, START)
        storage = torch._C._storage_id(probe)
        for pointer in POINTERS:
            at = self._memory.word(id(probe) + pointer)
            words = self._memory.words_up_to(at, SOUGHT)
            if len(words) > STORAGE and words[STORAGE] == storage:
                break
        else:
            return False
        pad = [0] * (INLINE - len(SIZES))
        wanted = [len(SIZES), *SIZES, *pad, *STEPS, *pad, START, prod(SIZES)]
        places = [place for place in range(len(words) - KIND) if words[place : place + KIND] == wanted]
        if len(places) != 1:
            return False
        self._class, self._at = array("Q", words[:1]).tobytes(), places[0]
        kinds = ("float64", "float16", "bfloat16", "complex64", "uint8", "int64")
        tensors = [probe, make.empty(1, dtype=torch.float32, device="cpu", requires_grad=True)]
        tensors += [make.empty(LONG, dtype=getattr(torch, one), device="cpu") for one in kinds]
        tensors.append(make.empty(1, dtype=torch.float32, device="meta"))
        found = self.look([self._memory.word(id(one) + pointer) for one in tensors])
        told = [array("Q", one)[-1] & KIND_BITS for one in found]
        dtypes = [one for one in list(vars(torch).values()) if type(one) is torch.dtype]
        self._widths = {str(one).rpartition(".")[2]: getattr(one, "itemsize", 0) for one in dtypes}
        first, second, third = map(self.facts, found[:3])
        shapes = [(one.shape, one.nbytes) for one in (first, second, third)]
        return (
            told[0] == told[1]
            and len(set(told)) == len(told) - 1
            and shapes == [(SIZES, 4000), ((1,), 4), (LONG, prod(LONG) * 8)]
            and (first.strides, first.offset, first.address) == (STEPS, START, torch._C._data_address(whole))
        )

    def look(self, addresses: List[int]) -> List[bytes]:
        """Return what is known of the C++ tensors at some addresses: the same bytes as long as nothing of it changes.

        b"" of one that is not dense.
        """
        found = self._memory.blocks(addresses, self._at + KIND + 1)
        at, behind = self._at * WORD, STORAGE * WORD + WORD
        storages = [
            int.from_bytes(one[behind - WORD : behind], sys.byteorder) + DATA * WORD if one[:WORD] == self._class else 0
            for one in found
        ]
        return [
            one[behind - WORD : behind] + stored[:WORD] + stored[-WORD:] + one[at:] if stored else b""
            for one, stored in zip(found, self._memory.blocks(storages, NBYTES - DATA + 1))
        ]

    @staticmethod
    def alike(one: bytes, other: bytes) -> bool:
        """Whether two that were looked at are of the same shape, dtype and device, as a gradient and its leaf."""
        if not one or not other:
            return False
        first, second = array("Q", one)[SEEN:], array("Q", other)[SEEN:]
        end = 1 + (first[0] if first[0] <= INLINE else 0)
        same = first[:end] == second[:end] and first[ELEMENTS] == second[ELEMENTS]
        return same and not (first[KIND] ^ second[KIND]) & KIND_BITS

    def facts(self, seen: bytes) -> Facts:
        """Return what `look` saw as a reading of a tensor; without a shape where it makes no sense."""
        words = array("Q", seen)
        facts = Facts()
        facts.type, facts.layout = "Tensor", "strided"
        facts.storage_id, facts.address, facts.nbytes = words[:SEEN]
        own = words[SEEN:]
        lengths = self._lengths(own)
        if lengths is not None and prod(lengths[0]) == own[ELEMENTS] and max(*lengths[1], facts.nbytes, 0) < MOST_BYTES:
            facts.shape, facts.strides = lengths
            facts.offset = own[OFFSET]
        return facts

    def _lengths(self, words: "array[int]") -> Optional[Tuple[Tuple[int, ...], Tuple[int, ...]]]:
        count = words[0]
        if count <= INLINE:
            return tuple(words[1 : 1 + count]), tuple(words[STRIDES : STRIDES + count])
        both = self._memory.words(words[1], 2 * count) if count <= MOST_DIMENSIONS else []
        return (tuple(both[:count]), tuple(both[count:])) if both else None

    def fits(self, facts: Facts, dtype: str) -> bool:
        """Whether the storage of a tensor is as large as its shape and strides need."""
        width = self._widths.get(dtype)
        if not width or facts.shape is None or facts.strides is None or facts.offset is None:
            return False
        if 0 in facts.shape:
            return True
        last = facts.offset + sum((size - 1) * step for size, step in zip(facts.shape, facts.strides))
        return (last + 1) * width <= (facts.nbytes or 0)
