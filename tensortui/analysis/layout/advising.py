"""What the layout of a tensor suggests doing, in one sentence, or nothing: conditions are said, never guessed away."""

from __future__ import annotations

from tensortui.analysis.layout.place import LayoutError, Place
from tensortui.analysis.layout.words import kind
from tensortui.analysis.units import format_bytes
from tensortui.model import Tensor

_HALVES = ("float16", "bfloat16")
_LARGE = 1 << 20
_WIDEST_KERNEL = 11


def advice(tensor: Tensor) -> str:
    """One sentence for a tensor, "" where its layout asks for nothing."""
    try:
        place = Place.of(tensor)
    except LayoutError:
        return ""
    if not place.numel:
        return ""
    what = kind(place)
    if what.expanded and place.bytes >= _LARGE:
        own = format_bytes(place.distinct_bytes)
        return (
            f"contiguous() or an in-place write would need {format_bytes(place.bytes)} where {own} do: keep it expanded"
        )
    if what.memory_format == "contiguous":
        return _channels_last(tensor, place)
    if what.memory_format == "other" and what.overlapping:
        return "several indices are one element: write to a clone(), not to this"
    return ""


def _channels_last(tensor: Tensor, place: Place) -> str:
    """Convolutions on tensor cores take halves in channels_last; whether one reads this the shape alone cannot say."""
    dims = len(place.shape)
    if dims not in (4, 5) or place.dtype not in _HALVES or not place.device.startswith("cuda"):
        return ""
    channels, area = place.shape[1], place.shape[2:]
    if channels == 1 or all(size == 1 for size in area):
        return ""
    form = "channels_last" if dims == 4 else "channels_last_3d"
    if tensor.category == "parameter":
        if max(area) > _WIDEST_KERNEL:
            return ""
        return f"if this is the weight of a convolution: model.to(memory_format=torch.{form}) suits tensor cores"
    return f"if a convolution reads this: .to(memory_format=torch.{form}), and the model too, suits tensor cores"
