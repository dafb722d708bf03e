"""Pictures of every screen in its states, at three sizes, dark and light; kept in snapshots/screens/."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from graph_data import WithGraph, training_graph
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static
from ui_data import NOW, Played, after, many, processes, tensor, training

from tensortui.errors import TensortuiError
from tensortui.model import LIVE, Coverage, Ended, Sample
from tensortui.ui.app import Picker, TensortuiApp
from tensortui.ui.screens.failed import FailedScreen
from tensortui.ui.screens.findings import FindingsScreen
from tensortui.ui.screens.picker import PickerScreen
from tensortui.ui.screens.tensors import TensorsScreen

# Syrupy looks for the name of this file in the path of a picture, which is kept where people look for it instead.
pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")

LARGE, MIDDLE, SMALL = (160, 45), (120, 30), (80, 24)
SIZES = pytest.mark.parametrize("size", [LARGE, MIDDLE, SMALL], ids=["160x45", "120x30", "80x24"])
THEMES = pytest.mark.parametrize("light", [False, True], ids=["dark", "light"])
TWO_SIZES = pytest.mark.parametrize("size", [LARGE, SMALL], ids=["160x45", "80x24"])


def app_for(*updates: Sample | Ended, light: bool = False, age: float = 0.4, ascii_only: bool = False) -> TensortuiApp:
    async def connect() -> Played:
        return Played(*updates)

    return TensortuiApp(connect, light=light, ascii_only=ascii_only, clock=lambda: NOW + age)


def ready(*keys: str, then: Any = None) -> Any:
    """Wait until everything given was painted, then press `keys`."""

    async def before(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp)
        while not isinstance(app.screen, TensorsScreen | PickerScreen):
            await pilot.pause(0.01)
        if isinstance(app.screen, TensorsScreen) and app.feed is not None:
            while isinstance(app.feed.source, Played) and not app.feed.source.queue.empty():
                await pilot.pause(0.01)
            sample = app.feed.sample
            while sample is not None and sample.phase == LIVE and app.feed.judged is not sample:
                await pilot.pause(0.01)
            app.screen.tick()
        elif isinstance(app.screen, PickerScreen):
            while app.screen.has_class("-none"):
                await pilot.pause(0.01)
        await pilot.pause()
        await pilot.press(*keys)
        if then is not None:
            await then(pilot)
        for _ in range(3):  # a layout may ask for another one, as when the details open
            painted = asyncio.Event()
            app.screen.call_after_refresh(painted.set)
            await painted.wait()

    return before


@SIZES
@THEMES
def test_tensors(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    assert snap_compare(app_for(training(), light=light), terminal_size=size, run_before=ready("down", "down"))


@SIZES
@THEMES
def test_details(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    app = app_for(training(), light=light)
    assert snap_compare(app, terminal_size=size, run_before=ready(*["down"] * 5, "i"))


@TWO_SIZES
def test_grouped_by_category(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(app_for(training()), terminal_size=size, run_before=ready("b", "down", "right"))


@TWO_SIZES
def test_filtered(snap_compare: Any, size: tuple[int, int]) -> None:
    run = ready("f", *"category:activation,saved >1MiB")
    assert snap_compare(app_for(training()), terminal_size=size, run_before=run)


def test_filter_begun(snap_compare: Any) -> None:
    """What may be typed does not read like a filter that is at work."""
    app = app_for(training(), ascii_only=True)
    assert snap_compare(app, terminal_size=SMALL, run_before=ready("f"))


def test_filter_not_understood(snap_compare: Any) -> None:
    assert snap_compare(app_for(training()), terminal_size=SMALL, run_before=ready("f", *"devcie:cuda"))


@SIZES
@THEMES
def test_lost(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    ended = Ended("the process was killed by signal 9 (SIGKILL)", NOW + 1, expected=False)
    assert snap_compare(app_for(training(), ended, light=light, age=42), terminal_size=size, run_before=ready())


@SIZES
@THEMES
@pytest.mark.parametrize("phase", ["waiting", "scanning", "live"], ids=["waiting", "scanning", "empty"])
def test_without_tensors(snap_compare: Any, size: tuple[int, int], light: bool, phase: str) -> None:
    sample = replace(training(), phase=phase, progress=0.4, tensors={}, storages={})
    assert snap_compare(app_for(sample, light=light), terminal_size=size, run_before=ready())


def test_paused(snap_compare: Any) -> None:
    assert snap_compare(app_for(training(), age=31), terminal_size=MIDDLE, run_before=ready("space"))


def test_slow_and_incomplete(snap_compare: Any) -> None:
    sample = replace(training(), coverage=Coverage(False, ("gc.freeze() hides 120 objects",)))
    assert snap_compare(app_for(sample, age=31), terminal_size=MIDDLE, run_before=ready("w"))


def test_marks(snap_compare: Any) -> None:
    async def change(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp) and app.feed is not None and isinstance(app.screen, TensorsScreen)
        before = app.feed.sample
        assert before is not None
        ids = [row for row in app.screen.rows.order if row >= 0]
        new = tensor(900, None, ["batch @ step() train.py:41"], (5000, 4096))
        stepped = [replace(before.tensors[tid], version=13) for tid in ids[4:9]]
        changed = [*stepped[:2], *(replace(each, category="saved") for each in stepped[2:])]
        app.feed.source.queue.put_nowait(after(before, new=[new], gone=ids[10:12], changed=changed))  # type: ignore
        while app.feed.sample is before:
            await pilot.pause(0.01)
        app.screen.tick()

    assert snap_compare(app_for(training()), terminal_size=MIDDLE, run_before=ready(then=change))


@TWO_SIZES
def test_ascii(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(app_for(training(), ascii_only=True), terminal_size=size, run_before=ready("down"))


def test_no_color(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_for(training()), terminal_size=MIDDLE, run_before=ready("down"))


@SIZES
@THEMES
def test_help(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    run = ready("question_mark")
    assert snap_compare(app_for(training(), light=light), terminal_size=size, run_before=run)


@SIZES
@THEMES
def test_picker(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    async def attach(pid: int) -> Played:
        raise TensortuiError("not here", "")

    app = TensortuiApp(picker=Picker(processes, attach), light=light, ascii_only=False)
    assert snap_compare(app, terminal_size=size, run_before=ready("down", "down"))


def test_attach_failed(snap_compare: Any) -> None:
    async def attach(pid: int) -> Played:
        raise TensortuiError(f"Process {pid} is stopped (T).", "Continue it with kill -CONT, then attach again.")

    async def failed(pilot: Pilot[None]) -> None:
        while pilot.app.screen._failure is None:  # type: ignore[attr-defined]
            await pilot.pause(0.01)

    app = TensortuiApp(picker=Picker(processes, attach), ascii_only=False)
    assert snap_compare(app, terminal_size=SMALL, run_before=ready("enter", then=failed))


@SIZES
@THEMES
def test_findings(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    assert snap_compare(app_for(training(), light=light), terminal_size=size, run_before=ready("6"))


@SIZES
def test_findings_of_a_graph(snap_compare: Any, size: tuple[int, int]) -> None:
    sample, graph, _ = training_graph()

    async def connect() -> Played:
        return WithGraph(sample, graph=graph)

    async def read(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp) and app.feed is not None and isinstance(app.screen, FindingsScreen)
        while app.feed.graph is None or app.feed.judged is None:
            await pilot.pause(0.01)
        app.screen.tick()

    app = TensortuiApp(connect, ascii_only=False, clock=lambda: NOW + 0.4)
    assert snap_compare(app, terminal_size=size, run_before=ready("6", "r", then=read))


def test_no_findings(snap_compare: Any) -> None:
    assert snap_compare(app_for(many(40)), terminal_size=SMALL, run_before=ready("6"))


@SIZES
@THEMES
def test_columns(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    run = ready("c", "j", "j", "space")
    assert snap_compare(app_for(training(), light=light), terminal_size=size, run_before=run)


@SIZES
@THEMES
def test_connecting(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    assert snap_compare(app_for(light=light), terminal_size=size, run_before=ready())


@SIZES
@THEMES
def test_no_processes(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    async def attach(pid: int) -> Played:
        raise TensortuiError("not here", "")

    async def looked(pilot: Pilot[None]) -> None:
        while "demo" not in str(pilot.app.screen.query_one("#none", Static).content):
            await pilot.pause(0.01)

    app = TensortuiApp(picker=Picker(list, attach), light=light, ascii_only=False)
    assert snap_compare(app, terminal_size=size, run_before=looked)


@SIZES
@THEMES
def test_could_not_connect(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    async def connect() -> Played:
        raise TensortuiError("The agent in process 41234 does not answer: timed out.", "Attach again.")

    async def failed(pilot: Pilot[None]) -> None:
        while not isinstance(pilot.app.screen, FailedScreen):
            await pilot.pause(0.01)
        await pilot.pause()

    app = TensortuiApp(connect, light=light, ascii_only=False)
    assert snap_compare(app, terminal_size=size, run_before=failed)


def test_detach(snap_compare: Any) -> None:
    assert snap_compare(app_for(training()), terminal_size=SMALL, run_before=ready("D"))


def test_commands(snap_compare: Any) -> None:
    async def settle(pilot: Pilot[None]) -> None:
        pilot.app.screen.query_one(Input).cursor_blink = False
        found = pilot.app.screen.query_one(OptionList)
        while found.option_count != 1:
            await pilot.pause(0.01)

    assert snap_compare(app_for(training()), terminal_size=MIDDLE, run_before=ready("ctrl+p", *"embed", then=settle))
