"""The application under a pilot, as a user drives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from picture_text import svg_text
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Static
from ui_data import NOW, Played

from tensortui.model import Ended, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.widgets.filter_bar import FilterBar
from tensortui.ui.widgets.status_line import StatusLine
from tensortui.ui.widgets.tensor_tree import TensorTree


class Clock:
    def __init__(self) -> None:
        self.now = NOW + 0.4

    def __call__(self) -> float:
        return self.now


class Driven:
    """The application under a pilot, with short ways to what tests ask of it."""

    def __init__(self, app: TensortuiApp, pilot: Pilot[None], source: Played, clock: Clock) -> None:
        self.app, self.pilot, self.source, self.clock = app, pilot, source, clock

    @property
    def screen(self) -> TensorsScreen:
        screen = self.app.screen
        assert isinstance(screen, TensorsScreen)
        return screen

    @property
    def tree(self) -> TensorTree:
        return self.screen.tree_view

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def type(self, *keys: str) -> None:
        """Keys without any pause between them, as a terminal gives what was typed ahead."""
        for key in keys:
            self.app.post_message(Key(key, key if len(key) == 1 else None))

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not true():
                await self.pilot.pause(0.01)

    async def give(self, update: Sample | Ended) -> None:
        self.source.queue.put_nowait(update)
        await self.until(lambda: self.app.feed is not None and update in (self.app.feed.sample, self.app.feed.ended))
        self.screen.tick()
        await self.pilot.pause()

    def lines(self) -> list[str]:
        return [self.tree.render_line(y).text for y in range(self.tree.size.height)]

    def text_of(self, selector: str) -> str:
        return str(self.screen.query_one(selector, Static).content)

    def notes(self) -> str:
        return "\n".join(note.message for note in self.app._notifications)

    def status(self) -> str:
        return str(self.screen.query_one(StatusLine).content)

    def bar(self) -> str:
        return " ".join(str(each.content) for each in self.screen.query_one(FilterBar).query(Static))


@asynccontextmanager
async def driven(
    *updates: Sample | Ended,
    size: tuple[int, int] = (120, 30),
    source: Played | None = None,
    log: Path | None = None,
    ascii_only: bool = False,
) -> AsyncIterator[Driven]:
    source, clock = source or Played(*updates), Clock()

    async def connect() -> Played:
        return source

    app = TensortuiApp(connect, clock=clock, log=log, ascii_only=ascii_only)
    async with app.run_test(size=size) as pilot:
        it = Driven(app, pilot, source, clock)
        await it.until(lambda: isinstance(app.screen, TensorsScreen))
        if updates:
            await it.until(lambda: app.feed is not None and app.feed.sample is updates[0])
        it.screen.tick()
        await pilot.pause()
        yield it


def all_ascii(app: TensortuiApp) -> None:
    text = "".join(svg_text(app.export_screenshot(simplify=True)))
    assert text.strip() and text.isascii(), sorted({char for char in text if not char.isascii()})
