"""A storage drawn as a ribbon: a line for each tensor on it, filled where it lies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from textual.content import Content

from tensortui.analysis.layout import FULL, NONE, PART, UNKNOWN, Ribbon, has_memory
from tensortui.analysis.layout.ribbons import Cells
from tensortui.analysis.text import shorten
from tensortui.analysis.units import format_bytes, format_count
from tensortui.model import Storage, Tensor
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.glyphs import ASCII, Glyphs
from tensortui.ui.lines import fit, show
from tensortui.ui.looking import Look
from tensortui.ui.markup import Piece, content

LEAST_CELLS = 24
TICKS = 4
OTHER = "(other storage)"
NAMES_OTHER = 40  # from this many cells of names on it is said of a tensor that its storage is another one


def marks(glyphs: Glyphs) -> dict[str, str]:
    """What a cell is drawn with: full, in part, not at all, not known."""
    partly = "-" if glyphs is ASCII else "╍"
    return {FULL: glyphs.full, PART: partly, NONE: glyphs.empty, UNKNOWN: "?"}


def legend(glyphs: Glyphs) -> str:
    """What the cells mean, in words."""
    drawn = marks(glyphs)
    return f"{drawn[FULL]} all  {drawn[PART]} part  {drawn[NONE]} none"


def shown_mates(look: Look, rows: int) -> list[Tensor]:
    """The tensors that get a line: those around the one that is looked at."""
    mates = list(look.mates)
    at = next((at for at, mate in enumerate(mates) if mate.id == look.tid), 0)
    first = min(max(at - rows // 2, 0), max(len(mates) - rows, 0))
    return mates[first : first + rows]


def columns(room: int) -> tuple[int, int]:
    """The cells of the names and of the ribbon itself."""
    names = min(max(room * 2 // 5, 20), 56)
    return names, max(room - names - 3, LEAST_CELLS)


def ribbon_content(look: Look, rows: int, room: int, glyphs: Glyphs) -> Content:
    """The storage, `rows` tensors on it, what none or several cover, and where the element under the cursor is."""
    storage = look.storage
    names, cells = columns(room)
    mates = shown_mates(look, rows)
    picture = look.ribbon(cells, tuple(mate.id for mate in mates))
    if storage is None or picture is None:
        return content([(f" {_no_storage(storage, look.mates)}\n", "$dim")])
    pieces = _title(storage, look, picture, names, glyphs)
    for mate in mates:
        other = mate.storage in look.beside.starts
        pieces += _strip(mate, picture, names, glyphs, selected=mate.id == look.tid, other=other)
    pieces += _sums(look, picture, names, glyphs)
    found = look.element
    if found is not None:
        pieces += _caret(found.byte, picture, names, glyphs)
    return content(pieces)


def _no_storage(storage: Storage | None, mates: Sequence[Tensor]) -> str:
    if storage is None:
        return "this tensor has no storage"
    if storage.bytes is None:
        return "the size of its storage is not known"
    resized = any(mate.bytes and has_memory(mate) for mate in mates)
    return "its storage was resized to nothing" if resized else "its storage has no bytes, and none are needed"


def _title(storage: Storage, look: Look, picture: Ribbon, names: int, glyphs: Glyphs) -> list[Piece]:
    where = f" at 0x{storage.address:x}" if storage.address else ""
    text = f" storage {format_bytes(picture.size)}{where}"
    return [(fit(text, names, glyphs), "bold $primary"), (f"  {scale(picture)}\n", "$dim")]


def scale(picture: Ribbon) -> str:
    """Sizes over the cells where they fit: 0, a quarter, a half, the whole."""
    cells = len(picture.edges) - 1
    line = [" "] * cells
    ticks = TICKS if cells >= TICKS * 12 else 2 if cells >= 24 else 1
    for tick in (0, ticks, *range(1, ticks)):  # both ends come first, what does not fit between them is left out
        at = cells * tick // ticks
        text = "0" if not tick else format_bytes(picture.size * tick // ticks)
        start = min(at, cells - len(text)) if tick == ticks else at
        free = line[max(start - 1, 0) : start + len(text) + 1]
        if start >= 0 and start + len(text) <= cells and not "".join(free).strip():
            line[start : start + len(text)] = text
    return "".join(line)


def _strip(
    mate: Tensor, picture: Ribbon, names: int, glyphs: Glyphs, *, selected: bool, other: bool = False
) -> list[Piece]:
    strip = picture.strips[mate.id]
    sign = glyphs.closed if selected else " "
    shape = dims_text(mate.shape)
    if other and names >= NAMES_OTHER:
        shape = f"{OTHER} {shape}"
    room = max(names - len(shape) - 4, 8)
    name = shorten(show(name_text(mate), glyphs), room, ellipsis=glyphs.ellipsis)
    label = fit(f" {sign} {fit(name, room, glyphs)} {shape}", names, glyphs)
    pieces = [(label, "bold $strong" if selected else ""), ("  ", "")]
    pieces += cell_pieces(strip.cells, glyphs, f"$cat-{mate.category}")
    return [*pieces, (f" {glyphs.warn} ends after it" if strip.beyond else "", "bold $warning"), ("\n", "")]


def cell_pieces(cells: Cells, glyphs: Glyphs, style: str) -> list[Piece]:
    """Runs of cells of one state."""
    drawn = marks(glyphs)
    pieces: list[Piece] = []
    start = 0
    for at in range(1, len(cells) + 1):
        if at == len(cells) or cells[at] != cells[start]:
            state = cells[start]
            pieces.append((drawn[state] * (at - start), style if state in (FULL, PART) else "$faint"))
            start = at
    return pieces


def _sums(look: Look, picture: Ribbon, names: int, glyphs: Glyphs) -> list[Piece]:
    """Lines of what no tensor covers, and of what several do where there are several."""
    gaps = [(fit(f"   in no tensor  {_size(picture.gap_bytes)}", names, glyphs), "$dim"), ("  ", "")]
    pieces = [*gaps, *_gaps(picture, glyphs), ("\n", "")]
    if len(look.mates) > 1:
        pieces += [(fit(f"   in several    {_size(picture.shared_bytes)}", names, glyphs), "$dim"), ("  ", "")]
        pieces += [*cell_pieces(picture.shared, glyphs, "$bar"), ("\n", "")]
    return pieces


def _size(count: int | None) -> str:
    return format_bytes(count, none="not known")


def _gaps(picture: Ribbon, glyphs: Glyphs) -> list[Piece]:
    opposite = {FULL: NONE, NONE: FULL}
    cells = tuple(opposite.get(cell, cell) for cell in picture.covered)
    return cell_pieces(cells, glyphs, "$warning")


def _caret(byte: int, picture: Ribbon, names: int, glyphs: Glyphs) -> list[Piece]:
    at = cell_of(byte, picture.edges)
    if at is None:
        return []
    sign = glyphs.ascending
    words = f"byte {format_count(byte)}"
    text = f" {sign} {words}"
    cells = len(picture.edges) - 1
    if at + len(text) - 1 > cells:
        pointed = f" {f'{words} {sign}':>{at + 1}}"
    else:
        pointed = " " * at + text
    return [(fit(f"   {legend(glyphs)}", names, glyphs), "$dim"), (f" {pointed}\n", "$accent")]


def cell_of(byte: int, edges: Sequence[int]) -> int | None:
    """The cell that a byte lies in; None beyond the storage."""
    return bisect_right(edges, byte) - 1 if 0 <= byte < edges[-1] else None
