"""The one visual language of every screen: category glyphs, bars and marks, each with an ASCII form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tensortui.model import CATEGORIES


@dataclass(frozen=True)
class Glyphs:
    """The characters to draw with. Every one is a single column wide."""

    category: Mapping[str, str]
    full: str
    parts: str  # the fractions of a bar's last cell, from nearly empty to nearly full; "" where there are none
    empty: str
    opened: str
    closed: str
    warn: str
    new: str
    changed: str
    gone: str
    ellipsis: str
    descending: str
    ascending: str
    live: str
    paused: str
    lost: str
    rule: str
    equals: str
    view: str
    heights: str  # from low to high

    def bar(self, share: float | None, width: int) -> tuple[str, str]:
        """The filled and the empty part of a bar of `width` cells, `share` (0..1) of it filled.

        What is used at all shows, and so does the least gap. An unknown share is drawn as neither.
        """
        if share is None:
            return "", " " * width
        share = min(max(share, 0.0), 1.0)
        steps = len(self.parts) + 1
        filled = round(share * width * steps)
        if 0 < share < 1:
            filled = min(max(filled, 1), width * steps - 1)
        whole, rest = divmod(filled, steps)
        text = self.full * whole + (self.parts[rest - 1] if rest else "")
        return text, self.empty * (width - len(text))

    def curve(self, values: Sequence[int], width: int) -> str:
        """Values in at most `width` cells, each as high as it is between the least and the most of them."""
        if len(values) > width:
            edges = [at * len(values) // width for at in range(width + 1)]
            values = [min(values[start:end]) for start, end in pairwise(edges)]
        low, high = min(values, default=0), max(values, default=0)
        top = len(self.heights) - 1
        return "".join(self.heights[(value - low) * top // (high - low) if high > low else 0] for value in values)


UNICODE = Glyphs(
    category=dict(zip(CATEGORIES, "●◎■◆▲○▸·", strict=True)),
    full="━",
    parts="╸",
    empty="┄",
    opened="▼",
    closed="▶",
    warn="▲!",
    new="+",
    changed="~",
    gone="×",
    ellipsis="…",
    descending="▼",
    ascending="▲",
    live="●",
    paused="‖",
    lost="✕",
    rule="─",
    equals="=",
    view="└",
    heights="▁▂▃▄▅▆▇█",
)
ASCII = Glyphs(
    category=dict(zip(CATEGORIES, "PBOGSAI.", strict=True)),
    full="#",
    parts="",
    empty=".",
    opened="v",
    closed=">",
    warn="/!\\",
    new="+",
    changed="~",
    gone="x",
    ellipsis="~",
    descending="v",
    ascending="^",
    live="*",
    paused="=",
    lost="x",
    rule="-",
    equals="=",
    view="`",
    heights="_.:-=+*#",
)


def ascii_only(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's locale cannot show more than ASCII.

    Python forces stdout to UTF-8 under the C locale, so its encoding says nothing: the variables decide, the first
    that is set and not empty.
    """
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name, "")
        if value:
            return "UTF-8" not in value.upper() and "UTF8" not in value.upper()
    return False


def choose(ascii_mode: bool) -> Glyphs:
    """The glyphs for a terminal."""
    return ASCII if ascii_mode else UNICODE
