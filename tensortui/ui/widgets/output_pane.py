"""What the program prints, read from the file that its output goes to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Log, Static

from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show

KEEP_LINES = 2000
TAIL_BYTES = 64 * 1024  # a long output is shown from its end
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def plain_lines(text: str, glyphs: Glyphs) -> list[str]:
    """Finished lines as a terminal would leave them: escapes gone, what a carriage return overwrote gone too."""
    return [show(_ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2], glyphs) for line in text.split("\n")]


class OutputPane(Vertical):
    """Follows a file while it is shown."""

    DEFAULT_CSS = """
    OutputPane { height: 35%; min-height: 4; border-top: solid $border; display: none; }
    OutputPane Static { height: 1; color: $dim; text-wrap: nowrap; }
    OutputPane Log { height: 1fr; background: $surface; color: $foreground; scrollbar-size: 1 1; }
    """

    def __init__(self, path: Path | None, glyphs: Glyphs) -> None:
        """Follow the file at `path`; None when the output is not ours to show."""
        super().__init__()
        self._path = path
        self._glyphs = glyphs
        self._lines_view = Log(highlight=False, max_lines=KEEP_LINES)
        self._lines_view.can_focus = False
        self._at = -1
        self._rest = b""

    def compose(self) -> Iterator[Widget]:
        """A title and the lines."""
        where = "not captured: it goes where the program sends it (tensortui run shows it here)"
        yield Static(f" program output  {show(str(self._path), self._glyphs) if self._path else where}", markup=False)
        yield self._lines_view

    def follow(self) -> None:
        """Read what was written since."""
        if self._path is None or not self.display:
            return
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if self._at < 0:
                    self._at = max(0, size - TAIL_BYTES)
                elif size < self._at:  # the file was emptied and began anew
                    self._at, self._rest = 0, b""
                if size == self._at:
                    return
                file.seek(max(self._at, size - TAIL_BYTES))
                data = self._rest + file.read(TAIL_BYTES)
                self._at = file.tell()
        except OSError:
            return
        whole, newline, self._rest = data.rpartition(b"\n")
        self._rest = self._rest[-TAIL_BYTES:]
        if newline:
            self._lines_view.write_lines(plain_lines(whole.decode("utf-8", "replace"), self._glyphs))
