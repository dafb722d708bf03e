"""The application: one source, the screens over it, and the actions that every screen has."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType

from tensortui.sources.protocol import Source
from tensortui.ui import glyphs
from tensortui.ui.feed import Feed
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.theme import DARK, LIGHT, THEMES

Open = Callable[[], Awaitable[Source]]


@dataclass(frozen=True)
class Picker:
    """How processes are listed and attached to: `processes` may take a while and runs in a thread of its own."""

    processes: Callable[[], Sequence[Any]]
    attach: Callable[[int], Awaitable[Source]]


class TensortuiApp(App[None]):
    """Shows a source; without one, lets a process be picked first."""

    TITLE = "tensortui"
    CSS = "Screen { background: $background; } Toast { background: $panel; }"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "quit", "Quit", id="app.quit", tooltip="leave; the program goes on undisturbed"),
        Binding("question_mark", "help", "Help", id="app.help", key_display="?", tooltip="keys and explanations"),
    ]

    def __init__(
        self,
        open_source: Open | None = None,
        *,
        picker: Picker | None = None,
        log: Path | None = None,
        ascii_only: bool | None = None,
        light: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Show the source that `open_source` connects to, or else the `picker`."""
        super().__init__()
        self._open = open_source
        self.picker = picker
        self.log_path = log
        self.glyphs = glyphs.choose(glyphs.ascii_only(os.environ) if ascii_only is None else ascii_only)
        self.clock = clock
        self.feed: Feed | None = None
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = LIGHT.name if light else DARK.name

    def on_mount(self) -> None:
        """Open the source, or the picker."""
        if self._open is not None:
            self.connect(self._open)

    @work(group="connect", exclusive=True, exit_on_error=False)
    async def connect(self, open_source: Open) -> None:
        """Open a source and show it."""
        await self.show_source(await open_source())

    async def show_source(self, source: Source) -> None:
        """Show the tensors of `source`."""
        self.feed = Feed(source, self.clock)
        self.follow(self.feed)
        await self.push_screen(TensorsScreen(self.feed, self.glyphs, self.clock))

    @work(group="feed", exclusive=True, exit_on_error=False)
    async def follow(self, feed: Feed) -> None:
        """Read the source until it ends."""
        try:
            await feed.read()
        finally:
            await feed.source.close()


def run_app(open_source: Open | None = None, **options: Any) -> None:
    """Run the application until it is quit."""
    TensortuiApp(open_source, **options).run()
