"""The autograd graph as rows that open and close, of which only those on screen are drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tensortui.analysis.graph import FOLD, LEAF, LINK, NODE, Behind, Row
from tensortui.model import CATEGORIES
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.widgets.cursor_view import RowView
from tensortui.ui.widgets.graph_lines import GraphLines, heading


class GraphTree(RowView):
    """Shows what is behind some roots. The cursor stays on the same row whatever opens and closes around it."""

    PREFIX = "graph"
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"graph--{name}" for name in CATEGORIES),
        *(f"graph--{name}" for name in ("header", "cursor", "cursor-blurred", "dim", "bytes", "name", "made", "fold")),
        *(f"graph--{name}" for name in ("warning", "marked")),
    }
    DEFAULT_CSS = """
    GraphTree {
        height: 1fr; background: $surface; color: $foreground; overflow-x: hidden; scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .graph--header { background: $panel; color: $dim; }
        .graph--cursor { background: $cursor; }
        .graph--cursor-blurred { background: $cursor-blurred; }
        .graph--dim { color: $dim; }
        .graph--bytes { color: $strong; }
        .graph--name { color: $strong; }
        .graph--made { color: $accent; }
        .graph--fold { color: $accent; text-style: italic; }
        .graph--warning { color: $warning; text-style: bold; }
        .graph--marked { color: $accent; text-style: bold; }
    }
    """ + "".join(f"GraphTree .graph--{name} {{ color: $cat-{name}; }}\n" for name in CATEGORIES)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="graph-tree.up", tooltip="one row up"),
        Binding("down,j", "move(1)", "Down", show=False, id="graph-tree.down", tooltip="one row down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="graph-tree.page-up", tooltip="one page up"),
        Binding(
            "pagedown,ctrl+f", "page(1)", "Page down", show=False, id="graph-tree.page-down", tooltip="one page down"
        ),
        Binding("home,g", "edge(0)", "Top", show=False, id="graph-tree.top", tooltip="first row"),
        Binding("end,G", "edge(-1)", "Bottom", show=False, id="graph-tree.bottom", tooltip="last row"),
        Binding(
            "left,h", "fold(False)", "Close", show=False, id="graph-tree.close", tooltip="close, or go to its node"
        ),
        Binding(
            "right,l", "fold(True)", "Open", show=False, id="graph-tree.open", tooltip="open the node or repetition"
        ),
        Binding(
            "enter", "enter", "Open", id="graph-tree.enter", tooltip="open or close; go to the tensor, or the node"
        ),
        Binding("E", "open_all(True)", "Open all", show=False, id="graph-tree.open-all", tooltip="open everything"),
        Binding("C", "open_all(False)", "Close all", show=False, id="graph-tree.close-all", tooltip="close everything"),
    ]

    class Highlighted(RowView.Highlighted):
        """The cursor is on another row."""

    class Chosen(Message):
        """Enter or a second click on a tensor."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        """Show nothing yet."""
        super().__init__(id=id)
        self._glyphs = glyphs
        self._lines: GraphLines | None = None
        self._rows: list[Row] = []
        self._shut: set[int] = set()
        self._unfolded: set[int] = set()
        self._marked: frozenset[tuple[int, int]] = frozenset()
        self.cursor = 0

    # -- what it shows

    @property
    def behind(self) -> Behind | None:
        """What is shown."""
        return self._lines.behind if self._lines is not None else None

    def show_graph(self, behind: Behind, *, anew: bool) -> None:
        """Show `behind`: another graph, or with `anew` False the same one with newer tensors."""
        self._lines = GraphLines(behind, self._glyphs)
        if anew:
            self._shut, self._unfolded, self.cursor = set(), set(), 0
            self.scroll_to(y=0, animate=False)
        self._rearrange()

    def mark(self, saves: Collection[tuple[int, int]]) -> None:
        """Mark the saves, by node and place among what it saved."""
        if self._marked != frozenset(saves):
            self._marked = frozenset(saves)
            self.refresh()

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def _rearrange(self) -> None:
        held = self.row.key if self.row is not None else None
        offset = self.cursor - self._top
        assert self._lines is not None
        self._rows = self._lines.behind.tree.rows(self._shut, self._unfolded)
        at = self._find(held)
        self.cursor = at if at is not None else max(0, min(self.cursor, len(self._rows) - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows) + 1)
        if self._top:
            self.scroll_to(y=max(0, self.cursor - offset), animate=False, force=True)
        self.refresh()
        self.post_message(self.Highlighted())

    def _find(self, key: tuple[str, int, int] | None) -> int | None:
        return next((at for at, row in enumerate(self._rows) if row.key == key), None)

    def go_to(self, node: int, place: int | None = None) -> None:
        """Put the cursor on a node, or on what it saved, opening what hides it."""
        behind = self.behind
        if behind is None or node not in behind.reach:
            return
        nodes, folds = behind.tree.way_to(node)
        if place is not None:
            nodes = nodes | {node}
        if nodes & self._shut or folds - self._unfolded:
            self._shut -= nodes
            self._unfolded |= folds
            self._rearrange()
        kinds = (NODE, LEAF) if place is None else ("saved",)
        keys = {(kind, node, place or 0) for kind in kinds}
        at = next((at for at, row in enumerate(self._rows) if row.key in keys), None)
        if at is not None:
            self._move_to(at)

    def next_row(self, wanted: Callable[[Row], bool], step: int = 1) -> int | None:
        """Where the next row like that is, coming round at the end; None where there is none."""
        count = len(self._rows)
        ways = ((self.cursor + step * far) % count for far in range(1, count + 1))
        return next((at for at in ways if wanted(self._rows[at])), None)

    # -- drawing

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        cells, base = self.size.width, self.rich_style
        room = max(self.scrollable_content_region.width, 40)
        if y == 0:
            return self._strip(heading(room, self._glyphs), base + self._style("header"), cells)
        at = self._top + y - 1
        if self._lines is None or at >= len(self._rows):
            return Strip.blank(cells, base)
        row = self._rows[at]
        marked = row.save is not None and (row.node, row.save.place) in self._marked
        if at == self.cursor:
            base += self._style("cursor" if self.has_focus else "cursor-blurred")
        return self._strip(self._lines.row(row, room, marked), base, cells)

    # -- moving, opening

    def action_fold(self, opened: bool) -> None:
        """Open or close what is under the cursor; closing what belongs to a node goes to that."""
        row, behind = self.row, self.behind
        if row is None or behind is None:
            return
        if row.opened is not None and row.opened is not opened:
            self._toggle(row)
        elif not opened:
            owner = row.key[1] if row.kind not in (NODE, LEAF, FOLD) else behind.tree.parent.get(row.node)
            if owner is not None:
                self.go_to(owner)

    def _toggle(self, row: Row) -> None:
        kept = self._unfolded if row.kind == FOLD else self._shut
        kept.symmetric_difference_update({row.node})
        self._rearrange()

    def action_enter(self) -> None:
        """Open or close a node; follow a link; go to a tensor."""
        row = self.row
        if row is None:
            return
        if row.kind == LINK:
            self.go_to(row.node)
        elif row.kind in (NODE, FOLD):
            if row.opened is not None:
                self._toggle(row)
        else:
            self.post_message(self.Chosen())

    def action_open_all(self, opened: bool) -> None:
        """Open or close every node and repetition."""
        behind = self.behind
        if behind is None:
            return
        self._shut = set() if opened else set(behind.reach.order)
        self._unfolded = set(behind.tree.folds) if opened else set()
        self._rearrange()
