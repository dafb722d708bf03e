"""Shown when the source could not be opened: the cause and the next step."""

from __future__ import annotations

from collections.abc import Iterator

from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.analysis.text import safe
from tensortui.errors import TensortuiError
from tensortui.ui.markup import content
from tensortui.ui.widgets.key_line import KeyLine


class FailedScreen(Screen[None]):
    """One error, in words."""

    MANUAL = "picker"
    DEFAULT_CSS = """
    FailedScreen Static { height: 1fr; content-align: center middle; text-align: center; }
    FailedScreen KeyLine { height: 1; content-align: left middle; text-align: left; }
    """

    def __init__(self, error: TensortuiError) -> None:
        """Tell of `error`."""
        super().__init__()
        self._error = error

    def compose(self) -> Iterator[Widget]:
        """The words and the keys."""
        words = [(f"{safe(self._error.cause)}\n\n", "bold $error"), (safe(self._error.next_step), "")]
        yield Static(content(words), markup=False)
        yield KeyLine((("q", "quit"),))
