"""What goes to a terminal when NO_COLOR is set: weight, faintness, underline and reverse, but no colour at all."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from tensortui.ui.theme import THEMES


def _triplets(*names: str) -> frozenset[object]:
    return frozenset(Color.parse(theme.variables[name]).rich_color.triplet for theme in THEMES for name in names)


CURSOR = _triplets("cursor")
ELSEWHERE = _triplets("cursor-blurred")  # the cursor, while something else has the keys
FAINT = _triplets("dim", "faint")
REVERSED, FAINTLY, UNDERLINED = Style(reverse=True), Style(dim=True), Style(underline=True)


def _is(color: RichColor | None, triplets: frozenset[object]) -> bool:
    return color is not None and color.triplet in triplets


@lru_cache(4096)
def plain(style: Style) -> Style:
    """A style without its colours; what they said of the cursor and of what matters less is said otherwise."""
    out = style.without_color + Style(meta=style.meta)
    if _is(style.bgcolor, CURSOR):
        return out + REVERSED
    if _is(style.bgcolor, ELSEWHERE):
        return out + UNDERLINED
    return out + FAINTLY if _is(style.color, FAINT) else out


class Colourless(LineFilter):
    """Takes the colours off every line, in place of the greys that Textual makes of them."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [
            Segment(text, plain(style) if style is not None else None, control) for text, style, control in segments
        ]
