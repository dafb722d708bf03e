"""Putting styled text together from pieces, so that nothing a target says is ever read as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.content import Content

from tensortui.analysis.text import width

Piece = tuple[str, str]  # text, and a style such as "$dim" or "bold $warning"; "" for none


def content(pieces: Iterable[Piece]) -> Content:
    """The pieces, one after the other."""
    return Content.assemble(*((text, style) for text, style in pieces if text))


def cells(pieces: Iterable[Piece]) -> int:
    """The cells that pieces take."""
    return sum(width(text) for text, _ in pieces)


def spread(
    left: Sequence[Sequence[Piece]], right: Sequence[Sequence[Piece]], room: int, gap: str = "  ", *, keep: int = 99
) -> Content:
    """Groups of pieces at both ends of a line of `room` cells.

    Each side is ordered by importance, from its end of the line inwards; what does not fit is left out, the right
    side's last groups before the left side's, except that the left side first gives way down to `keep` groups.
    """
    lefts, rights = list(left), list(right)

    def total() -> int:
        return sum(cells(group) + len(gap) for group in (*lefts, *rights))

    while total() > room and len(lefts) > keep:
        lefts.pop()
    while total() > room and len(rights) > 1:
        rights.pop()
    while total() > room and len(lefts) > 1:
        lefts.pop()
    start = [piece for group in lefts for piece in (*group, (gap, ""))]
    end = [piece for group in reversed(rights) for piece in ((gap, ""), *group)]
    fill = max(room - cells(start) - cells(end), 0)
    return content([*start, (" " * fill, ""), *end]).truncate(room, ellipsis=False)
