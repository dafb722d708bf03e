"""The groups that grew as rows, of which only those on screen are drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tensortui.analysis.growth import Grown
from tensortui.model import CATEGORIES
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.growth_lines import heading, line, ordered
from tensortui.ui.widgets.cursor_view import RowView


class GrowthTable(RowView):
    """Shows groups. The cursor stays on the same group whatever comes before it."""

    PREFIX = "growth"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"growth--{name}" for name in CATEGORIES),
        *(f"growth--{name}" for name in ("header", "sorted", "cursor", "cursor-blurred", "dim", "bytes", "name")),
        *(f"growth--{name}" for name in ("trend", "warning")),
    }
    DEFAULT_CSS = """
    GrowthTable {
        height: 1fr; background: $surface; color: $foreground; overflow-x: hidden; scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .growth--header { background: $panel; color: $dim; }
        .growth--sorted { background: $panel; color: $strong; text-style: bold; }
        .growth--cursor { background: $cursor; }
        .growth--cursor-blurred { background: $cursor-blurred; }
        .growth--dim { color: $dim; }
        .growth--bytes { color: $strong; }
        .growth--name { color: $strong; }
        .growth--trend { color: $bar; }
        .growth--warning { color: $warning; text-style: bold; }
    }
    """ + "".join(f"GrowthTable .growth--{name} {{ color: $cat-{name}; }}\n" for name in CATEGORIES)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="growth-table.up", tooltip="one row up"),
        Binding("down,j", "move(1)", "Down", show=False, id="growth-table.down", tooltip="one row down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="growth-table.page-up", tooltip="one page up"),
        Binding(
            "pagedown,ctrl+f", "page(1)", "Page down", show=False, id="growth-table.page-down", tooltip="one page down"
        ),
        Binding("home,g", "edge(0)", "Top", show=False, id="growth-table.top", tooltip="first row"),
        Binding("end,G", "edge(-1)", "Bottom", show=False, id="growth-table.bottom", tooltip="last row"),
        Binding("enter", "enter", "Go to", show=False, id="growth-table.enter", tooltip="go to the youngest tensor"),
    ]

    class Highlighted(RowView.Highlighted):
        """The cursor is on another row."""

    class Chosen(Message):
        """Enter or a second click on a group."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        """Show nothing yet."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._rows: Sequence[Grown] = ()
        self._told: frozenset[int] = frozenset()
        self.sort = "bytes"

    def show_rows(self, rows: Collection[Grown], told: frozenset[int]) -> None:
        """Show groups; those are findings whose tensors are `told`."""
        held = self.row.kind if self.row is not None else None
        offset = self.cursor - self._top
        self._rows, self._told = ordered(rows, self.sort), told
        at = next((at for at, row in enumerate(self._rows) if row.kind == held), None)
        self.cursor = at if at is not None else max(0, min(self.cursor, len(self._rows) - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows) + 1)
        if self._top:
            self.scroll_to(y=max(0, self.cursor - offset), animate=False, force=True)
        self.refresh()
        self.post_message(self.Highlighted())

    @property
    def row(self) -> Grown | None:
        """The group under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        cells, base = self.size.width, self.rich_style
        room = max(self.scrollable_content_region.width, 40)
        if y == 0:
            return self._strip(heading(room, self._glyphs, self.sort), base + self._style("header"), cells)
        at = self._top + y - 1
        if at >= len(self._rows):
            return Strip.blank(cells, base)
        row = self._rows[at]
        if at == self.cursor:
            base += self._style("cursor" if self.has_focus else "cursor-blurred")
        told = not self._told.isdisjoint(row.tensors)
        return self._strip(line(row, room, self._glyphs, told), base, cells)

    def action_enter(self) -> None:
        """Go to a tensor of the group."""
        if self.row is not None:
            self.post_message(self.Chosen())
