"""The chains of holders as rows that open and close, of which only those on screen are drawn."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip

from tensortui.ui.widgets.cursor_view import RowView
from tensortui.ui.widgets.holder_lines import CHAIN, TAIL, Chains, Row

LEAST = 50  # cells that lines are drawn for


class HolderTree(RowView):
    """Shows chains, root first. The cursor stays on the same row whatever opens and closes around it."""

    PREFIX = "holders"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"holders--{name}" for name in ("header", "cursor", "cursor-blurred", "dim", "name", "warning")
    }
    DEFAULT_CSS = """
    HolderTree {
        height: 1fr; background: $surface; color: $foreground; overflow-x: hidden; scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .holders--header { background: $panel; color: $dim; }
        .holders--cursor { background: $cursor; }
        .holders--cursor-blurred { background: $cursor-blurred; }
        .holders--dim { color: $dim; }
        .holders--name { color: $strong; text-style: bold; }
        .holders--warning { color: $warning; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="holder-tree.up", tooltip="one row up"),
        Binding("down,j", "move(1)", "Down", show=False, id="holder-tree.down", tooltip="one row down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="holder-tree.page-up", tooltip="one page up"),
        Binding(
            "pagedown,ctrl+f", "page(1)", "Page down", show=False, id="holder-tree.page-down", tooltip="one page down"
        ),
        Binding("home,g", "edge(0)", "Top", show=False, id="holder-tree.top", tooltip="first row"),
        Binding("end,G", "edge(-1)", "Bottom", show=False, id="holder-tree.bottom", tooltip="last row"),
        Binding("left,h", "fold(False)", "Close", show=False, id="holder-tree.close", tooltip="close the chain"),
        Binding("right,l", "fold(True)", "Open", show=False, id="holder-tree.open", tooltip="open the chain"),
        Binding(
            "enter", "enter", "Open", id="holder-tree.enter", tooltip="open or close; go to the chain it ends like"
        ),
        Binding("E", "open_all(True)", "Open all", show=False, id="holder-tree.open-all", tooltip="open every chain"),
        Binding(
            "C", "open_all(False)", "Close all", show=False, id="holder-tree.close-all", tooltip="close every chain"
        ),
    ]

    class Highlighted(RowView.Highlighted):
        """The cursor is on another row."""

    def __init__(self, *, id: str | None = None) -> None:
        """Show nothing yet."""
        super().__init__(id=id)
        self._chains: Chains | None = None
        self._rows: list[Row] = []
        self._shut: set[int] = set()
        self.cursor = 0

    def show_chains(self, chains: Chains) -> None:
        """Show what another search has found."""
        self._chains = chains
        self._shut, self.cursor = set(), 0
        self.scroll_to(y=0, animate=False)
        self._rearrange()

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def _rearrange(self, aim: tuple[str, int, int] | None = None) -> None:
        held = aim or (self.row.key if self.row is not None else None)
        assert self._chains is not None
        self._rows = self._chains.rows(self._shut)
        at = next((at for at, row in enumerate(self._rows) if row.key == held), None)
        self.cursor = at if at is not None else max(0, min(self.cursor, len(self._rows) - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows) + 1)
        self._keep_in_sight()
        self.refresh()
        self.post_message(self.Highlighted())

    # -- drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        cells, base = self.size.width, self.rich_style
        room = max(self.scrollable_content_region.width, LEAST)
        if self._chains is None:
            return Strip.blank(cells, base)
        if y == 0:
            return self._strip(self._chains.heading(room), base + self._style("header"), cells)
        at = self._top + y - 1
        if at >= len(self._rows):
            return Strip.blank(cells, base)
        if at == self.cursor:
            base += self._style("cursor" if self.has_focus else "cursor-blurred")
        return self._strip(self._chains.line(self._rows[at], room, self._shut), base, cells)

    # -- opening

    def action_fold(self, opened: bool) -> None:
        """Open or close the chain under the cursor."""
        row = self.row
        if row is None or (row.chain not in self._shut) is opened:
            return
        self._shut.symmetric_difference_update({row.chain})
        self._rearrange((CHAIN, row.chain, 0))

    def action_enter(self) -> None:
        """Open or close a chain; go to the one that ends the same."""
        row = self.row
        if row is None:
            return
        if row.kind == TAIL:
            self._shut.discard(row.like)
            self._rearrange((CHAIN, row.like, 0))
        else:
            self.action_fold(row.chain in self._shut)

    def action_open_all(self, opened: bool) -> None:
        """Open or close every chain."""
        row = self.row
        if self._chains is not None and row is not None:
            self._shut = set() if opened else {each.chain for each in self._rows}
            self._rearrange(None if opened else (CHAIN, row.chain, 0))
