"""The Growth screen: what it says too early, of a leak, since a mark, of nothing, paused and lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import pytest
from driving import Driven, all_ascii, driven
from growth_data import OUTPUTS, Counted, growth_screen, leaking, watched
from textual.widgets import Static
from ui_data import NOW, training

from tensortui.attach import attach
from tensortui.model import Ended
from tensortui.sources.live import LiveSource
from tensortui.ui import feed as feed_module
from tensortui.ui import node_count
from tensortui.ui.app import TensortuiApp
from tensortui.ui.glyphs import ASCII, UNICODE
from tensortui.ui.screens.growth import GrowthScreen
from tensortui.ui.screens.help import MANUAL, in_ascii
from tensortui.ui.screens.holders import HoldersScreen
from tensortui.ui.screens.tensors import TensorsScreen


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "JUDGE_SECONDS", 0.0)
    monkeypatch.setattr(feed_module, "JUDGE_FACTOR", 0)
    monkeypatch.setattr(node_count, "PAUSES", (0.0, 0.0))


@asynccontextmanager
async def opened(seconds: int, **options: Any) -> AsyncIterator[Driven]:
    samples = leaking(seconds)
    async with driven(next(samples), **options) as it:
        await watched(it, samples)
        await it.press("7")
        yield it


def rows(it: Driven) -> list[str]:
    table = growth_screen(it).table
    return [text for y in range(table.size.height) if (text := table.render_line(y).text.rstrip())]


def text_of(it: Driven, selector: str) -> str:
    return str(growth_screen(it).query_one(selector, Static).content)


async def test_a_leak_comes_first_and_says_all_that_is_known_of_it() -> None:
    async with opened(41, size=(160, 45)) as it:
        lines = rows(it)
        assert len(lines) == 4
        assert lines[1].split()[:2] == ["▲!", "trainer.outputs[*]"]
        assert "+40 +160.00 KiB   4.00 KiB      1.00     0.50" in lines[1]
        assert "lengths[*]" in lines[2] and "11 shapes" in lines[2] and "▲!" in lines[2]
        assert "model.layers.*.cache" in lines[3] and "▲!" not in lines[3]
        head = " ".join(text_of(it, "#head").split())
        assert head.startswith("since the viewer attached, 40 s 3 groups grew +126 tensors +931.78 KiB 1 rose once of ")
        assert head.endswith(" in which tensors came and went 2 steps/s")
        assert text_of(it, "#nodes").startswith(" graph nodes  200 in a row behind total, +156   r counts them")
        told = text_of(it, "#detail")
        assert told.startswith("trainer.outputs[*]  (16, 64) f32 cuda:0  · other   held by trainer.outputs\n")
        assert "now      40 tensors, 160.00 KiB   at first 0 tensors, 0 B" in told
        assert "1 tensor/s, 4.00 KiB/s   with each step 0.5 tensors, 2.00 KiB" in told
        assert "▲! finding  Find what still refers to the old ones" in told
        assert "youngest trainer.outputs[40]" in told
        await it.press("G")
        assert "no finding: it has not grown in every part of the time" in text_of(it, "#detail")


async def test_enter_goes_to_the_youngest_tensor_and_back() -> None:
    async with opened(41) as it:
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        await it.until(lambda: it.tree.selected is not None and it.tree.selected.id == OUTPUTS + 40)


async def test_h_asks_what_keeps_the_youngest_alive() -> None:
    async with opened(41) as it:
        await it.press("h")
        await it.until(lambda: isinstance(it.app.screen, HoldersScreen))
        await it.press("7")
        await it.until(lambda: isinstance(it.app.screen, GrowthScreen))


async def test_by_the_number_of_tensors() -> None:
    async with opened(41) as it:
        assert "trainer.outputs" in rows(it)[1] and "▼ more bytes" in rows(it)[0]
        await it.press("s")
        assert "lengths" in rows(it)[1] and "▼   more " in rows(it)[0]
        assert "trainer.outputs" in text_of(it, "#detail")  # the cursor stays on its group
        await it.press("s")
        assert "trainer.outputs" in rows(it)[1]


async def test_a_mark_forgets_what_was_before_it_and_the_whole_time_stays() -> None:
    samples = leaking(60)
    async with driven(next(samples), size=(160, 45)) as it:
        await watched(it, islice(samples, 29))
        await it.press("7", "m")
        assert "watching for 0.0 s" in text_of(it, "#state")
        assert text_of(it, "#head").startswith(" since the mark at 09:20:29 UTC, 0.0 s")
        await watched(it, samples)
        shown = "\n".join(rows(it))
        assert "trainer.outputs[*]" in shown and "model.layers.*.cache" not in shown
        assert "+30 +120.00 KiB" in shown
        await it.press("a")
        assert text_of(it, "#head").startswith(" since the viewer attached, 59 s")
        assert "model.layers.*.cache" in "\n".join(rows(it))
        await it.press("a", "1", "7")
        await it.pilot.pause()
        assert text_of(it, "#head").startswith(" since the mark")


async def test_a_mark_that_comes_while_the_growth_is_worked_out_waits_for_it() -> None:
    samples = leaking(3)
    async with driven(next(samples)) as it:
        await watched(it, samples)
        feed = it.app.feed
        assert feed is not None
        feed._judging = True
        feed.mark()
        assert feed.grown_since_mark is None
        await watched(it, islice(leaking(4), 3, 4))
        assert feed.grown_since_mark is not None and feed.grown_since_mark.begun == NOW + 3


async def test_too_early_it_says_for_how_long_it_has_watched() -> None:
    async with opened(4) as it:
        assert text_of(it, "#state") == "watching for 3.0 s\n\nwhat grows can be told after about 5.0 s"
        assert not growth_screen(it).table.display
        await it.press("enter")
        assert isinstance(it.app.screen, GrowthScreen)
        await watched(it, islice(leaking(9), 4, 9))
        assert rows(it)[1:]


async def test_where_nothing_grows_that_is_said() -> None:
    first = training()
    samples = [first]
    for _ in range(12):
        samples.append(
            type(first)(**{**_fields(samples[-1]), "seq": samples[-1].seq + 1, "taken_at": samples[-1].taken_at + 1})
        )
    async with driven(first) as it:
        await watched(it, iter(samples))
        await it.press("7")
        assert text_of(it, "#state").startswith("nothing grows\n\nin 12 s the number of no group's tensors has risen")


def _fields(sample: Any) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in type(sample).__dataclass_fields__}


async def test_paused_and_lost_are_said() -> None:
    async with opened(3) as it:
        await it.press("space")
        growth_screen(it).tick()
        assert it.source.intervals == [None]
        assert text_of(it, "#state").startswith("paused after 2.0 s")
        it.source.queue.put_nowait(Ended("the process was killed", NOW + 3, expected=False))
        await it.until(lambda: it.app.feed is not None and it.app.feed.ended is not None)
        growth_screen(it).tick()
        assert "the process was killed" in text_of(it, "#notice")
        assert text_of(it, "#state").startswith("too short\n\nthe program was watched for 2.0 s")
        await it.press("m")
        assert it.notes() == "The source has ended."


async def test_before_there_is_a_sample_there_is_nothing_to_mark() -> None:
    async with driven() as it:
        await it.press("7", "m", "a")
        assert "connecting to" in text_of(it, "#state")
        assert "No moment is marked" in it.notes()


async def test_the_nodes_of_the_graphs_are_counted_when_asked_for() -> None:
    source = Counted(training(), sizes=[120, 100, 140, 130, 160, 140])
    async with driven(source=source) as it:
        await it.until(lambda: it.app.feed is not None and it.app.feed.judged is not None)
        await it.press("7")
        assert text_of(it, "#nodes").strip() == "graph nodes  r counts them"
        await it.press("r")
        await it.until(lambda: "100 at 09:20:00 UTC   r counts them again" in text_of(it, "#nodes"))
        it.clock.now += 60
        await it.press("r")
        await it.until(lambda: "100 at 09:20:00 UTC, 130 at 09:21:00 UTC: +30 in 60 s" in text_of(it, "#nodes"))
        await it.press("1", "7")
        await it.pilot.pause()
        assert "+30 in 60 s" in text_of(it, "#nodes")


async def test_of_graphs_read_in_part_the_most_is_the_least_there_is_and_two_are_not_compared() -> None:
    source = Counted(training(), sizes=[20, 50, 30, 40, 80, 60], torn=True)
    async with driven(source=source) as it:
        await it.until(lambda: it.app.feed is not None and it.app.feed.judged is not None)
        await it.press("7", "r")
        await it.until(lambda: "at least 50 at 09:20:00 UTC " in text_of(it, "#nodes"))
        await it.press("r")
        await it.until(lambda: "at least 80 at 09:20:00 UTC: read in part, so not compared" in text_of(it, "#nodes"))
        assert "+30" not in text_of(it, "#nodes")


async def test_graphs_that_cannot_be_counted_say_why() -> None:
    source = Counted(training(), sizes=[5])
    source.missing["graph"] = "a saved sample has no graph"
    async with driven(source=source) as it:
        await it.press("7", "r")
        await it.until(lambda: "not counted: a saved sample has no graph" in text_of(it, "#nodes"))


@pytest.mark.parametrize("size", [(160, 45), (120, 30), (80, 24), (40, 12)])
async def test_every_line_fits(size: tuple[int, int]) -> None:
    async with opened(41, size=size) as it:
        table = growth_screen(it).table
        assert {table.render_line(y).cell_length for y in range(table.size.height)} == {size[0]}
        assert "outputs[*]" in rows(it)[1] and "+40" in rows(it)[1]


async def test_ascii_is_ascii() -> None:
    async with opened(41, ascii_only=True) as it:
        all_ascii(it.app)
        assert in_ascii((MANUAL / "growth.md").read_text("utf-8")).isascii()


def test_a_curve_is_as_high_as_its_values_are() -> None:
    assert UNICODE.curve((0, 1, 2, 3, 4, 5, 6, 7), 12) == "▁▂▃▄▅▆▇█"
    assert UNICODE.curve((5, 5, 5), 12) == "▁▁▁"
    assert UNICODE.curve((), 12) == ""
    assert ASCII.curve(tuple(range(64)), 8) == "_.:-=+*#"
    assert ASCII.curve((9, 0, 9), 3) == "#_#"
    assert len(UNICODE.curve(tuple(range(13)), 12)) == 12


async def test_the_leak_of_a_real_program_is_named(start_ready: Any, root: Any) -> None:
    process = start_ready(str(root / "demo" / "leak.py"))
    endpoint = attach(process.pid)

    async def connect() -> LiveSource:
        return await LiveSource.connect(endpoint)

    app = TensortuiApp(connect, ascii_only=False)
    async with app.run_test(size=(120, 30)) as pilot:
        while not isinstance(app.screen, TensorsScreen):
            await pilot.pause(0.05)
        await pilot.press("7")
        screen = app.screen
        assert isinstance(screen, GrowthScreen)
        while screen.table.row is None:
            await pilot.pause(0.05)
        assert screen.table.row.kind.name == "history['logits'][*]"
        assert screen.table.row.kind.shape == (256, 256)
        assert screen.chosen is not None and screen.chosen.names[0].startswith("history['logits'][")
        while not screen._findings:
            await pilot.pause(0.05)
        screen.tick()
        assert "▲!" in screen.table.render_line(1).text
