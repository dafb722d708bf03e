"""A question to be answered with yes or no, for what cannot be undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.ui.markup import content


class ConfirmScreen(ModalScreen[bool]):
    """Answers True on y, False on anything that leaves."""

    DEFAULT_CSS = """
    ConfirmScreen { align: center middle; background: $background 60%; }
    ConfirmScreen Vertical {
        width: 64; max-width: 90%; height: auto; padding: 1 2; background: $panel; border: round $border;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes", tooltip="do it"),
        Binding("n,escape,q", "answer(False)", "No", id="confirm.no", tooltip="leave everything as it is"),
    ]

    def __init__(self, question: str, detail: str) -> None:
        """Ask `question`; `detail` says what it would do."""
        super().__init__()
        self._question = question
        self._detail = detail

    def compose(self) -> Iterator[Widget]:
        """The question and the two keys."""
        with Vertical():
            yield Static(content([(f"{self._question}\n\n", "bold $strong"), (f"{self._detail}\n", "")]), markup=False)
            yield Static(
                content([("y", "bold $primary"), (" yes    ", ""), ("n", "bold $primary"), (" no", "")]), markup=False
            )

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
