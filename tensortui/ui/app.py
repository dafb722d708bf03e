"""The application: one source, the screens over it, and the actions that every screen has."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.events import Event, Key, Resize
from textual.filter import LineFilter
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender

from tensortui.analysis.findings import Thresholds
from tensortui.errors import TensortuiError
from tensortui.sources.protocol import Source
from tensortui.ui import glyphs
from tensortui.ui.colourless import Colourless
from tensortui.ui.commands import Commands
from tensortui.ui.feed import Feed
from tensortui.ui.key_order import Keys, Passed
from tensortui.ui.lines import show
from tensortui.ui.node_count import NodeCount
from tensortui.ui.screens.confirm import ConfirmScreen
from tensortui.ui.screens.failed import FailedScreen
from tensortui.ui.screens.findings import FindingsScreen
from tensortui.ui.screens.graph import GraphScreen
from tensortui.ui.screens.growth import GrowthScreen
from tensortui.ui.screens.help import HelpScreen
from tensortui.ui.screens.holders import HoldersScreen
from tensortui.ui.screens.layout import LayoutScreen
from tensortui.ui.screens.picker import PickerScreen
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.theme import DARK, LIGHT, THEMES
from tensortui.ui.widgets.graph_tree import GraphTree
from tensortui.ui.widgets.growth_table import GrowthTable
from tensortui.ui.widgets.holder_tree import HolderTree
from tensortui.ui.widgets.tensor_tree import TensorTree
from tensortui.ui.widgets.too_small import cover

SAMPLE_SECONDS = 1.0
KEY_SECONDS = 0.5  # so long the next key waits at most for the one before
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
    Screen { layers: default cover; }
    Screen.-too-small { overflow: hidden hidden; }
    Toast { background: $panel; width: auto; max-width: 100%; }
    SearchIcon { display: none; }
    TensortuiApp.-ascii Inspector { border-left: ascii $border; }
    TensortuiApp.-ascii Inspector.-below { border-left: none; border-top: ascii $border; }
    TensortuiApp.-ascii OutputPane, TensortuiApp.-ascii #detail { border-top: ascii $border; }
    TensortuiApp.-ascii ConfirmScreen Vertical, TensortuiApp.-ascii ColumnsScreen Vertical { border: ascii $border; }
    TensortuiApp.-ascii #left { border-right: ascii $border; }
    TensortuiApp.-ascii HelpScreen.-narrow #left { border-right: none; }
    TensortuiApp.-ascii CommandPalette #--input { border-top: ascii $border; border-bottom: none; }
    TensortuiApp.-ascii CommandPalette CommandList { border-top: none; border-bottom: ascii $border; }
    """
    COMMANDS: ClassVar[set[Any]] = {Commands}
    NUMBERS: ClassVar[dict[type[Screen[Any]], int]] = {
        TensorsScreen: 1,
        LayoutScreen: 2,
        GraphScreen: 3,
        FindingsScreen: 6,
        GrowthScreen: 7,
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "quit", "Quit", id="app.quit", tooltip="leave; the program goes on undisturbed"),
        Binding("1", "show(1)", "Tensors", show=False, id="app.tensors", tooltip="the tensors"),
        Binding("2", "show(2)", "Layout", show=False, id="app.layout", tooltip="the layout of the selected tensor"),
        Binding("3", "show(3)", "Graph", show=False, id="app.graph", tooltip="the graph behind the selected tensor"),
        Binding("6", "show(6)", "Findings", show=False, id="app.findings", tooltip="what is worth telling of them"),
        Binding("7", "show(7)", "Growth", show=False, id="app.growth", tooltip="what becomes more with time"),
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
        thresholds: Thresholds | None = None,
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
        self.thresholds = thresholds
        self.feed: Feed | None = None
        self._node_count: NodeCount | None = None
        self._keys = Keys()
        self._colourless = Colourless()
        self.columns: tuple[str, ...] = ()  # those chosen for the table, for as long as this runs
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = LIGHT.name if light else DARK.name

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What is done to every line before it is written: with NO_COLOR the colours go."""
        return (self._colourless,) if self.no_color else super().get_line_filters()

    async def on_mount(self) -> None:
        """Open the source, or the picker."""
        self.screen_change_signal.subscribe(self, self._cover)
        if self._open is not None:
            self.connect(self._open)
        elif self.picker is not None:
            await self._show(PickerScreen(self.picker, self.glyphs))

    def on_resize(self, event: Resize) -> None:
        """Say whether there is room for anything."""
        if self.screen_stack:
            cover(self.screen, event.size)

    def _cover(self, screen: Screen[Any]) -> None:
        cover(screen, self.size)

    @work(group="connect", exclusive=True, exit_on_error=False)
    async def connect(self, open_source: Open) -> None:
        """Open a source and show it."""
        try:
            source = await open_source()
        except TensortuiError as error:
            await self._show(FailedScreen(error, self.glyphs))
        except OSError as error:
            failed = TensortuiError(f"The connection failed: {error}.", "Try it again.")
            await self._show(FailedScreen(failed, self.glyphs))
        else:
            await self.show_source(source)

    async def show_source(self, source: Source) -> None:
        """Show the tensors of `source`."""
        self.feed = Feed(source, self.clock, self.thresholds)
        self.follow(self.feed)
        self.judge(self.feed)
        self.watch_tensors(self.feed)
        await self._show(TensorsScreen(self.feed, self.glyphs, self.clock, self.log_path))

    async def _show(self, screen: Screen[None]) -> None:
        """Open a screen; keys that came before there was any are for the first one."""
        await self.push_screen(screen)
        self.call_later(self._passed, 0)

    async def on_event(self, event: Event) -> None:
        """Hand out each key when the one before is through."""
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
            return
        if event.key == "ctrl+j":  # what enter was before the terminal was ours
            event = Key("enter", "\r")
        if self._keys.leaves(event):
            await super().on_event(event)
        elif not self._keys.hold(event):
            await self._hand_out(event)

    async def _hand_out(self, key: Key) -> None:
        if not self.screen_stack:  # on the way out
            return
        target = self.focused or self.screen
        await super().on_event(key)
        number = self._keys.follow(target)
        # A screen that is closed meanwhile takes the mark with it.
        self.set_timer(KEY_SECONDS, partial(self._passed, number))

    async def on_passed(self, event: Passed) -> None:
        """A key had its effect."""
        if self.screen_stack and not self._keys.again(event, self.focused or self.screen):
            await self._passed(event.number)

    async def _passed(self, number: int) -> None:
        key = self._keys.over(number)
        if key is not None:
            await self._hand_out(key)

    def action_help_quit(self) -> None:
        """Ctrl-C, which copies where something can be copied: say what quits."""
        self.notify("Press q to quit.", markup=False)

    def notify(self, message: str, **options: Any) -> None:
        """Say something for a moment. What was said before makes room: it lies over the table."""
        self.clear_notifications()
        super().notify(message, **options)

    def action_pause(self) -> None:
        """Stop or go on taking samples."""
        if self.feed is not None and self.feed.ended is None:
            self.feed.paused = not self.feed.paused
            if isinstance(self.screen, TensorsScreen | GrowthScreen):
                self.screen.tick()  # says it at once
            self._ask_for_samples(self.feed)

    @work(group="pause")
    async def _ask_for_samples(self, feed: Feed) -> None:
        await feed.set_interval(None if feed.paused else SAMPLE_SECONDS)

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
        elif isinstance(screen, GraphScreen):
            groups.append(("the graph", GraphTree.BINDINGS))
        elif isinstance(screen, GrowthScreen):
            groups.append(("the groups", GrowthTable.BINDINGS))
        elif isinstance(screen, HoldersScreen):
            groups.append(("the chains", HolderTree.BINDINGS))
        groups.append(("everywhere", self.usable_bindings(screen)))
        self.push_screen(HelpScreen(page, groups, self.glyphs))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether an action makes sense on the screen that is open."""
        return self._makes_sense(action, self.screen)

    def usable_bindings(self, screen: Screen[Any]) -> list[BindingType]:
        """The keys of the application that do something on `screen`."""
        bindings = [each for each in self.BINDINGS if isinstance(each, Binding)]
        usable = [each for each in bindings if self._makes_sense(each.action.partition("(")[0], screen)]
        return [each for each in usable if each.action != "processes" or self.picker is not None]

    def _makes_sense(self, action: str, screen: Screen[Any]) -> bool:
        tensors = isinstance(screen, TensorsScreen)
        if action == "show":
            return type(screen) in self.NUMBERS or isinstance(screen, HoldersScreen)
        return tensors if action in ("detach", "processes") else True

    def action_show(self, number: int) -> None:
        """Go to a screen by its number."""
        screen = self.screen
        if isinstance(screen, HoldersScreen):  # over the one that it was opened from
            screen.dismiss(None)
            self.call_later(self.action_show, number)
        elif not isinstance(screen, TensorsScreen) and number != self.NUMBERS.get(type(screen), number):
            screen.dismiss(screen.chosen if isinstance(screen, LayoutScreen) else None)
            if number != 1:
                self.call_later(self.action_show, number)
        elif number == 2 and isinstance(screen, TensorsScreen):
            self._show_layout(screen)
        elif number == 6 and isinstance(screen, TensorsScreen):
            self.push_screen(FindingsScreen(screen.feed, self.glyphs, self.clock), self._tensor_chosen)
        elif number == 7 and isinstance(screen, TensorsScreen):
            growth = GrowthScreen(screen.feed, self.node_count(screen.feed), self.glyphs, self.clock)
            self.push_screen(growth, self._tensor_chosen)
        elif number == 3 and isinstance(screen, TensorsScreen):
            graph = GraphScreen(screen.feed, screen.any_selected, self.glyphs, self.clock)
            self.push_screen(graph, self._tensor_chosen)

    def _show_layout(self, screen: TensorsScreen) -> None:
        """The layout of the selected tensor, or of the first one on the selected storage."""
        tensor = screen.any_selected
        if tensor is None:
            self.notify("Select a tensor first: its layout is shown.", markup=False)
        else:
            self.push_screen(LayoutScreen(tensor, screen.feed, self.glyphs, self.clock), self._tensor_chosen)

    def action_holders(self) -> None:
        """Look for what keeps the tensor of this screen alive."""
        screen, feed = self.screen, self.feed
        tensor = None
        if isinstance(screen, TensorsScreen):
            tensor = screen.any_selected
        elif isinstance(screen, GraphScreen):
            tensor = screen.chosen
        elif isinstance(screen, LayoutScreen):
            tensor = screen.look.tensor
        elif isinstance(screen, GrowthScreen):
            tensor = screen.chosen
        if tensor is None or feed is None:
            self.notify("Select a tensor first: what keeps it alive is looked for.", markup=False)
        else:
            self.push_screen(HoldersScreen(feed, tensor, self.glyphs, self.clock))

    def node_count(self, feed: Feed) -> NodeCount:
        """The counts of nodes of the graphs of a source: they outlive the screen that shows them."""
        if self._node_count is None or self._node_count.feed is not feed:
            self._node_count = NodeCount(feed, self.clock)
        return self._node_count

    def _tensor_chosen(self, tid: int | None) -> None:
        if tid is not None and isinstance(self.screen, TensorsScreen):
            self.screen.tick()  # it may have come since the table was covered
            self.screen.go_to(tid)

    def action_command_palette(self) -> None:
        """Every command; the palette's own words are ASCII too where the terminal shows nothing else."""
        if not CommandPalette.is_open(cast("App[object]", self)):
            self.push_screen(CommandPalette(placeholder="a command, or a part of a tensor's name"))

    def action_processes(self) -> None:
        """Leave the source and go back to the picker."""
        if self.picker is None:
            self.notify("There is no list to go back to: `tensortui attach` without a PID shows one.", markup=False)
            return
        self.workers.cancel_group(self, "feed")
        self.pop_screen()

    def action_detach(self) -> None:
        """Ask, then end the agent in the target and quit."""
        feed = self.feed
        if feed is None:
            return
        if "detach" in feed.source.missing:
            self.notify(show(feed.source.missing["detach"], self.glyphs), markup=False, severity="warning")
            return
        detail = "The agent leaves the program, for every viewer, and nothing of it remains. The program goes on."
        self.push_screen(ConfirmScreen("End the agent and quit?", detail), self._detach_answered)

    def _detach_answered(self, yes: bool | None) -> None:
        if yes:
            self._leave()

    @work(group="detach", exclusive=True, exit_on_error=False)
    async def _leave(self) -> None:
        if self.feed is not None:
            left = True
            with suppress(TensortuiError, OSError):  # a target that has gone has no agent left
                left = await self.feed.source.detach()
            self.exit(message=None if left else "The agent has not confirmed that it leaves the program.")

    @work(group="feed", exclusive=True, exit_on_error=False)
    async def follow(self, feed: Feed) -> None:
        """Read the source until it ends."""
        try:
            await feed.read()
        finally:
            await feed.source.close()

    @work(group="feed", exit_on_error=False)
    async def judge(self, feed: Feed) -> None:
        """Keep the findings up to date."""
        await feed.judge()

    @work(group="feed", exit_on_error=False)
    async def watch_tensors(self, feed: Feed) -> None:
        """Keep the source told of what it is to read with every sample."""
        await feed.watching.follow()
