"""The elements of two dimensions of a tensor as a grid of numbers: where each lies, or when memory comes to it."""

from __future__ import annotations

from textual.content import Content

from tensortui.analysis.layout import Place, Window, window
from tensortui.analysis.text import truncate
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.looking import Look
from tensortui.ui.markup import Piece, cells, content

OFFSETS, WALK = "offsets", "walk"
HEAD = 2  # the title and the column numbers
WIDEST = 30  # columns, where even the narrowest numbers would leave room for more
GAP = 2


def grid_window(look: Look, place: Place, rows: int, room: int) -> Window:
    """The part of the tensor around the cursor that fits."""
    down, across = look.dims
    width = _cell(place) + GAP
    lead = _lead(place, down)
    columns = max(min((room - lead) // width, WIDEST), 1)
    return window(
        place,
        max(rows, 1),
        columns,
        dims=look.dims,
        index=look.index,
        top=_first(look.index, down, rows),
        left=_first(look.index, across, columns),
    )


def _first(index: tuple[int, ...], dim: int | None, shown: int) -> int:
    """The first index shown: whole pages, so that the cursor moves rather than everything around it."""
    return 0 if dim is None else index[dim] // max(shown, 1) * max(shown, 1)


def _cell(place: Place) -> int:
    last = place.offset + sum((size - 1) * stride for size, stride in zip(place.shape, place.strides, strict=True))
    return max(len(str(max(last, 0))), *(len(str(size)) for size in place.shape or (1,)), 3)


def _lead(place: Place, down: int | None) -> int:
    return 3 + (len(str(place.shape[down])) if down is not None else 1)


def grid_content(look: Look, rows: int, room: int, mode: str, glyphs: Glyphs) -> Content:
    """Title, column numbers and `rows` lines; the cursor stands out, and what is the same memory has an = before it."""
    place = look.place
    if place is None:
        return content([])
    if not place.numel:
        return content([(" no elements: nothing to show\n", "$dim")])
    seen = grid_window(look, place, rows, room)
    width, lead = _cell(place), _lead(place, seen.down)
    numbers = seen.walk if mode == WALK else seen.offsets
    under = look.element
    pieces = _title(look, place, seen, mode, room, glyphs)
    pieces.append((f"{'':<{lead}}", ""))
    pieces += [(f"{'':<{GAP}}{seen.left + column:>{width}}", "$dim") for column in range(seen.width)]
    pieces.append(("\n", ""))
    for row, line in enumerate(numbers):
        number = str(seen.top + row) if seen.down is not None else ""
        pieces.append((f"  {number:>{lead - 3}} ", "$dim"))
        for column, value in enumerate(line):
            here = seen.at(row, column) == look.index
            again = under is not None and seen.offsets[row][column] == under.offset and not here
            text = f"={value}" if again else str(value)
            style = "bold reverse $accent" if here else "bold $accent" if again else ""
            pieces += [(" " * (GAP + width - len(text)), ""), (text, style)]
        pieces.append(("\n", ""))
    return content(pieces)


def _title(look: Look, place: Place, seen: Window, mode: str, room: int, glyphs: Glyphs) -> list[Piece]:
    what = "order of memory" if mode == WALK else "offsets" if len(place.shape) > 2 else "offset of each element"
    pieces: list[Piece] = [(truncate(f" {what}", room, ellipsis=glyphs.ellipsis), "bold $primary")]
    shown: list[Piece] = []
    if len(place.shape) > 2:
        fixed = [str(at) if dim not in look.dims else ":" for dim, at in enumerate(look.index)]
        shown.append((f"  [{', '.join(fixed)}]", ""))
    if seen.down is not None:
        shown.append((f"  down dim {seen.down} ({place.shape[seen.down]})", "$dim"))
    if seen.across is not None:
        shown.append((f"  across dim {seen.across} ({place.shape[seen.across]})", "$dim"))
    for piece in shown:
        if cells([*pieces, piece]) <= room:
            pieces.append(piece)
    return [*pieces, ("\n", "")]
