"""Rows below a header, one of which is under the cursor: moving it, and keeping it in sight."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.events import Click, Resize
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip


class CursorView(ScrollView, can_focus=True):
    """A view that draws `row_count` rows itself, a line each, below a header that does not scroll."""

    class Highlighted(Message):
        """The cursor is on another row."""

    cursor = 0

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    @property
    def _top(self) -> int:
        return int(self.scroll_offset.y)

    @property
    def _body(self) -> int:
        return max(self.size.height - 1, 1)

    def _keep_in_sight(self) -> None:
        """Scroll to the cursor where another size of the view has left it out."""
        if not 0 <= self.cursor - self._top < self._body:
            self.scroll_to(y=max(0, self.cursor - self._body + 1), animate=False)

    def _move_to(self, at: int) -> None:
        old, new = self.cursor, max(0, min(self.row_count - 1, at))
        self.cursor = new
        self._moved()
        if new < self._top:
            self.scroll_to(y=new, animate=False)
        elif new >= self._top + self._body:
            self.scroll_to(y=new - self._body + 1, animate=False)
        for line in {old, new}:
            self.refresh(Region(0, line - self._top + 1, self.size.width, 1))
        if old != new:
            self.post_message(self.Highlighted())

    def _moved(self) -> None:
        """Note where the cursor is now."""

    def action_move(self, step: int) -> None:
        """Move the cursor by rows."""
        self._move_to(self.cursor + step)

    def action_page(self, step: int) -> None:
        """Move the cursor by pages."""
        self._move_to(self.cursor + step * self._body)

    def action_edge(self, at: int) -> None:
        """Move the cursor to the first or last row."""
        self._move_to(0 if at == 0 else self.row_count - 1)


class RowView(CursorView):
    """A cursor view whose lines are pieces of text with the names of styles, as the classes of its components."""

    PREFIX: ClassVar[str]  # of these classes, before `--`

    def __init__(self, *, id: str | None = None) -> None:
        """Show nothing yet."""
        super().__init__(id=id)
        self._styles: dict[str, Style] = {}

    def notify_style_update(self) -> None:
        """Forget the styles of the old theme."""
        super().notify_style_update()
        self._styles.clear()

    def on_resize(self, event: Resize) -> None:
        """Keep the cursor in sight."""
        self._keep_in_sight()

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self.get_component_rich_style(f"{self.PREFIX}--{name}", partial=True) if name else Style()
            self._styles[name] = style
        return style

    def _strip(self, pieces: list[tuple[str, str]], base: Style, cells: int) -> Strip:
        strip = Strip([Segment(text, base + self._style(style)) for text, style in pieces if text])
        return strip.adjust_cell_length(cells, base)

    def action_enter(self) -> None:
        """Do what Enter does on the row under the cursor."""
        raise NotImplementedError

    def on_click(self, event: Click) -> None:
        """The cursor; twice: what Enter does."""
        at = self._top + event.y - 1
        if event.y == 0 or at >= self.row_count:
            return
        self._move_to(at)
        if event.chain == 2:
            self.action_enter()
