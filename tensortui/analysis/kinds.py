"""What tensors are, apart from which ones: the kind that groups them over time, and over two documents."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from tensortui.analysis.grouping import NO_HOLDER, holder_of, without_line
from tensortui.model import Tensor

_NUMBER = re.compile(r"\d+")


class Kind(NamedTuple):
    """What the tensors of a group have in common. `name` is that of the first with its numbers left out."""

    name: str
    holder: str
    category: str
    shape: tuple[int, ...] | None
    dtype: str | None
    device: str | None

    @property
    def place(self) -> Place:
        """What it shares with tensors of any name and category."""
        return self[3:]


Place: TypeAlias = tuple[tuple[int, ...] | None, str | None, str | None]  # shape, dtype, device


def kind_of(tensor: Tensor) -> Kind:
    """What a tensor is, apart from which one."""
    name = pattern_of(tensor.names[0]) if tensor.names else ""
    return Kind(name, holder_in(name), tensor.category, tensor.shape, tensor.dtype, tensor.device)


def pattern_of(name: str) -> str:
    """A name without what differs between siblings, and between two moments: its numbers, and the line of a frame."""
    path, at, frame = name.partition(" @ ")
    return _NUMBER.sub("*", path) + (at + without_line(frame) if at else "")


@lru_cache(1 << 12)
def holder_in(pattern: str) -> str:
    """Who holds the tensors of this pattern, numbers left out there too."""
    return _NUMBER.sub("*", holder_of(pattern)) if pattern else NO_HOLDER


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two records are of one kind and size as far as that can be seen at once."""
    return (
        one.names == other.names
        and one.shape == other.shape
        and one.category == other.category
        and one.bytes == other.bytes
        and one.dtype == other.dtype
        and one.device == other.device
    )
