"""Help: the keys of the screen it was opened from, taken from its bindings, and its page of the manual."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Markdown, Static

from tensortui.ui.glyphs import ASCII, UNICODE, Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import Piece, content
from tensortui.ui.widgets.key_line import KeyLine

NAMES = {
    "slash": "/", "question_mark": "?", "left_square_bracket": "[", "right_square_bracket": "]", "full_stop": ".",
    "comma": ",", "pageup": "pgup", "pagedown": "pgdn", "escape": "esc", "space": "space",
}  # fmt: skip
MANUAL = Path(__file__).resolve().parents[2] / "manual"
KEY_CELLS = 11
GLYPHS = ("warn", "gone", "ellipsis", "view", "opened", "closed")  # that the manual shows, beside the categories
WIDE = 120


def key_text(keys: str) -> str:
    """The keys of a binding as they stand on a keyboard."""
    return " ".join(NAMES.get(key, key).replace("ctrl+", "^") for key in keys.split(","))


def key_table(groups: Sequence[tuple[str, Iterable[BindingType]]]) -> Content:
    """One line a binding, under the title of its group."""
    pieces: list[Piece] = []
    for title, bindings in groups:
        pieces.append((f"{title}\n", "bold $primary"))
        for binding in bindings:
            assert isinstance(binding, Binding)
            what = binding.tooltip or binding.description
            pieces += [(f" {key_text(binding.key):<{KEY_CELLS}}", "bold $strong"), (f"{what}\n", "")]
        pieces.append(("\n", ""))
    return content(pieces)


def in_ascii(text: str) -> str:
    """A page of the manual as it is written, with the glyphs that an ASCII terminal shows in their place."""
    for name in GLYPHS:
        text = text.replace(getattr(UNICODE, name), getattr(ASCII, name))
    for category, glyph in UNICODE.category.items():
        text = text.replace(f"{glyph} ", f"{ASCII.category[category]} ")
    text = text.replace("→", "->")
    return show(text.replace("\n", "\0"), ASCII).replace("\\x00", "\n")


class HelpScreen(ModalScreen[None]):
    """Keys at the left, the manual at the right; one above the other where there is little room."""

    DEFAULT_CSS = """
    HelpScreen {
        background: $background; layout: vertical;
        #head { height: 1; background: $panel; color: $strong; text-style: bold; }
        #parts { height: 1fr; }
        #keys { width: 1fr; height: auto; padding: 1 2; }
        #left { width: 64; height: 1fr; border-right: solid $border; scrollbar-size-vertical: 1; }
        #right { width: 1fr; height: 1fr; scrollbar-size-vertical: 1; }
        .page { padding: 1 2; height: auto; }
        Markdown { padding: 1 2; margin: 0; background: $background; }
        MarkdownH1 { content-align: left middle; color: $primary; margin: 0 0 1 0; }
        MarkdownH2 { color: $primary; text-style: bold; margin: 1 0; }
        MarkdownH2, MarkdownH1 { background: $background; }
    }
    HelpScreen.-narrow #parts { layout: vertical; overflow-y: auto; scrollbar-size-vertical: 1; }
    HelpScreen.-narrow #left { width: 1fr; height: auto; border-right: none; }
    HelpScreen.-narrow #right { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close", id="help.close", tooltip="back to the screen"),
        Binding("down,j", "scroll(1)", "Down", show=False, id="help.down", tooltip="scroll down"),
        Binding("up,k", "scroll(-1)", "Up", show=False, id="help.up", tooltip="scroll up"),
        Binding("pagedown,space", "scroll(20)", "Page down", show=False, id="help.page-down", tooltip="one page down"),
        Binding("pageup", "scroll(-20)", "Page up", show=False, id="help.page-up", tooltip="one page up"),
    ]

    def __init__(self, page: str, groups: Sequence[tuple[str, Iterable[BindingType]]], glyphs: Glyphs) -> None:
        """Show the manual's `page` and the keys of `groups`."""
        super().__init__()
        self._page = page
        self._groups = groups
        self._glyphs = glyphs

    def compose(self) -> Iterator[Widget]:
        """Both parts, placed for the width there is from the first frame on."""
        self._place(self.app.size.width)
        text = (MANUAL / f"{self._page}.md").read_text("utf-8")
        yield Static(f" help: {self._page}", id="head", markup=False)
        with Horizontal(id="parts"):
            with VerticalScroll(id="left", can_focus=False):
                yield Static(key_table(self._groups), id="keys", markup=False)
            with VerticalScroll(id="right", can_focus=False):
                if self._glyphs is ASCII:
                    yield Static(in_ascii(text), classes="page", markup=False)
                else:
                    yield Markdown(text, open_links=False)
        yield KeyLine((("esc", "back"), ("up down", "scroll"), ("pgdn", "next page")))

    def on_resize(self, event: Resize) -> None:
        """Place the parts anew."""
        self._place(event.size.width)

    def _place(self, room: int) -> None:
        self.set_class(room < WIDE, "-narrow")

    def action_scroll(self, lines: int) -> None:
        """Scroll what is too long."""
        narrow = self.has_class("-narrow")
        for part in ("#parts",) if narrow else ("#left", "#right"):
            self.query_one(part).scroll_relative(y=lines, animate=False)
