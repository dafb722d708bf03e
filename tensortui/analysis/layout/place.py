"""Where a tensor lies in its storage: all that the questions about a layout are asked of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

from tensortui.analysis.units import format_bytes
from tensortui.model import Storage, Tensor
from tensortui.model.strided import PACKED, byte_count, distinct_count, extent, is_contiguous, itemsize

READ_LAZILY = {
    "conj": "conj: the memory holds the complex conjugate of what the program sees; reading conjugates",
    "neg": "neg: the memory holds the negative of what the program sees; reading negates",
}


_WITHOUT_MEMORY = ("fake", "meta", "subclass")


def has_memory(tensor: Tensor) -> bool:
    """Whether what is read of a tensor is read from a storage of its own, which can be too small for it."""
    return not any(flag in tensor.flags for flag in _WITHOUT_MEMORY)


class LayoutError(ValueError):
    """What was asked cannot be answered, or cannot be done; the text says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Place:
    """Shape, strides and offset in elements, of a dtype on a device. `lazy` names what reading it does to the values.

    Two of one place cover the same bytes in the same order. `room` is how many bytes the storage has, if known.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    dtype: str = "float32"
    device: str = "cpu"
    lazy: tuple[str, ...] = ()
    room: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, tensor: Tensor, storage: Storage | None = None) -> Place:
        """The place of a tensor on its storage; LayoutError for one that has none."""
        if tensor.shape is None or tensor.strides is None or tensor.offset is None:
            kind = next((flag for flag in ("nested", "sparse", "subclass") if flag in tensor.flags), None)
            what = f"a {kind} tensor" if kind else "this tensor"
            raise LayoutError(f"{what} has no strides: its elements do not lie at fixed steps")
        if itemsize(tensor.dtype) is None:
            raise LayoutError(f"the size of an element of {tensor.dtype or 'an unknown dtype'} is not known")
        if len(tensor.shape) != len(tensor.strides):
            raise LayoutError("shape and strides were read at different moments: look again")
        lazy = tuple(flag for flag in READ_LAZILY if flag in tensor.flags)
        room = storage.bytes if storage is not None and has_memory(tensor) else None
        return cls(tensor.shape, tensor.strides, tensor.offset, tensor.dtype or "", tensor.device or "cpu", lazy, room)

    @property
    def itemsize(self) -> int:
        """Bytes of an element; packed elements share them."""
        return itemsize(self.dtype) or 1

    @property
    def packed(self) -> int:
        """How many elements share a byte; 1 for every dtype but the two packed ones."""
        return PACKED.get(self.dtype, 1)

    @property
    def quantised(self) -> bool:
        """Whether its elements are integers that stand for scaled numbers."""
        return self.dtype.startswith(("qint", "quint"))

    @property
    def numel(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Elements times their size."""
        return byte_count(self.shape, self.dtype) or 0

    @property
    def end(self) -> int:
        """The first byte of the storage behind all that it reaches; 0 where it has no element."""
        if not self.numel:
            return 0
        if self.packed > 1:
            return self.bytes
        return (self.offset + extent(self.shape, self.strides)) * self.itemsize

    @property
    def contiguous(self) -> bool:
        """What `is_contiguous()` says."""
        return is_contiguous(self.shape, self.strides)

    @property
    def distinct_bytes(self) -> int | None:
        """Bytes with each address counted once; None where that is too large to count."""
        if self.packed > 1:
            return self.bytes if self.contiguous else None
        count = _distinct_count(self.shape, self.strides)
        return None if count is None else count * self.itemsize


# What takes a while to count is asked for again and again.
_distinct_count = lru_cache(maxsize=64)(distinct_count)


def retained(tensor: Tensor, storage: Storage, live_bytes: int | None) -> str:
    """How much of its storage a tensor shows, and whether it keeps the rest for nothing; "" where it shows all.

    `live_bytes` are those that any tensor on the storage reaches.
    """
    own, whole = tensor.distinct_bytes, storage.bytes
    if not own or not whole or own >= whole or storage.backing == "none":
        return ""
    shown, size = format_bytes(own), format_bytes(whole)
    if live_bytes == own:
        return f"shows {shown} and keeps the whole storage of {size} alive"
    if live_bytes is not None and live_bytes < whole:
        return f"shows {shown} of a storage of {size}, all tensors on it together {format_bytes(live_bytes)}"
    return f"shows {shown} of a storage of {size}"
