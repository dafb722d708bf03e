"""A sample with those tensors of a graph added that it does not have: of a step that is over by then."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from tensortui.model import Graph, Sample, Storage, Tensor

# What lives as long as the training does: an address that one of these has still had it when the graph was read.
_LASTING = ("parameter", "buffer", "optimizer")


def complete(graph: Graph, sample: Sample) -> Sample:
    """`sample` itself where it has every tensor that `graph` describes.

    Added storages have no address: it may have been used again by now, and would be taken for shared memory.
    """
    missing = [tensor for number, tensor in graph.tensors.items() if number not in sample.tensors]
    if not missing:
        return sample
    known = _lasting(sample)
    storages: dict[int, Storage] = dict(sample.storages)
    tensors: dict[int, Tensor] = dict(sample.tensors)
    where = _now(graph, sample)
    for tensor in missing:
        number = tensor.storage
        found = graph.storages.get(number) if number is not None else None
        if found is not None and number is not None:
            number = where.get(number) or known.get((found.device, found.address, found.bytes), number)
            if number == found.id:
                storages[number] = replace(found, address=None)
        tensors[tensor.id] = replace(tensor, storage=number)
    # It is no sample of the source: whoever follows changes must not take it for the one after the last.
    return replace(sample, seq=-1, tensors=MappingProxyType(tensors), storages=MappingProxyType(storages))


def _now(graph: Graph, sample: Sample) -> dict[int, int]:
    """The storages of the sample in which described tensors lie that are still there, by what the graph calls them."""
    where = {}
    for number, tensor in graph.tensors.items():
        now = sample.tensors.get(number)
        if now is not None and now.storage is not None and tensor.storage is not None:
            where[tensor.storage] = now.storage
    return where


def _lasting(sample: Sample) -> dict[tuple[str, int | None, int | None], int]:
    numbers = {tensor.storage for tensor in sample.tensors.values() if tensor.category in _LASTING}
    return {
        (one.device, one.address, one.bytes): one.id
        for number in numbers
        if number is not None and (one := sample.storages.get(number)) is not None
    }
