"""The first lines of the Layout screen: which tensor it is, and what its layout is in words."""

from __future__ import annotations

from textwrap import wrap

from textual.content import Content

from tensortui.analysis.layout import advice, details, headline, retained
from tensortui.analysis.text import shorten, truncate
from tensortui.analysis.units import format_bytes
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.looking import Look
from tensortui.ui.markup import Piece, content, spread


def about(look: Look, room: int, glyphs: Glyphs) -> list[Piece]:
    """What there is to say under the headline, the most pressing first, in lines of `room` cells."""
    tensor = look.tensor
    said: list[Piece] = []
    if look.storage is not None and (words := retained(tensor, look.storage, look.live_bytes)):
        said.append((words, ""))
    if look.beside.bytes:
        own = format_bytes(look.beside.bytes)
        if len(look.beside.starts) == 1:
            said.append((f"another storage lies over {own} of it: both are imports of one block", ""))
        else:
            said.append((f"other storages lie over {own} of it: all are imports of one block", ""))
    if look.place is not None:
        said += [(line, "$dim") for line in details(look.place)]
    if words := advice(tensor):
        said.append((words, "italic"))
    return [
        (f" {line}" if at == 0 else f"   {line}", style)
        for text, style in said
        for at, line in enumerate(wrap(show(text, glyphs), max(room - 4, 20)))
    ]


def head_content(look: Look, lines: int, room: int, glyphs: Glyphs) -> Content:
    """Name and numbers on one line, the layout on the next, and `lines` more about it."""
    tensor = look.tensor
    name = shorten(show(name_text(tensor), glyphs), max(room // 3, 20), ellipsis=glyphs.ellipsis)
    glyph = glyphs.category.get(tensor.category, "?")
    groups: list[list[Piece]] = [
        [(f" {name}", "bold $strong")],
        [(dims_text(tensor.shape), "")],
        [("strides ", "$dim"), (dims_text(tensor.strides), "")],
        [("offset ", "$dim"), ("n/a" if tensor.offset is None else str(tensor.offset), "")],
        [(show(tensor.dtype or "n/a", glyphs), "")],
        [(show(tensor.device or "n/a", glyphs), "")],
    ]
    line = spread(groups, [[(f"{glyph} {tensor.category} ", f"$cat-{tensor.category}")]], room)
    what = headline(look.place) if look.place is not None else look.why_not
    out: list[Content] = [line, _cut(what, "bold", room, glyphs)]
    if look.gone:
        more = "n shows the one that has its name now" if look.heir is not None else "this is from its last sample"
        out.insert(0, _cut(f"{glyphs.gone} the tensor is gone: {more}", "bold $error", room, glyphs))
    out += [content([piece]) for piece in about(look, room, glyphs)[:lines]]
    return Content("\n").join(out)


def _cut(text: str, style: str, room: int, glyphs: Glyphs) -> Content:
    return content([(" " + truncate(show(text, glyphs), room - 2, ellipsis=glyphs.ellipsis), style)])
