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
