"""Shown when the source could not be opened: the cause and the next step."""

from __future__ import annotations

from collections.abc import Iterator

from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.errors import TensortuiError
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import content
from tensortui.ui.widgets.key_line import KeyLine


class FailedScreen(Screen[None]):
    """One error, in words."""

    MANUAL = "picker"
    DEFAULT_CSS = """
    FailedScreen Static { height: 1fr; content-align: center middle; text-align: center; }
    FailedScreen KeyLine { height: 1; content-align: left middle; text-align: left; }
    """

    def __init__(self, error: TensortuiError, glyphs: Glyphs) -> None:
        """Tell of `error`."""
        super().__init__()
        self._glyphs = glyphs
        self._error = error

    def compose(self) -> Iterator[Widget]:
        """The words and the keys."""
        cause, next_step = show(self._error.cause, self._glyphs), show(self._error.next_step, self._glyphs)
        words = [(f"{self._glyphs.lost} {cause}\n\n", "bold $error"), (next_step, "")]
        yield Static(content(words), markup=False)
        yield KeyLine((("q", "quit"),))
