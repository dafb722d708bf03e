"""Aligned plain tables, as wide as the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from tensortui.analysis.text import pad, truncate
from tensortui.analysis.text import width as cells

LAST_AT_LEAST = 20
NO_LIMIT = 1 << 30


def terminal_width() -> int:
    """Return the width of the terminal; what goes to a pipe or a file is not cut, unless COLUMNS says so."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size((100, 24)).columns
    return NO_LIMIT


def fitting(
    headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, give_way: Sequence[str], right: Sequence[str]
) -> list[str]:
    """Return the lines of a table from which the columns `give_way` are left out, in this order, on a narrow terminal.

    `right` are the headings of those that are aligned to the right.
    """
    kept = [at for at, _ in enumerate(headings)]
    for heading in give_way:
        widths = [max(cells(row[at]) for row in (headings, *rows)) + 2 for at in kept[:-1]]
        if sum(widths) + LAST_AT_LEAST <= width:
            break
        kept.remove(headings.index(heading))
    shown = [[row[at] for at in kept] for row in rows]
    aligned = [at for at, column in enumerate(kept) if headings[column] in right]
    return table([headings[at] for at in kept], shown, width, aligned)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, right: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table of safe strings. The columns in `right` are aligned to the right; the last is cut."""
    lines = [headings, *rows]
    widths = [max(cells(line[column]) for line in lines) for column in range(len(headings) - 1)]
    left = max(width - sum(widths) - 2 * len(widths), LAST_AT_LEAST)
    return [
        "  ".join(
            [
                pad(cell, size, right=column in right)
                for column, (cell, size) in enumerate(zip(line, widths, strict=False))
            ]
            + [truncate(line[-1], left, ellipsis="...")]
        ).rstrip()
        for line in lines
    ]
