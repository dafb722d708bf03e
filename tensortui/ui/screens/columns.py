"""Which columns the table shows, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.ui.columns import COLUMNS
from tensortui.ui.markup import Piece, content

ALL = tuple(column.key for column in COLUMNS[1:])  # the name is always there
WHAT = {
    "shape": "elements along each dimension",
    "dtype": "what an element is",
    "device": "where it lies",
    "bytes": "elements times the size of one",
    "distinct": "bytes, each address counted once",
    "strides": "steps to the next index",
    "offset": "elements before the first one",
    "version": "in-place changes so far",
    "grad_fn": "the operation that made it",
    "category": "what it is for",
}
HINTS = (("space", "show or hide"), ("J K", "move"), ("r", "reset"), ("enter", "done"), ("esc", "leave"))


class ColumnsScreen(ModalScreen[tuple[str, ...] | None]):
    """Answers with the keys of the columns to show, in order; () for the usual ones, None where nothing changes."""

    DEFAULT_CSS = """
    ColumnsScreen { align: center middle; background: $background 60%; }
    ColumnsScreen Vertical {
        width: 64; max-width: 90%; height: auto; max-height: 100%; padding: 0 2; background: $panel;
        border: round $border;
    }
    ColumnsScreen Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", id="columns.up", tooltip="the column above"),
        Binding("down,j", "move(1)", "Down", id="columns.down", tooltip="the column below"),
        Binding("space,x", "turn", "Show or hide", id="columns.turn", tooltip="show or hide the column"),
        Binding("J,shift+down", "shift(1)", "Later", id="columns.later", tooltip="move the column to the right"),
        Binding("K,shift+up", "shift(-1)", "Earlier", id="columns.earlier", tooltip="move the column to the left"),
        Binding("r", "reset", "Reset", id="columns.reset", tooltip="the usual columns, as many as fit"),
        Binding("enter,c", "done", "Done", id="columns.done", tooltip="show the table so"),
        Binding("escape,q", "leave", "Leave", id="columns.leave", tooltip="leave the columns as they were"),
    ]

    def __init__(self, shown: Sequence[str]) -> None:
        """Start from the columns that are `shown`."""
        super().__init__()
        self._order = [*shown, *(key for key in ALL if key not in shown)]
        self._shown = set(shown)
        self._at = 0
        self._text = Static("", markup=False)

    def compose(self) -> Iterator[Widget]:
        """The list, and the keys under it."""
        with Vertical():
            yield Static(content([("columns\n", "bold $strong")]), markup=False)
            yield self._text
            keys = [
                (piece, style) for key, what in HINTS for piece, style in ((key, "bold $primary"), (f" {what}  ", ""))
            ]
            yield Static(content([("\n", ""), *keys]), markup=False)

    def on_mount(self) -> None:
        """Draw the list."""
        self._paint()

    def _paint(self) -> None:
        pieces: list[Piece] = []
        for at, key in enumerate(self._order):
            mark = "[x]" if key in self._shown else "[ ]"
            style = "$strong on $cursor" if at == self._at else "" if key in self._shown else "$dim"
            pieces += [(f" {mark} {key:<10} {WHAT[key]:<34}", style), ("\n", "")]
        self._text.update(content(pieces[:-1]))

    def action_move(self, step: int) -> None:
        """Move the cursor."""
        self._at = max(0, min(len(self._order) - 1, self._at + step))
        self._paint()

    def action_turn(self) -> None:
        """Show or hide the column under the cursor."""
        self._shown ^= {self._order[self._at]}
        self._paint()

    def action_shift(self, step: int) -> None:
        """Move the column under the cursor."""
        to = self._at + step
        if 0 <= to < len(self._order):
            self._order.insert(to, self._order.pop(self._at))
            self._at = to
            self._paint()

    def action_reset(self) -> None:
        """Back to the usual columns."""
        self.dismiss(())

    def action_done(self) -> None:
        """Show the table so."""
        chosen = tuple(key for key in self._order if key in self._shown)
        self.dismiss(chosen or None)

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    def on_click(self, event: Click) -> None:
        """A line: show or hide its column."""
        if event.widget is self._text and 0 <= event.y < len(self._order):
            self._at = event.y
            self.action_turn()
