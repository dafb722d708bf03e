"""The text of a picture of a screen."""

from __future__ import annotations

import html
import re

TEXT = re.compile(r'<text class="(?!\S*title)[^"]*"[^>]*? x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', re.DOTALL)
CELL = 12.2


def svg_text(svg: str) -> list[str]:
    """The lines of text of a picture."""
    rows: dict[float, dict[int, str]] = {}
    for x, y, text in TEXT.findall(svg):
        shown = html.unescape(text).replace("\xa0", " ").rstrip("\n")
        rows.setdefault(float(y), {})[round(float(x) / CELL)] = shown
    lines = []
    for y in sorted(rows):
        line = ""
        for x in sorted(rows[y]):
            line = line.ljust(x) + rows[y][x]
        lines.append(line.rstrip())
    return lines
