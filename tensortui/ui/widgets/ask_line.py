"""A line on which something is asked: a word, what was asked last, and an input while it is typed."""

from __future__ import annotations

from collections.abc import Iterator

from textual.containers import Horizontal
from textual.widgets import Static

from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import content
from tensortui.ui.widgets.filter_bar import Entry


class AskLine(Horizontal):
    """Says what can be asked and by which key; the answer stands elsewhere."""

    DEFAULT_CSS = """
    AskLine {
        height: 1;
        Entry {
            width: 1fr; height: 1; border: none; padding: 0; background: $cursor-blurred; color: $strong; display: none;
        }
        Entry:focus { border: none; }
        .word { width: auto; color: $primary; text-style: bold; }
        .text { width: 1fr; text-wrap: nowrap; }
    }
    AskLine.-typing Entry { display: block; }
    AskLine.-typing .text { display: none; }
    """

    def __init__(self, word: str, key: str, example: str, glyphs: Glyphs, *, id: str) -> None:
        """`word` says what it is about, `key` opens it, `example` shows what to type."""
        super().__init__(id=id)
        self._word, self._key, self._example, self._glyphs = word, key, example, glyphs
        self._text = Static("", markup=False, classes="text")
        # All of it is selected: what is typed takes the place of what was asked last.
        self.entry = Entry(placeholder=_hint(example), select_on_focus=True)
        self.entry.cursor_blink = False
        self.asked = ""

    def compose(self) -> Iterator[Static | Entry]:
        """The word, the input or the text."""
        yield Static(f" {self._word}  ", markup=False, classes="word")
        yield self.entry
        yield self._text

    def on_mount(self) -> None:
        """Say how to begin."""
        self.stop(self.asked)

    @property
    def typing(self) -> bool:
        """Whether something is being typed."""
        return self.has_class("-typing")

    def suggest(self, example: str) -> None:
        """Show another example of what to type."""
        if example != self._example:
            self._example = example
            self.entry.placeholder = _hint(example)
            if self.is_mounted and not self.typing:
                self.stop(self.asked)

    def start(self) -> None:
        """Let the user type."""
        self.add_class("-typing")
        self.entry.value = self.asked
        self.screen.set_focus(self.entry)  # at once: the next key is for it

    def stop(self, asked: str) -> None:
        """The typing is over; `asked` is what stays."""
        self.asked = asked
        self.remove_class("-typing")
        if asked:
            self._text.update(content([(show(asked, self._glyphs), "bold $strong")]))
        else:
            example = (f", e.g. {self._example}", "$dim")
            self._text.update(content([("press ", "$dim"), (self._key, "bold"), example]))


def _hint(example: str) -> str:
    return f"(e.g. {example})"
