"""The process picker: what it lists, what it says of each, and that a failed attach leaves it usable."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from textual.pilot import Pilot
from textual.widgets import OptionList, Static
from ui_data import NOW, Played, processes, training

from tensortui.attach.processes import ProcessInfo
from tensortui.errors import TensortuiError
from tensortui.ui.app import Picker, TensortuiApp
from tensortui.ui.glyphs import UNICODE
from tensortui.ui.screens.picker import PickerScreen, heading, line
from tensortui.ui.screens.tensors import TensorsScreen


class Picked:
    def __init__(self) -> None:
        self.listed = processes()
        self.asked: list[int] = []
        self.error: TensortuiError | None = None

    def processes(self) -> list[ProcessInfo]:
        return list(self.listed)

    async def attach(self, pid: int) -> Played:
        self.asked.append(pid)
        if self.error is not None:
            raise self.error
        return Played(training())


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await pilot.pause(0.01)


@asynccontextmanager
async def picking(picked: Picked) -> AsyncIterator[tuple[TensortuiApp, Pilot[None]]]:
    app = TensortuiApp(picker=Picker(picked.processes, picked.attach), clock=lambda: NOW, ascii_only=False)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await until(pilot, lambda: not app.screen.has_class("-none") or not picked.listed)
        yield app, pilot


def test_a_line_stands_under_its_titles() -> None:
    titles, row = heading(120).plain, line(processes()[0], 120, UNICODE).plain
    assert row.index("python train.py") == titles.index("command")
    assert row.split()[:4] == ["41234", "3", "min", "0/8"]
    assert "61.20 GiB" in row and "ready" in row


def test_a_hostile_command_is_only_text() -> None:
    row = line(processes()[-1], 120, UNICODE).plain
    assert "[/] \\e[2J" in row


def test_a_worker_says_whose_it_is() -> None:
    worker = next(each for each in processes() if each.role)
    assert "DataLoader worker of 41234: python train.py" in line(worker, 120, UNICODE).plain
    assert "DataLoader worker of 41234" in line(worker, 80, UNICODE).plain


async def test_enter_attaches_and_shows_the_tensors() -> None:
    picked = Picked()
    async with picking(picked) as (app, pilot):
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TensorsScreen))
        assert picked.asked == [picked.listed[1].pid]
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))


async def test_enter_before_the_list_is_there_is_not_lost() -> None:
    picked, drawn = Picked(), threading.Event()

    def late() -> list[ProcessInfo]:
        assert drawn.wait(10)
        return picked.processes()

    app = TensortuiApp(picker=Picker(late, picked.attach), clock=lambda: NOW, ascii_only=False)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await pilot.press("enter")
        drawn.set()
        await until(pilot, lambda: isinstance(app.screen, TensorsScreen))
        assert picked.asked == [picked.listed[0].pid]


async def test_a_failed_attach_is_said_and_the_list_stays() -> None:
    picked = Picked()
    picked.error = TensortuiError("process 41234 belongs to root [/]", "run it with sudo")
    async with picking(picked) as (app, pilot):
        await pilot.press("enter")
        detail = app.screen.query_one("#detail", Static)
        await until(pilot, lambda: "belongs to root [/]" in str(detail.content))
        assert "run it with sudo" in str(detail.content)
        picked.error = None
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TensorsScreen))


async def test_the_list_keeps_the_highlighted_process() -> None:
    picked = Picked()
    async with picking(picked) as (app, pilot):
        await pilot.press("j")
        listing = app.screen.query_one(OptionList)
        held = listing.get_option_at_index(listing.highlighted or 0).id
        picked.listed.pop(0)
        await pilot.press("r")
        await until(pilot, lambda: listing.option_count == len([p for p in picked.listed if p.torch is not False]))
        assert listing.get_option_at_index(listing.highlighted or 0).id == held


async def test_a_chosen_process_that_ends_stays_under_the_cursor_and_no_other_is_entered() -> None:
    picked = Picked()
    async with picking(picked) as (app, pilot):
        await pilot.press("j")
        listing, detail = app.screen.query_one(OptionList), app.screen.query_one("#detail", Static)
        gone = picked.listed.pop(1)
        await pilot.press("r")
        await until(pilot, lambda: f"process {gone.pid} has ended" in str(detail.content))
        assert listing.highlighted == 1 and " ended " in str(listing.get_option_at_index(1).prompt)
        await pilot.press("enter")
        picked.listed.insert(0, replace(gone, age=1.0))  # another one by the same number
        await pilot.press("r")
        await until(pilot, lambda: listing.get_option_at_index(0).id == str(gone.pid))
        await pilot.press("enter")
        assert f"Process {gone.pid} has ended" in next(iter(app._notifications)).message
        assert picked.asked == [] and isinstance(app.screen, PickerScreen)
        await pilot.press("down", "r")
        await until(pilot, lambda: " ended " not in "".join(str(each.prompt) for each in listing.options))
        held = listing.highlighted_option
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TensorsScreen))
        assert held is not None and picked.asked == [int(held.id or 0)]


async def test_looking_again_leaves_the_list_where_it_was_scrolled_to_and_the_failure_on_screen() -> None:
    picked = Picked()
    picked.listed = [replace(picked.listed[0], pid=pid) for pid in range(100, 180)]
    picked.error = TensortuiError("it is stopped", "continue it")
    async with picking(picked) as (app, pilot):
        listing = app.screen.query_one(OptionList)
        await pilot.press("G", "enter")
        detail = app.screen.query_one("#detail", Static)
        await until(pilot, lambda: "it is stopped" in str(detail.content))
        at = listing.scroll_offset
        picked.listed = [replace(each, age=each.age + 3600) for each in picked.listed]
        await pilot.press("r")
        await until(pilot, lambda: "63 min" in str(listing.get_option_at_index(0).prompt))
        assert listing.scroll_offset == at and "it is stopped" in str(detail.content)
        await pilot.press("up")
        assert "it is stopped" not in str(detail.content)


async def test_a_fault_while_looking_is_said_instead_of_looking_for_ever() -> None:
    def broken() -> list[ProcessInfo]:
        raise ValueError("what a /proc")

    app = TensortuiApp(picker=Picker(broken, Picked().attach), clock=lambda: NOW, ascii_only=False)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        none = app.screen.query_one("#none", Static)
        await until(pilot, lambda: "what a /proc" in str(none.content))


async def test_processes_without_torch_are_hidden_until_asked_for() -> None:
    picked = Picked()
    async with picking(picked) as (app, pilot):
        listing = app.screen.query_one(OptionList)
        before = listing.option_count
        await pilot.press("a")
        assert listing.option_count == before + 1


async def test_no_process_at_all_says_what_to_do() -> None:
    picked = Picked()
    picked.listed = []
    async with picking(picked) as (app, pilot):
        none = app.screen.query_one("#none", Static)
        await until(pilot, lambda: "tensortui demo" in str(none.content))


async def test_an_agent_in_a_process_that_is_stopped_is_said_not_to_answer() -> None:
    picked = Picked()
    picked.listed = [replace(picked.listed[1], stopped=True)]
    assert "stopped" in line(picked.listed[0], 120, UNICODE).plain
    async with picking(picked) as (app, pilot):
        detail = app.screen.query_one("#detail", Static)
        await until(pilot, lambda: "does not answer while it is stopped; `kill -CONT 41235`" in str(detail.content))
