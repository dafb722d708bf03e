"""Plain text for a terminal or a pipe: foreign strings made safe, aligned tables, units."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Control characters, formatting (bidi overrides among it), lone surrogates, private use and line separators: what could
# move the cursor, reverse the line, or not be encoded at all.
UNSAFE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def printable(text: str) -> str:
    """Return `text` with every character that could act on a terminal as its Python escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii") if unicodedata.category(character) in UNSAFE else character
        for character in text
    )


def shortened(text: str, width: int) -> str:
    """Return `text` cut to `width` characters, the cut shown by three dots."""
    if len(text) <= width:
        return text
    return text[: max(width - 3, 0)] + "..."[:width]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: Sequence[int] = ()) -> list[str]:
    """Return the lines of an aligned table; the last column gets what is left of `width`, those in `right` end flush."""
    columns = range(len(headings))
    last = len(headings) - 1
    widths = [max(len(line[column]) for line in (headings, *rows)) for column in columns]
    left = max(width - sum(widths[:last]) - 2 * last, 12)
    lines = []
    for row in (headings, *rows):
        cells = [
            row[column].rjust(widths[column]) if column in right else row[column].ljust(widths[column])
            for column in columns[:last]
        ]
        lines.append("  ".join([*cells, shortened(row[last], left)]).rstrip())
    return lines


def bytes_text(count: int | None) -> str:
    """Return a number of bytes in IEC units, "n/a" where it is not known."""
    if count is None:
        return "n/a"
    if abs(count) < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if abs(size) < 1024 or unit == "TiB":
            break
    return f"{size:.2f} {unit}"


def age_text(seconds: float | None) -> str:
    """Return how long a process has been running, in two units at most."""
    if seconds is None:
        return "n/a"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour}h"
    if hours:
        return f"{hours}h {minute:02d}m"
    return f"{minute}m {second:02d}s" if minutes else f"{second}s"
