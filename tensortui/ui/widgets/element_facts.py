"""One element: its address by the formula, and which other indices and tensors lead to the same bytes."""

from __future__ import annotations

from itertools import islice
from textwrap import wrap

from textual.content import Content

from tensortui.analysis.layout import Hits, LayoutError, Place, formula, hits
from tensortui.analysis.layout.asking import Address, Asked, Byte, Index, Offset
from tensortui.analysis.text import shorten
from tensortui.analysis.units import format_count
from tensortui.model import Storage, Tensor
from tensortui.model.strided import extent, itemsize
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.looking import Look, place_of
from tensortui.ui.markup import Piece, content

LETTERS = "ijklmnpq"
MATES = 16  # neighbours around a byte that are asked whether they reach it
INDICES = 3


def rule(place: Place) -> str:
    """The address of any element with this tensor's numbers: "0 + i*1 + j*32"."""
    if not place.shape:
        return str(place.offset)
    names = LETTERS if len(place.shape) <= len(LETTERS) else [f"i{dim}" for dim in range(len(place.shape))]
    return " + ".join([str(place.offset), *(f"{n}*{stride}" for n, stride in zip(names, place.strides, strict=False))])


def facts_content(look: Look, lines: int, room: int, glyphs: Glyphs) -> Content:
    """What is known of the element under the cursor, in at most `lines`."""
    place, found = look.place, look.element
    if place is None or found is None:
        return content([])
    letters = ", ".join(LETTERS[: len(place.shape)]) if len(place.shape) <= len(LETTERS) else "..."
    address = f", at 0x{found.address:x}" if found.address is not None else " of the storage"
    text = [
        (f"[{letters}] lies at {rule(place)}", "$dim"),
        (f"{dims_index(found.index)}: {formula(place, found)}", "bold $strong"),
        (f"byte {format_count(found.byte)}{address}", ""),
    ]
    return _lines([*text, *_same_memory(look, place, found.byte, glyphs, room)], lines, room, glyphs)


def dims_index(index: tuple[int, ...]) -> str:
    """An index as Python writes it."""
    return f"[{', '.join(map(str, index))}]"


def _lines(text: list[Piece], lines: int, room: int, glyphs: Glyphs) -> Content:
    """The lines that fit, long ones over several; the last says that there is more."""
    out = [
        (f" {part}" if at == 0 else f"   {part}", style)
        for line, style in text
        for at, part in enumerate(wrap(line, max(room - 4, 16)))
    ]
    if len(out) > lines:
        out = [*out[: max(lines - 1, 1)], (f" {glyphs.ellipsis}", "$dim")]
    return content([piece for line in out for piece in (line, ("\n", ""))])


def _same_memory(look: Look, place: Place, byte: int, glyphs: Glyphs, room: int) -> list[Piece]:
    """The other ways to the byte: of this tensor, then of its neighbours."""
    out: list[Piece] = []
    own = hits(place, byte, INDICES + 1)
    others = [index for index in own.first if index != look.index]
    if others or own.count is None:
        out.append((f"the same memory: {_indices(own, others)} of this tensor", "bold $accent"))
    for mate in _near(look, byte):
        if said := _reached(mate, byte - look.start_of(mate), glyphs, room):
            out.append((f"also {said}", ""))
    return out


def _near(look: Look, byte: int) -> list[Tensor]:
    """Those of its mates that a byte lies between the ends of."""
    mates = (mate for mate in look.mates if mate.id != look.tid and _spans(mate, byte - look.start_of(mate)))
    return list(islice(mates, MATES))


def _spans(mate: Tensor, byte: int) -> bool:
    """Whether a byte lies between the first and the last of a tensor; cheap, for those on it are many at times."""
    size = itemsize(mate.dtype)
    if mate.shape is None or mate.strides is None or mate.offset is None or size is None:
        return False
    return mate.offset * size <= byte < (mate.offset + extent(mate.shape, mate.strides)) * size


def _reached(mate: Tensor, byte: int, glyphs: Glyphs, room: int) -> str:
    other = place_of(mate)
    if other is None:
        return ""
    try:
        found = hits(other, byte, INDICES)
    except LayoutError:
        return ""
    if not found.count and not found.first:
        return ""
    name = shorten(show(name_text(mate), glyphs), max(room // 2, 12), ellipsis=glyphs.ellipsis)
    inside = f", byte {found.within} of it" if found.within else ""
    return f"{name} {_indices(found, list(found.first))}{inside}"


def _indices(found: Hits, indices: list[tuple[int, ...]]) -> str:
    shown = indices[:INDICES] if found.count is None or len(indices) <= INDICES else indices[: INDICES - 1]
    text = " ".join(map(dims_index, shown))
    if found.count is None:
        return f"{text} and others"
    rest = found.count - len(shown) - (len(found.first) - len(indices))
    return f"{text} and {format_count(rest)} more" if rest > 0 else text


def byte_of(asked: Asked, place: Place, storage: Storage | None) -> int:
    """The byte of the storage that was asked for, other than by an index."""
    size = storage.bytes if storage is not None else None
    if isinstance(asked, Offset):
        byte = asked.at * place.itemsize
    elif isinstance(asked, Address):
        if storage is None or not storage.address:
            raise LayoutError("the address of this storage is not known")
        byte = asked.at - storage.address
    else:
        assert isinstance(asked, Byte)
        byte = asked.at
    if size is not None and not 0 <= byte < size:
        where = f", 0x{storage.address:x} to 0x{storage.address + size - 1:x}" if storage and storage.address else ""
        raise LayoutError(f"that is outside the storage: its bytes are 0 to {size - 1:,}{where}")
    return byte


def find(asked: Asked, look: Look) -> tuple[tuple[int, ...] | None, str]:
    """The index to go to, and what is to be said of what was asked: of a byte, who covers it."""
    place = look.place
    if place is None:
        raise LayoutError(look.why_not)
    if isinstance(asked, Index):
        return asked.at, ""
    byte = byte_of(asked, place, look.storage)
    found = hits(place, byte, 1)
    if found.first:
        within = f", byte {found.within} of the element" if found.within else ""
        return found.first[0], f"byte {byte:,}{within}"
    near = _near(look, byte)
    others = [mate for mate in near if (at := place_of(mate)) and _covers(at, byte - look.start_of(mate))]
    if not others:
        return None, f"byte {byte:,} is not of this tensor" + (", nor of any" if len(near) < MATES else "")
    names = ", ".join(name_text(mate) for mate in others[:INDICES])
    more = f" and {len(others) - INDICES} more" if len(others) > INDICES else ""
    return None, f"byte {byte:,} is not of this tensor {dims_text(place.shape)}, but of {names}{more}"


def _covers(place: Place, byte: int) -> bool:
    try:
        found = hits(place, byte, 1)
    except LayoutError:
        return False
    return bool(found.first)
