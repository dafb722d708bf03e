"""The tensors that a graph was read with, as its messages describe them: they may be gone before any sample."""

from __future__ import annotations

from typing import Any

from tensortui.model import Storage, Tensor
from tensortui.model.strided import Work, layout
from tensortui.sources.tables import MAX_WORK, clean_dims, clean_shape, clean_text, flag_names, integer

MAX_HELD = 4096  # of one node


class Held:
    """Tensors and storages that only the graph tells of. Storages get ids below zero, apart from those of samples."""

    def __init__(self) -> None:
        """Start empty."""
        self.tensors: dict[int, Tensor] = {}
        self.storages: dict[int, Storage] = {}
        self._work = Work(MAX_WORK)
        self._known: dict[tuple[str, int, int], int] = {}

    def add(self, entries: Any) -> None:
        """Take what one node tells; anything that is not as it should be is left out."""
        for entry in entries[:MAX_HELD] if isinstance(entries, list) else ():
            tensor = self._tensor(entry) if isinstance(entry, list) and len(entry) >= 10 else None
            if tensor is not None:
                self.tensors[tensor.id] = tensor

    def _tensor(self, entry: list[Any]) -> Tensor | None:
        number, shape, strides, offset, dtype, device, kind, bits, address, size = entry[:10]
        if integer(number) is None or number < 0:
            return None
        dtype, device, kind = clean_text(dtype), clean_text(device), clean_text(kind)
        sizes, steps = clean_shape(shape), clean_dims(strides)
        total, distinct, contiguous, form, own = layout(sizes, steps, dtype, self._work)
        return Tensor(
            number,
            self._storage(device, address, size),
            (),
            "Tensor",
            sizes,
            steps,
            None if integer(offset) is None or offset < 0 else offset,
            dtype,
            device,
            kind,
            total,
            distinct,
            contiguous,
            form,
            flag_names(integer(bits) or 0, own),
            None,
            None,
            None,
            None,
            "saved",
            False,
        )

    def _storage(self, device: str | None, address: Any, size: Any) -> int | None:
        if device is None or integer(address) is None or integer(size) is None or address <= 0 or size < 0:
            return None
        key = (device, address, size)
        if key not in self._known:
            number = self._known[key] = -1 - len(self._known)
            self.storages[number] = Storage(number, device, address, size)
        return self._known[key]
