"""Copies that PyTorch refuses, or that would read memory that is not the tensor's own."""

from __future__ import annotations

import re

from tensortui.analysis.layout.place import LayoutError, Place
from tensortui.analysis.units import format_bytes
from tensortui.model import Process

# Only memory of these can be made, and viewed as other dtypes.
_WITHOUT_COPIES = re.compile(r"u?int[1-7]")
_WITHOUT_CONVERSIONS = re.compile(r"bits\d+(x\d)?|float4_\w+")


def refuse(source: Place, result: Place) -> None:
    """LayoutError where `source` cannot be copied to `result`."""
    if result.device == "meta":
        if source.quantised:
            raise LayoutError("meta has no quantised tensors")
        return
    if source.device == "meta":
        raise LayoutError("a meta tensor has no data to copy: to_empty() of a module makes memory for it")
    if not source.numel:
        return
    if source.dtype == result.dtype:
        if _WITHOUT_COPIES.fullmatch(source.dtype) and not _as_bytes(source, result):
            raise LayoutError(f"PyTorch copies no {source.dtype}: view(uint8) can be copied")
    else:
        for dtype in (source.dtype, result.dtype):
            if _WITHOUT_COPIES.fullmatch(dtype) or _WITHOUT_CONVERSIONS.fullmatch(dtype):
                raise LayoutError(f"PyTorch converts nothing to or from {dtype}")
    if reaches_beyond(source):
        raise LayoutError(f"{_too_short(source)}: a copy would read beyond it, and can crash")


def _as_bytes(source: Place, result: Place) -> bool:
    """Whether a GPU has part in it and both lie alike: what is copied then is memory, of whatever dtype."""
    there = {place.device.partition(":")[0] for place in (source, result)} != {"cpu"}
    return there and source.strides == result.strides and source.distinct_bytes == source.bytes


def reaches_beyond(place: Place) -> bool:
    """Whether a tensor needs more than its storage has, as after a `resize_` of the storage."""
    return place.room is not None and place.device != "meta" and place.end > place.room


def refuse_beyond(place: Place) -> None:
    """LayoutError where PyTorch makes no such view, because it would reach beyond the storage."""
    if reaches_beyond(place):
        raise LayoutError(f"{_too_short(place)}: PyTorch makes no such view of it")


def _too_short(place: Place) -> str:
    return f"the storage has {format_bytes(place.room)}, {format_bytes(place.end)} are needed"


def absent_devices(process: Process) -> frozenset[str]:
    """The kinds of device that the PyTorch of a process is known to be built without."""
    version, _, build = (process.torch or "").partition("+")
    if not version or process.cuda is not None:
        return frozenset()
    if build == "cpu":
        return frozenset(("cuda", "mps", "xpu"))
    return frozenset() if build else frozenset(("cuda",))  # ROCm, which goes by the name of cuda, names its build
