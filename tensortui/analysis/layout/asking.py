"""What is typed to ask where something lies: an index, a byte of the storage, an element of it, or an address."""

from __future__ import annotations

import re
from typing import NamedTuple

from tensortui.analysis.layout.place import LayoutError
from tensortui.analysis.units import parse_bytes

HELP = (
    "type an index as [1, 2, 3], a byte of the storage as byte 4096, an element as offset 12, or an address as 0x7f.."
)
_LONGEST = 400
_WORD = re.compile(
    r"(byte|bytes|b|offset|element|el|address|addr)\s*[:=]?\s+(.+)|(byte|offset|element|address)[:=](.+)"
)
_INDEX = re.compile(r".*\[([-+\d_,\s]*)\]|\(([-+\d_,\s]*)\)|([-+\d_,\s]+)")  # a name before [ ] says nothing
_NUMBER = re.compile(r"0x[\da-f_]+|\d[\d_,]*")


class Index(NamedTuple):
    """An element by its index."""

    at: tuple[int, ...]


class Byte(NamedTuple):
    """A byte of the storage."""

    at: int


class Offset(NamedTuple):
    """An element of the storage, counted from its start in the tensor's dtype."""

    at: int


class Address(NamedTuple):
    """A place in the memory of the process or device."""

    at: int


Asked = Index | Byte | Offset | Address


def parse(text: str) -> Asked:
    """What `text` asks for; LayoutError says how to write it."""
    text = text.strip().lower()
    if not text or len(text) > _LONGEST:
        raise LayoutError(HELP)
    match = _WORD.fullmatch(text)
    if match is not None:
        word, number = match[1] or match[3], _number(match[2] or match[4])
        if word.startswith("b"):
            return Byte(number)
        return Address(number) if word.startswith("a") else Offset(number)
    if re.fullmatch(r"0x[\da-f_]+", text):
        return Address(_number(text))
    match = _INDEX.fullmatch(text)
    if match is None:
        raise LayoutError(f"{text!r} is not understood: {HELP}")
    return Index(_integers(next(group for group in match.groups() if group is not None)))


def _integers(text: str) -> tuple[int, ...]:
    words = text.replace(",", " ").split()
    try:
        return tuple(int(word) for word in words)
    except ValueError:
        raise LayoutError(f"an index is whole numbers, as [1, -2, 3], not {text.strip()!r}") from None


def _number(text: str) -> int:
    text = text.strip()
    if _NUMBER.fullmatch(text):
        try:
            return int(text.replace(",", ""), 16 if text.startswith("0x") else 10)
        except ValueError:
            pass
    size = parse_bytes(text)
    if size is None:
        raise LayoutError(f"{text!r} is no number: write 4096, 0x1000 or 4KiB")
    return size
