"""Records as a source would make them, from the few fields that a test is about."""

from itertools import count

import pytest

from tensortui.model import Process, Sample, Storage, Tensor
from tensortui.model.strided import layout


class Builder:
    """Makes samples of one process: `storage` and `tensor` add records, `sample` takes them as they are now."""

    def __init__(self) -> None:
        self.storages: dict[int, Storage] = {}
        self.tensors: dict[int, Tensor] = {}
        self._ids = count(1)
        self._seq = count(1)

    def storage(self, size, *, device="cpu", backing="memory", address=None) -> int:
        number = next(self._ids)
        self.storages[number] = Storage(number, device, address or number << 40, size, backing)
        return number

    def tensor(self, storage=None, shape=(4,), strides=None, offset=0, *, name=None, tid=None, **more) -> int:
        tid = tid or next(self._ids)
        dtype = more.pop("dtype", "float32")
        if strides is None and shape is not None:
            strides = [1] * len(shape)
            for dim in range(len(shape) - 2, -1, -1):
                strides[dim] = strides[dim + 1] * shape[dim + 1]
        total, distinct, contiguous, form, own = layout(shape, strides, dtype)
        fields = {
            "id": tid,
            "storage": storage,
            "names": tuple(more.pop("names", (name,) if name else ())),
            "type": "Tensor",
            "shape": shape,
            "strides": None if strides is None else tuple(strides),
            "offset": offset,
            "dtype": dtype,
            "device": "cpu" if storage is None else self.storages[storage].device,
            "layout": "strided",
            "bytes": total,
            "distinct_bytes": distinct,
            "contiguous": contiguous,
            "memory_format": form,
            "flags": (*more.pop("flags", ()), *own),
            "requires_grad": False,
            "is_leaf": True,
            "version": 0,
            "grad_fn": None,
            "category": "other",
        }
        self.tensors[tid] = Tensor(**{**fields, **more})
        return tid

    def sample(self, **more) -> Sample:
        return Sample(
            next(self._seq), 1000.0, Process(7), storages=dict(self.storages), tensors=dict(self.tensors), **more
        )


@pytest.fixture
def build() -> Builder:
    return Builder()
