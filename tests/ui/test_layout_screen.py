"""The Layout screen: how it is moved about in, how it follows the program, and its pictures at three sizes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from driving import Driven, all_ascii, driven
from layout_data import BATCH, HEAD, MASK, ROW, SPARSE, STEPS, WINDOWS, XT, X, imports, layouts
from textual.pilot import Pilot
from textual.widgets import Static
from ui_data import NOW, Played, after, tensor

from tensortui.model import Change, Ended, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.layout import LayoutScreen
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.widgets.filter_bar import Entry

# Syrupy looks for the name of this file in the path of a picture, which is kept where people look for it instead.
pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")

SIZES = pytest.mark.parametrize("size", [(160, 45), (120, 30), (80, 24)], ids=["160x45", "120x30", "80x24"])
THEMES = pytest.mark.parametrize("light", [False, True], ids=["dark", "light"])


@asynccontextmanager
async def looking(
    tid: int, *more: Sample, size: tuple[int, int] = (120, 30)
) -> AsyncIterator[tuple[Driven, LayoutScreen]]:
    async with driven(layouts(), size=size) as it:
        it.screen.go_to(tid)
        await it.press("2")
        screen = it.app.screen
        assert isinstance(screen, LayoutScreen)
        yield it, screen


def said(screen: LayoutScreen, part: str) -> str:
    return str(screen.query_one(f"#{part}", Static).content)


async def test_the_cursor_moves_over_the_elements_and_stops_at_the_ends() -> None:
    async with looking(XT) as (it, screen):
        await it.press("down", "j", "right", "l", "up")
        assert screen.look.index == (1, 2) and "[1, 2]: 0 + 1*1 + 2*32 = 65" in said(screen, "facts")
        await it.press("h", "left", "left", "k", "k")
        assert screen.look.index == (0, 0)
        await it.press("G", "down", "right")
        assert screen.look.index == (31, 63) and "2047" in said(screen, "grid")
        await it.press("pageup")
        assert 0 < screen.look.index[0] < 31
        await it.press("g")
        assert screen.look.index == (0, 0)


async def test_an_index_a_byte_and_an_address_lead_to_an_element() -> None:
    async with looking(XT) as (it, screen):
        await it.press("i", *"3 5", "enter")
        assert screen.look.index == (3, 5) and "= 163" in said(screen, "facts")
        await it.press("i", *["backspace"] * 9, *"byte 132", "enter")
        assert screen.look.index == (1, 1)
        await it.press("slash", *["backspace"] * 9, *"0x7f201000028c", "enter")
        assert screen.look.index == (3, 5)
        await it.press("i", *["backspace"] * 20, *"40 1", "enter")
        assert screen.look.index == (3, 5) and "out of range for dim 0 of size 32" in said(screen, "said")
        await it.press("down")
        assert not screen.query_one("#said").display or not said(screen, "said").strip()


@pytest.mark.parametrize(("tid", "index"), [(BATCH, (1, 2, 3, 4)), (ROW, (1,)), (HEAD, (1, 2)), (WINDOWS, (1, 2))])
async def test_the_example_of_an_index_is_one_of_this_tensor(tid: int, index: tuple[int, ...]) -> None:
    async with looking(tid) as (it, screen):
        words = str(screen.query_one("#index .text", Static).content)
        assert words == f"press i, e.g. {list(index)}"
        await it.press("i")
        assert screen.query_one("#index Entry", Entry).placeholder == f"(e.g. {list(index)})"
        await it.press(*str(list(index)), "enter")
        assert screen.look.index == index and not said(screen, "said").strip()


async def test_the_example_follows_the_tensor() -> None:
    async with looking(BATCH) as (it, screen):
        sample = layouts()
        await give(
            it, screen, after(sample, changed=[replace(sample.tensors[BATCH], shape=(2, 802816), strides=(802816, 1))])
        )
        assert str(screen.query_one("#index .text", Static).content) == "press i, e.g. [1, 2]"


async def test_a_byte_of_another_tensor_names_it() -> None:
    async with looking(STEPS) as (it, screen):
        await it.press("i", *"byte 4", "enter")
        words = " ".join(said(screen, "said").split())
        assert screen.look.index == (0, 0) and "but of x, x.t(), head @ step() train.py:12" in words
    async with looking(ROW) as (it, screen):
        await it.press("i", *"byte 0", "enter")
        assert "not of this tensor, nor of any" in " ".join(said(screen, "said").split())


async def test_an_operation_is_answered_while_it_is_typed_and_stays() -> None:
    async with looking(XT) as (it, screen):
        await it.press("c", *"view(-1)")
        assert "impossible" in said(screen, "asked")
        await it.press("enter", "down")
        assert screen.look.index == (1, 0) and "impossible" in said(screen, "asked")
        await it.press("c", *["backspace"] * 8, "q", "escape")
        assert "impossible" in said(screen, "asked") and it.app.screen is screen
        await it.press("c", *["backspace"] * 8, "enter")
        assert not screen.query_one("#asked").display


async def test_what_is_typed_replaces_what_was_asked_and_an_arrow_key_keeps_it() -> None:
    async with looking(XT) as (it, screen):
        await it.press("c", *"view(-1)", "enter", "c", *"t()", "enter")
        assert said(screen, "asked").split()[:2] == ["t()", "view"]
        await it.press("c", "right", *".T", "enter")
        assert [line.split()[0] for line in said(screen, "asked").splitlines()] == ["t()", "T"]
        await it.press("i", *"3 5", "enter", "i", *"4 6", "enter")
        assert screen.look.index == (4, 6)
        await it.press("c", "backspace", "enter")
        assert not screen.query_one("#asked").display


async def test_leaving_an_index_shows_what_was_there_before() -> None:
    async with looking(XT) as (it, screen):
        await it.press("i", *"[99]", "enter")
        before = said(screen, "said")
        assert "1 index given" in " ".join(before.split())
        await it.press("i", *"0x1", "escape")
        assert str(screen.query_one("#index .text", Static).content) == "[99]" and said(screen, "said") == before
        await it.press("i", *"7 7", "escape")
        assert screen.look.index == (0, 0) and said(screen, "said") == before
        await it.press("i", "backspace", "enter")
        assert not screen.query_one("#said").display


async def test_other_dimensions_and_slices_can_be_shown() -> None:
    async with looking(BATCH) as (it, screen):
        assert said(screen, "grid").startswith(" offsets  [0, 0, :, :]  down dim 2 (56)")
        await it.press("plus", "plus", "minus")
        assert screen.look.index == (0, 1, 0, 0)
        await it.press("minus", "minus")
        assert screen.look.index == (7, 63, 0, 0)
        await it.press("d")
        assert screen.look.dims == (1, 3)
        for _ in range(11):
            await it.press("d")
        assert screen.look.dims == (2, 3)
        await it.press("o")
        assert "order of memory" in said(screen, "grid")


async def test_the_other_tensors_of_the_storage_are_a_key_away_and_the_table_follows() -> None:
    async with looking(X) as (it, screen):
        await it.press("]")
        assert screen.look.tid == XT and "transposed" in said(screen, "head")
        await it.press("[", "[")
        assert screen.look.tid == HEAD
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        assert it.tree.selected is not None and it.tree.selected.id == HEAD
    async with looking(ROW) as (it, screen):
        await it.press("]")
        assert screen.look.tid == ROW and "No other tensor lies on this storage." in it.notes()


async def give(it: Driven, screen: LayoutScreen, update: Sample | Ended) -> None:
    it.source.queue.put_nowait(update)
    await it.until(lambda: it.app.feed is not None and update in (it.app.feed.sample, it.app.feed.ended))
    screen.tick()
    await it.pilot.pause()


async def test_it_follows_the_program_and_says_when_the_tensor_is_gone() -> None:
    async with looking(XT) as (it, screen):
        before = layouts()
        await it.press("down")
        other = tensor(
            XT, before.tensors[XT].storage, ["x.t()"], (16, 64), device="cpu", strides=(2, 32), flags=("view",)
        )
        changed = after(before, changed=[other])
        await give(it, screen, changed)
        assert "(16, 64)" in said(screen, "head") and screen.look.index == (0, 0)
        gone = after(changed, gone=[XT])
        await give(it, screen, gone)
        assert "the tensor is gone" in said(screen, "head") and "(16, 64)" in said(screen, "head")
        await it.press("down", "c", *"t()", "enter")
        assert "[1, 0]: 0 + 1*2" in said(screen, "facts")
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))


async def test_what_has_the_name_of_a_tensor_that_is_gone_is_a_key_away() -> None:
    async with looking(ROW) as (it, screen):
        before = layouts()
        await it.press("n")
        assert screen.look.tid == ROW
        new = tensor(60, before.tensors[ROW].storage, ["row"], (8, 8), device="cpu", strides=(1, 8))
        await give(it, screen, after(before, new=[new], gone=[ROW]))
        assert "the tensor is gone: n shows the one that has its name now" in said(screen, "head")
        await it.press("n")
        assert screen.look.tid == 60 and "gone" not in said(screen, "head") and "(8, 8)" in said(screen, "head")
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        assert it.tree.selected is not None and it.tree.selected.id == 60


async def test_a_tensor_that_is_gone_leaves_the_table_as_it_was() -> None:
    async with driven(layouts()) as it:
        it.screen.set_filter("device:cpu")
        it.screen.go_to(XT)
        await it.press("2")
        screen = it.app.screen
        assert isinstance(screen, LayoutScreen)
        missed = replace(after(layouts(), gone=[XT]), change=Change())  # more was missed than a sample could say
        await give(it, screen, missed)
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        assert "device:cpu" in it.bar()


async def test_a_neighbour_that_comes_is_drawn() -> None:
    async with looking(ROW) as (it, screen):
        before = layouts()
        new = tensor(50, before.tensors[ROW].storage, ["whole"], (4096, 4096), device="cpu")
        await give(it, screen, after(before, new=[new]))
        assert "whole" in said(screen, "ribbon") and "in several    16.00 KiB" in said(screen, "ribbon")


async def test_without_a_tensor_there_is_no_layout_to_show() -> None:
    async with driven(layouts()) as it:
        await it.press("b", "C", "g", "2")
        assert isinstance(it.app.screen, TensorsScreen) and "Select a tensor" in it.notes()


async def test_help_shows_its_page() -> None:
    async with looking(XT) as (it, _):
        await it.press("question_mark")
        assert "what an operation on this tensor would cost" in str(it.app.screen.query_one("#keys", Static).content)


async def test_on_an_ascii_terminal_all_of_it_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_for(layouts(), ascii_only=True)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_at(XT, "c", *"view(-1)", "enter")(pilot)
        all_ascii(app)


# -- pictures


def app_for(*updates: Sample | Ended, light: bool = False, ascii_only: bool = False) -> TensortuiApp:
    async def connect() -> Played:
        return Played(*updates)

    return TensortuiApp(connect, light=light, ascii_only=ascii_only, clock=lambda: NOW + 0.4)


def open_at(tid: int, *keys: str, then: Sample | Ended | None = None) -> Any:
    """Wait for the table and its findings, open the layout of a tensor, press `keys`."""

    async def before(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp)
        async with asyncio.timeout(20):
            while not isinstance(app.screen, TensorsScreen) or app.feed is None or app.feed.judged is None:
                await pilot.pause(0.01)
            app.screen.tick()
            app.screen.go_to(tid)
            await pilot.press("2")
            while not isinstance(app.screen, LayoutScreen):
                await pilot.pause(0.01)
            screen = app.screen
            await pilot.press(*keys)
            if then is not None:
                app.feed.source.queue.put_nowait(then)  # type: ignore[attr-defined]
                while then not in (app.feed.sample, app.feed.ended):
                    await pilot.pause(0.01)
            screen.tick()
            for _ in range(3):
                painted = asyncio.Event()
                app.screen.call_after_refresh(painted.set)
                await painted.wait()

    return before


@SIZES
@THEMES
def test_layout(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    run = open_at(XT, "i", *"3 5", "enter")
    assert snap_compare(app_for(layouts(), light=light), terminal_size=size, run_before=run)


@SIZES
def test_layout_ascii(snap_compare: Any, size: tuple[int, int]) -> None:
    run = open_at(STEPS, "down", "right", "c", *"view(-1)", "enter")
    assert snap_compare(app_for(layouts(), ascii_only=True), terminal_size=size, run_before=run)


def test_layout_no_color(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_for(layouts()), terminal_size=(120, 30), run_before=open_at(WINDOWS, "i", *"3 1", "enter"))


@SIZES
def test_layout_expanded(snap_compare: Any, size: tuple[int, int]) -> None:
    run = open_at(MASK, "c", *"x.contiguous().view(-1)", "enter")
    assert snap_compare(app_for(layouts()), terminal_size=size, run_before=run)


@SIZES
def test_layout_of_four_dimensions(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(app_for(layouts()), terminal_size=size, run_before=open_at(BATCH, "o", "plus"))


def test_layout_gone(snap_compare: Any) -> None:
    run = open_at(XT, then=after(layouts(), gone=[XT]))
    assert snap_compare(app_for(layouts()), terminal_size=(80, 24), run_before=run)


def test_layout_retained(snap_compare: Any) -> None:
    run = open_at(ROW, "i", *"byte 12", "enter")
    assert snap_compare(app_for(layouts()), terminal_size=(80, 24), run_before=run)


@SIZES
def test_layout_of_another_storage_over_the_same_memory(snap_compare: Any, size: tuple[int, int]) -> None:
    run = open_at(1, "i", *"45", "enter")
    assert snap_compare(app_for(imports()), terminal_size=size, run_before=run)


def test_layout_without_strides(snap_compare: Any) -> None:
    assert snap_compare(app_for(layouts()), terminal_size=(80, 24), run_before=open_at(SPARSE))
