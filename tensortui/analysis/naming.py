"""What a sentence calls a tensor."""

from __future__ import annotations

from tensortui.analysis.text import safe
from tensortui.model import Tensor


def label(tensor: Tensor) -> str:
    """How a title calls a tensor: its first name, else what it is."""
    if tensor.names:
        return safe(tensor.names[0])
    shape = "n/a" if tensor.shape is None else str(tensor.shape)
    return f"a nameless tensor of shape {shape}"


def expression(tensor: Tensor) -> str:
    """How the program itself may write a tensor: its first name without where it was found; "" where it has none."""
    if not tensor.names or " of " in tensor.names[0]:
        return ""
    return safe(tensor.names[0].partition(" @ ")[0])
