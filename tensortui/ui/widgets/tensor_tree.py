"""The table of tensors under their storages: a hundred thousand rows, of which only those on screen are drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import work
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from tensortui.analysis.accounting import Accounts
from tensortui.model import CATEGORIES, Change, Sample, Storage, Tensor
from tensortui.ui.arranging import Arranging
from tensortui.ui.columns import BY_KEY, COLUMNS, NAME, lay_out, needs_of
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.groups import STORAGE, Group, View
from tensortui.ui.lines import Lines
from tensortui.ui.marks import Marks
from tensortui.ui.ordering import Steps
from tensortui.ui.rows import SMALL, Rows
from tensortui.ui.widgets.cursor_view import CursorView


class TensorTree(CursorView):
    """Shows `rows`. The cursor stays on the same tensor or group whatever happens to the rows around it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"tree--{name}" for name in (*CATEGORIES, "header", "sorted", "cursor", "cursor-blurred", "dim", "bytes")),
        *(f"tree--{name}" for name in ("bar", "low", "rest", "name", "warning", "new", "changed", "gone")),
    }
    DEFAULT_CSS = """
    TensorTree {
        height: 1fr; background: $surface; color: $foreground; overflow-x: hidden; scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .tree--header { background: $panel; color: $dim; }
        .tree--sorted { background: $panel; color: $strong; text-style: bold; }
        .tree--cursor { background: $cursor; }
        .tree--cursor-blurred { background: $cursor-blurred; }
        .tree--dim { color: $dim; }
        .tree--bytes { color: $strong; }
        .tree--bar { color: $bar; }
        .tree--rest { color: $faint; }
        .tree--low { color: $warning; }
        .tree--name { color: $strong; }
        .tree--warning { color: $warning; text-style: bold; }
        .tree--new { color: $success; text-style: bold; }
        .tree--changed { color: $accent; }
        .tree--gone { color: $error; }
    }
    """ + "".join(f"TensorTree .tree--{name} {{ color: $cat-{name}; }}\n" for name in CATEGORIES)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="tree.up", tooltip="one row up"),
        Binding("down,j", "move(1)", "Down", show=False, id="tree.down", tooltip="one row down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="tree.page-up", tooltip="one page up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="tree.page-down", tooltip="one page down"),
        Binding("home,g", "edge(0)", "Top", show=False, id="tree.top", tooltip="first row"),
        Binding("end,G", "edge(-1)", "Bottom", show=False, id="tree.bottom", tooltip="last row"),
        Binding("left", "fold(False)", "Close", show=False, id="tree.close", tooltip="close, or go to the storage"),
        Binding("right,l", "fold(True)", "Open", show=False, id="tree.open", tooltip="open the storage or group"),
        Binding("enter", "enter", "Open", id="tree.enter", tooltip="open or close; on a tensor: its details"),
        Binding("E", "open_all(True)", "Open all", show=False, id="tree.open-all", tooltip="open every group"),
        Binding("C", "open_all(False)", "Close all", show=False, id="tree.close-all", tooltip="close every group"),
        Binding("s", "sort(1)", "Sort", id="tree.sort", tooltip="sort by the next column"),
        Binding("S", "reverse", "Reverse", show=False, id="tree.reverse", tooltip="turn the order round"),
        Binding("left_square_bracket", "pan(-1)", "Pan left", show=False, id="tree.pan-left", key_display="[",
                tooltip="columns to the left"),
        Binding("right_square_bracket", "pan(1)", "Pan right", show=False, id="tree.pan-right", key_display="]",
                tooltip="columns to the right"),
    ]  # fmt: skip

    class Highlighted(CursorView.Highlighted):
        """The cursor is on another row, or its row reads differently."""

    class Opened(Message):
        """Enter or a second click on a tensor."""

    class Arranged(Message):
        """The rows are in another order, or others: what was asked for is done."""

    def __init__(self, rows: Rows, glyphs: Glyphs, clock: Callable[[], float], *, id: str | None = None) -> None:
        """Show `rows`, drawn with `glyphs`; `clock` times the marks."""
        super().__init__(id=id)
        self.rows = rows
        self.lines = Lines(rows, glyphs)
        self.cursor = 0
        self._layout = lay_out(80)
        self._needs: dict[str, int] = {}  # the most cells that each column has filled since the view last changed
        self._pan = 0
        self.chosen: tuple[str, ...] = ()
        self._wanted: tuple[str, Any] | None = None  # the row the user chose
        self._held: tuple[str, Any] | None = None  # the row under the cursor
        self._marks = Marks(clock)
        self._styles: dict[str, Style] = {}
        self._arranging = Arranging(rows)
        self._large = False
        self._goal: int | None = None  # a tensor to go to once its row is there

    # -- new data, and other ways to look at it

    @property
    def busy(self) -> bool:
        """Whether rows are being arranged; a new sample waits until that is done."""
        return self._arranging.busy

    @property
    def view(self) -> View:
        """What is asked for; the rows may not be there yet."""
        return self._arranging.view

    def take(self, sample: Sample, accounts: Accounts, change: Change | None, news: Change | None) -> None:
        """Move on to a newer sample, which `change` tells from the one before; `news` is what of it gets a mark."""
        gone = news.gone if news is not None else frozenset()
        held = self.selected
        ghosts = self._marks.leaving(self.visible_tensors(), gone, held.id if held is not None else None, self._body)
        before = self.rows.sample

        def update() -> Steps:
            yield from self.rows.update(sample, accounts, change, ghosts)
            self._marks.begin(news, before)

        self._large = max(len(sample.tensors), len(sample.storages)) > SMALL
        self._arranging.update(update)
        self._work()

    def look(self, opened: bool | None = None, **view: Any) -> None:
        """Group, sort or filter otherwise, or open or close every group."""
        self._arranging.look(opened, **view)
        self._needs = {}
        self.refresh(Region(0, 0, self.size.width, 1))  # the mark of the sorted column comes first
        self._work()

    def _work(self) -> None:
        """Do what there is to do: at once where the table is small, else in pieces between which keys are served."""
        if self._large:
            self._in_pieces()
        else:
            for _ in self._steps():
                pass

    def _steps(self) -> Steps:
        yield from self._arranging.steps()
        self.rows_changed()
        if self._goal is not None and self.go_to(self._goal):
            self._goal = None
        self.post_message(self.Arranged())

    @work(group="rows", exclusive=True)
    async def _in_pieces(self) -> None:
        for _ in self._steps():
            await asyncio.sleep(0)

    def visible_tensors(self) -> list[Tensor]:
        """The tensors of the rows on screen."""
        top = self._top
        rows = self.rows.order[top : top + self._body]
        return [tensor for row in rows if row >= 0 and (tensor := self.rows.tensor(row)) is not None]

    def expire_marks(self) -> None:
        """Take the marks off when their moment is over, and the rows of tensors that are gone."""
        if not self._marks.expire():
            return
        self.refresh()
        if self.rows.ghosts:
            self._arranging.update(self.rows.drop_ghosts)
            self._work()

    def toggle(self, key: Any, opened: bool | None = None) -> bool:
        """Open or close one group; returns whether anything changed."""
        if not self.rows.toggle(key, opened):
            return False
        self.rows_changed()
        if self.busy:
            self._work()  # anew, from the rows as they are now
        return True

    def rows_changed(self) -> None:
        """The rows were arranged anew: keep the cursor on what it was on, at the same place of the screen."""
        offset = self.cursor - self._top
        # What was chosen by hand comes back to the cursor when a filter or a closed group no longer hides it.
        at = self.rows.find(self._wanted) if self._wanted is not None else None
        if at is None and self._held is not None:
            at = self.rows.find(self._held)
        count = len(self.rows.order)
        self.cursor = at if at is not None else max(0, min(self.cursor, count - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, count + 1)
        if at is not None and self._top:
            self.scroll_to(y=max(0, at - offset), animate=False, force=True)
        self._hold()
        self._fit_columns()
        self.refresh()
        self.post_message(self.Highlighted())

    # -- what is where

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.rows.order)

    @property
    def selected(self) -> Tensor | None:
        """The tensor under the cursor."""
        row = self.row
        return self.rows.tensor(row) if row is not None and row >= 0 else None

    @property
    def storage(self) -> Storage | None:
        """The storage whose header is under the cursor."""
        key = self._key(self.row)
        if self.rows.view.group_by != STORAGE or self.rows.sample is None or key is None:
            return None
        return self.rows.sample.storages.get(key)

    @property
    def group(self) -> Group | None:
        """The group, other than a storage, whose header is under the cursor."""
        key = self._key(self.row)
        return None if key is None or self.rows.view.group_by == STORAGE else Group(key)

    @property
    def row(self) -> int | None:
        """The row under the cursor."""
        return self.rows.order[self.cursor] if 0 <= self.cursor < len(self.rows.order) else None

    def _hold(self) -> None:
        row = self.row
        self._held = self.rows.identity(row) if row is not None else None

    @property
    def place(self) -> tuple[str, Any] | None:
        """What the cursor is on, to come back to."""
        return self._held

    def return_to(self, place: tuple[str, Any] | None) -> None:
        """Put the cursor back on what it was on."""
        at = self.rows.find(place) if place is not None else None
        if at is not None:
            self._move_to(at)

    def aim(self, tid: int) -> None:
        """Put the cursor on a tensor as soon as the rows hold it."""
        self._goal = tid

    def go_to(self, tid: int) -> bool:
        """Put the cursor on a tensor, opening its group; False when the rows do not hold it."""
        tensor = self.rows.tensor(tid)
        if tensor is None or tid not in self.rows.members.get(self.rows.key_of(tensor), ()):
            return False
        self.toggle(self.rows.key_of(tensor), True)
        at = self.rows.find(("tensor", tid))
        if at is None:
            return False
        self._move_to(at)
        return True

    def search(self, needle: str, step: int, *, here: bool = False) -> bool:
        """Go to the next (`step` 1) or previous (-1) row whose name holds `needle`, closed groups included."""
        row = self.row
        tid = self.rows.search(needle, row, step, here=here) if row is not None else None
        return tid is not None and self.go_to(tid)

    def _key(self, row: int | None) -> Any:
        return self.rows.key_at(row) if row is not None else None

    # -- drawing

    def notify_style_update(self) -> None:
        """Forget the styles of the old theme."""
        super().notify_style_update()
        self._styles.clear()

    def on_resize(self, event: Resize) -> None:
        """Choose the columns for the new width."""
        self._needs = needs_of(self.visible_tensors(), self.lines.glyphs)
        self._lay_out()
        self._keep_in_sight()

    def _lay_out(self) -> None:
        room = max(self.scrollable_content_region.width, 20)
        self._layout = lay_out(room, self._pan, self.chosen, self._needs)
        self.refresh()

    def _fit_columns(self) -> None:
        """Give columns that are short of room what they need; they keep it until the view changes, lest all jumps."""
        self._needs = needs_of(self.visible_tensors(), self.lines.glyphs, self._needs)
        if lay_out(self._layout.width, self._pan, self.chosen, self._needs) != self._layout:
            self._lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Fit the rows that came on screen."""
        super().watch_scroll_y(old_value, new_value)
        self._fit_columns()

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self.get_component_rich_style(f"tree--{name}", partial=True) if name else Style()
            self._styles[name] = style
        return style

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        cells = self.size.width
        base = self.rich_style
        if y == 0:
            pieces = self.lines.header(self._layout, self.view)
            return self._strip(pieces, base + self._style("header"), cells)
        at = self._top + y - 1
        if at >= len(self.rows.order):
            if y == 2 and not self.rows.order and self.rows.sample is not None:
                return self._strip([(f"  {self.lines.nothing()}", "dim")], base, cells)
            return Strip.blank(cells, base)
        row = self.rows.order[at]
        pieces = self.lines.row(row, self._layout, self._marks.of(self.rows.tensor(row)) if row >= 0 else "")
        if at == self.cursor:
            base += self._style("cursor" if self.has_focus else "cursor-blurred")
        return self._strip(pieces, base, cells)

    def _strip(self, pieces: list[tuple[str, str]], base: Style, cells: int) -> Strip:
        strip = Strip([Segment(text, base + self._style(style)) for text, style in pieces if text])
        return strip.adjust_cell_length(cells, base)

    # -- moving

    def _moved(self) -> None:
        self._hold()
        self._wanted = self._held

    # -- opening, sorting

    def action_fold(self, opened: bool) -> None:
        """Open or close what is under the cursor; closing on a tensor goes to its group."""
        row = self.row
        if row is None:
            return
        if row < 0:
            self.toggle(self.rows.key_at(row), opened)
        elif opened:
            self._unbundle(row)
        elif (first := self.rows.rebundle(row)) is not None:
            self.rows_changed()
            self._move_to(self.rows.order.index(first))
        elif (tensor := self.rows.tensor(row)) is not None and not self.rows.is_top(tensor):
            at = self.rows.find(("group", self.rows.key_of(tensor)))
            if at is not None:
                self._move_to(at)

    def action_enter(self) -> None:
        """Open or close a group; show the details of a tensor."""
        row = self.row
        if row is not None and row >= 0:
            if not self._unbundle(row):
                self.post_message(self.Opened())
        elif row is not None:
            self.toggle(self.rows.key_at(row))

    def _unbundle(self, row: int) -> bool:
        if not self.rows.unbundle(row):
            return False
        self.rows_changed()
        if self.busy:
            self._work()
        return True

    def action_open_all(self, opened: bool) -> None:
        """Open or close every group."""
        self.look(opened)

    def action_sort(self, step: int = 1) -> None:
        """Sort by the next column on screen."""
        shown = [column.key for column in (NAME, *self._layout.columns)]
        at = shown.index(self.view.sort_by) if self.view.sort_by in shown else -1
        self.sort_by(shown[(at + step) % len(shown)])

    def sort_by(self, key: str) -> None:
        """Sort by a column, in the direction that is most wanted of it; a second time the other way round."""
        reverse = not self.view.reverse if key == self.view.sort_by else BY_KEY[key].descending
        self.look(sort_by=key, reverse=reverse)

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.sort_by(self.view.sort_by)

    def action_pan(self, step: int) -> None:
        """Show the columns further to the right or left."""
        last = len(self.chosen or COLUMNS[1:]) - 1
        self._pan = max(0, min(last, self._pan + step))
        self._lay_out()

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The columns on screen after the name; those chosen, also where they do not fit."""
        return self.chosen or tuple(column.key for column in self._layout.columns)

    def choose_columns(self, keys: tuple[str, ...]) -> None:
        """Show these columns after the name, as many as fit; () leaves it to their importance."""
        self.chosen, self._pan = keys, 0
        self._lay_out()

    # -- the mouse

    def on_click(self, event: Click) -> None:
        """Header: sort by the column. Row: the cursor; on the arrow, or twice: open."""
        if event.y == 0:
            column = self._layout.column_at(event.x)
            if column is not None:
                self.sort_by(column)
            return
        at = self._top + event.y - 1
        if at >= len(self.rows.order):
            return
        self._move_to(at)
        if event.chain == 2 or (self.rows.order[at] < 0 and event.x < 4):
            self.action_enter()
