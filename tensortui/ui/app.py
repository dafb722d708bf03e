"""The application: one source, the screens over it, and the actions that every screen has."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.scrollbar import ScrollBar, ScrollBarRender

from tensortui.analysis.text import safe
from tensortui.errors import TensortuiError
from tensortui.sources.protocol import Source
from tensortui.ui import glyphs
from tensortui.ui.commands import Commands
from tensortui.ui.feed import Feed
from tensortui.ui.screens.confirm import ConfirmScreen
from tensortui.ui.screens.failed import FailedScreen
from tensortui.ui.screens.help import HelpScreen
from tensortui.ui.screens.picker import PickerScreen
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.theme import DARK, LIGHT, THEMES
from tensortui.ui.widgets.tensor_tree import TensorTree

Open = Callable[[], Awaitable[Source]]


@dataclass(frozen=True)
class Picker:
    """How processes are listed and attached to: `processes` may take a while and runs in a thread of its own."""

    processes: Callable[[], Sequence[Any]]
    attach: Callable[[int], Awaitable[Source]]


class PlainBars(ScrollBarRender):
    """Scroll bars of whole cells, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * len(ScrollBarRender.VERTICAL_BARS)
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * len(ScrollBarRender.HORIZONTAL_BARS)


class TensortuiApp(App[None]):
    """Shows a source; without one, lets a process be picked first."""

    TITLE = "tensortui"
    CSS = """
    Toast { background: $panel; }
    SearchIcon { display: none; }
    TensortuiApp.-ascii Inspector { border-left: ascii $border; }
    TensortuiApp.-ascii Inspector.-below { border-left: none; border-top: ascii $border; }
    TensortuiApp.-ascii OutputPane, TensortuiApp.-ascii #detail { border-top: ascii $border; }
    TensortuiApp.-ascii ConfirmScreen Vertical { border: ascii $border; }
    """
    COMMANDS: ClassVar[set[Any]] = {Commands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "quit", "Quit", id="app.quit", tooltip="leave; the program goes on undisturbed"),
        Binding("t", "theme", "Theme", show=False, id="app.theme", tooltip="dark or light"),
        Binding("D", "detach", "Detach", show=False, id="app.detach", tooltip="end the agent in the program, and quit"),
        Binding("p", "processes", "Processes", show=False, id="app.processes", tooltip="back to the list of processes"),
        Binding(
            "ctrl+p",
            "command_palette",
            "Commands",
            show=False,
            id="app.commands",
            tooltip="every command, and any tensor by its name",
        ),
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
        self.set_class(self.glyphs is glyphs.ASCII, "-ascii")
        ScrollBar.renderer = PlainBars if self.glyphs is glyphs.ASCII else ScrollBarRender
        self.clock = clock
        self.feed: Feed | None = None
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = LIGHT.name if light else DARK.name

    def on_mount(self) -> None:
        """Open the source, or the picker."""
        if self._open is not None:
            self.connect(self._open)
        elif self.picker is not None:
            self.push_screen(PickerScreen(self.picker, self.glyphs))

    @work(group="connect", exclusive=True, exit_on_error=False)
    async def connect(self, open_source: Open) -> None:
        """Open a source and show it."""
        try:
            source = await open_source()
        except TensortuiError as error:
            await self.push_screen(FailedScreen(error))
        except OSError as error:
            await self.push_screen(FailedScreen(TensortuiError(f"The connection failed: {error}.", "Try it again.")))
        else:
            await self.show_source(source)

    async def show_source(self, source: Source) -> None:
        """Show the tensors of `source`."""
        self.feed = Feed(source, self.clock)
        self.follow(self.feed)
        await self.push_screen(TensorsScreen(self.feed, self.glyphs, self.clock, self.log_path))

    def action_theme(self) -> None:
        """Change between dark and light."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_help(self) -> None:
        """Show the keys and the manual page of the screen."""
        screen = self.screen
        page = getattr(screen, "MANUAL", None)
        if page is None:
            return
        groups: list[tuple[str, Sequence[BindingType]]] = [("this screen", type(screen).BINDINGS)]
        if isinstance(screen, TensorsScreen):
            groups.append(("the table", TensorTree.BINDINGS))
        groups.append(("everywhere", type(self).BINDINGS))
        self.push_screen(HelpScreen(page, groups))

    def action_processes(self) -> None:
        """Leave the source and go back to the picker."""
        if self.picker is not None and isinstance(self.screen, TensorsScreen):
            self.workers.cancel_group(self, "feed")
            self.pop_screen()

    def action_detach(self) -> None:
        """Ask, then end the agent in the target and quit."""
        feed = self.feed
        if feed is None or not isinstance(self.screen, TensorsScreen):
            return
        if "detach" in feed.source.missing:
            self.notify(safe(feed.source.missing["detach"]), markup=False, severity="warning")
            return
        detail = "The agent leaves the program, for every viewer, and nothing of it remains. The program goes on."
        self.push_screen(ConfirmScreen("End the agent and quit?", detail), self._detach_answered)

    def _detach_answered(self, yes: bool | None) -> None:
        if yes:
            self._leave()

    @work(group="detach", exclusive=True, exit_on_error=False)
    async def _leave(self) -> None:
        if self.feed is not None:
            with suppress(TensortuiError, OSError):  # a target that has gone has no agent left
                await self.feed.source.detach()
            self.exit()

    @work(group="feed", exclusive=True, exit_on_error=False)
    async def follow(self, feed: Feed) -> None:
        """Read the source until it ends."""
        try:
            await feed.read()
        finally:
            await feed.source.close()
