"""What stands over everything in a terminal that has no room for any of it."""

from __future__ import annotations

from typing import Any

from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Static

LEAST = (40, 10)  # cells and lines
BRIEF = 20  # cells below which there is room for little more than a word


class TooSmall(Static):
    """Covers a screen whose terminal is too small; what is under it goes on."""

    DEFAULT_CSS = """
    TooSmall {
        layer: cover; dock: top; width: 100vw; height: 100vh; background: $background; color: $strong;
        content-align: center middle; text-align: center;
    }
    """


def cover(screen: Screen[Any], size: Size) -> None:
    """Say that a screen is too small, with what is needed; or no longer, where there is room."""
    covers = screen.query(TooSmall)
    small = size.width < LEAST[0] or size.height < LEAST[1]
    screen.set_class(small, "-too-small")
    if not small:
        covers.remove()
        return
    needed = f"{LEAST[0]}x{LEAST[1]}"
    said = f"{size.width}x{size.height} is too small: {needed} is needed"
    if size.width < BRIEF:
        said = f"needs {needed}"
    if covers:
        covers.first().update(said)
    else:
        screen.mount(TooSmall(said, markup=False))
