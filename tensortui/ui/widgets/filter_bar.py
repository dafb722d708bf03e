"""The line above the table: the filter and the search being typed, how rows are grouped and sorted, how many show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from tensortui.analysis.units import format_count
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.groups import View
from tensortui.ui.lines import show
from tensortui.ui.markup import Piece, content

FILTER, SEARCH = "filter", "search"
PLACEHOLDERS = {
    FILTER: "(type one, e.g. device:cuda dtype:bf16 >10MiB name~attn category:saved)",
    SEARCH: "(type a part of a name)",
}


class Entry(Input):
    """Where a filter or a search is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave(False)", "Leave", show=False, id="entry.cancel", tooltip="as it was before"),
        Binding("enter,down", "leave(True)", "Keep", show=False, id="entry.keep", tooltip="keep it, back to the table"),
    ]

    class Left(Message):
        """The typing is over; `kept` is False when it is to be as before."""

        def __init__(self, kept: bool) -> None:
            super().__init__()
            self.kept = kept

    def on_blur(self) -> None:
        """A click elsewhere: what was typed is kept."""
        if self.app.focused is not None and self.app.focused is not self:
            self.post_message(self.Left(True))

    def action_leave(self, kept: bool) -> None:
        """Say that the typing is over."""
        self.post_message(self.Left(kept))


class FilterBar(Horizontal):
    """One line; while something is typed its left half is an input."""

    DEFAULT_CSS = """
    FilterBar {
        height: 1; color: $foreground;
        Entry {
            width: 1fr; height: 1; border: none; padding: 0; background: $cursor-blurred; color: $strong; display: none;
        }
        Entry:focus { border: none; }
        .word { width: auto; color: $dim; }
        .text { width: 1fr; text-wrap: nowrap; }
        .facts { width: auto; text-wrap: nowrap; }
    }
    FilterBar.-typing Entry { display: block; }
    FilterBar.-typing .text { display: none; }
    FilterBar.-typing .facts { max-width: 76%; }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        """Start without a filter."""
        super().__init__()
        self._glyphs = glyphs
        self._word = Static(" filter ", markup=False, classes="word")
        self._text = Static("", markup=False, classes="text")
        self._facts = Static("", markup=False, classes="facts")
        self.entry = Entry(select_on_focus=False)
        self.entry.cursor_blink = False  # nothing moves that tells nothing
        self.kind = FILTER

    def compose(self) -> Iterator[Static | Input]:
        """The word, the input or the text, the facts."""
        yield self._word
        yield self.entry
        yield self._text
        yield self._facts

    @property
    def typing(self) -> bool:
        """Whether something is being typed."""
        return self.has_class("-typing")

    def start(self, kind: str, value: str) -> None:
        """Let the user type a filter or a search."""
        self.kind = kind
        self._word.update(f" {kind} ")
        self.entry.placeholder = PLACEHOLDERS[kind]
        self.add_class("-typing")
        self.entry.value = value
        self.entry.cursor_position = len(value)
        self.screen.set_focus(self.entry)  # at once: the next key is for it

    def stop(self) -> None:
        """The typing is over."""
        self._word.update(" filter ")
        self.remove_class("-typing")

    def show(self, filter_text: str, view: View, *, shown: int, whole: int) -> None:
        """Say how the table is filtered, grouped and sorted."""
        if filter_text:
            self._text.update(content([(show(filter_text, self._glyphs), "bold $strong")]))
        else:
            self._text.update(content([("none", "$faint")]))
        arrow = self._glyphs.descending if view.reverse else self._glyphs.ascending
        facts: list[Piece] = []
        if not self.typing or self.size.width > 100:
            facts += [("  group ", "$dim"), (view.group_by, ""), ("   sort ", "$dim"), (f"{view.sort_by} {arrow}", "")]
        if filter_text:
            facts += [("   ", ""), (format_count(shown), "bold $strong"), (f" of {format_count(whole)} shown", "$dim")]
        self._facts.update(content([*facts, (" ", "")]))
