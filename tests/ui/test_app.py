"""What the application does around its tables: screens, keys, palette, large tables, sources that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from driving import Clock, all_ascii, driven
from textual.events import Key
from textual.widgets import OptionList, Static
from ui_data import Played, after, many, training

from tensortui.analysis.text import natural
from tensortui.errors import TensortuiError
from tensortui.model import Change
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.columns import ColumnsScreen
from tensortui.ui.screens.confirm import ConfirmScreen
from tensortui.ui.screens.failed import FailedScreen
from tensortui.ui.screens.findings import FindingsScreen
from tensortui.ui.screens.help import HelpScreen
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.theme import DARK
from tensortui.ui.widgets.filter_bar import FilterBar
from tensortui.ui.widgets.tensor_tree import TensorTree


async def test_a_source_that_fails_or_hangs_when_asked_takes_nothing_else_down() -> None:
    class Stuck(Played):
        async def set_interval(self, seconds: float | None) -> None:
            raise TensortuiError("it has gone", "attach again")

        async def watch(self, tensor_ids: Iterable[int]) -> None:
            await asyncio.Event().wait()

    sample = many(500)
    async with driven(sample, source=Stuck(sample)) as it:
        await it.press("space", "end", "home", "space")
        assert "live" in it.status()
        await it.press("pagedown", "down")
        assert it.tree.cursor > 1


async def test_keys_typed_ahead_go_where_the_keys_before_them_lead() -> None:
    async with driven(training()) as it:
        screen = it.screen
        entry = screen.query_one(FilterBar).entry
        it.type("f", *"name~outproj", "enter", "b", "slash", *"exp", "enter", "c", "escape", "f", *"q")
        await it.until(lambda: entry.value.endswith("q"))
        assert entry.value == "name~outprojq"
        assert screen.rows.view.group_by == "category" and it.app.theme == DARK.name
        assert not screen._output.display and "No name here holds 'exp'." in it.notes()
        it.type("escape", "f", *["backspace"] * 12, "enter", "slash", *"mlp.up", "enter", "i")
        await it.until(lambda: screen.has_class("-inspect"))
        assert it.tree.selected is not None and "mlp.up" in it.tree.selected.names[0]


async def test_keys_typed_before_there_is_a_screen_are_for_the_first_one() -> None:
    go = asyncio.Event()

    async def connect() -> Played:
        await go.wait()
        return Played(training())

    app = TensortuiApp(connect, clock=Clock(), ascii_only=False)
    async with app.run_test() as pilot:
        for key in ("b", "f", "q", "ctrl+j"):  # enter reads so where the terminal was not ours yet
            app.post_message(Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        assert not isinstance(app.screen, TensorsScreen) and not app._exit
        go.set()
        async with asyncio.timeout(10):
            while not isinstance(app.screen, TensorsScreen):
                await pilot.pause(0.01)
            tree = app.screen.tree_view
            while tree.view.filter is None or not tree.has_focus:
                await pilot.pause(0.01)
        assert tree.view.group_by == "category"


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_what_has_no_screen_yet_can_be_left(key: str) -> None:
    async def connect() -> Played:
        await asyncio.Event().wait()
        raise AssertionError

    app = TensortuiApp(connect)
    async with app.run_test() as pilot:
        app.post_message(Key(key, None))
        async with asyncio.timeout(10):
            while not app._exit:
                await pilot.pause(0.01)


async def test_a_key_is_not_lost_where_the_one_before_closed_a_screen() -> None:
    async with driven(training()) as it:
        it.type("6", "1", "question_mark", "escape", "c", "j", "escape", "ctrl+p", "escape", "6", "escape", "b")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen) and it.tree.view.group_by == "category")


async def test_columns_are_chosen_ordered_and_kept() -> None:
    async with driven(training()) as it:
        assert "grad_fn" not in it.lines()[0]
        await it.press("c")
        assert isinstance(it.app.screen, ColumnsScreen)
        await it.press("j", "space", "J", "enter")  # hides dtype; it moves behind the device
        header = it.lines()[0].split()
        assert "dtype" not in header and header.index("shape") < header.index("device")
        await it.press("c", "J", "enter")
        header = it.lines()[0].split()
        assert header.index("device") < header.index("shape")
        assert it.app.columns[:2] == ("device", "shape")
        await it.press("c", "space", "escape")
        assert it.lines()[0].split() == header
        await it.press("c", "r")
        assert it.app.columns == () and "dtype" in it.lines()[0]


async def test_the_status_counts_findings_and_their_screen_leads_to_the_tensor() -> None:
    async with driven(training()) as it:
        assert it.app.feed is not None
        await it.until(lambda: it.app.feed.judged is not None)  # type: ignore[union-attr]
        it.screen.tick()
        assert "▲! 2 findings, press 6 " in it.status() and " 6 Findings 2 found " in it.text_of("TabBar")
        it.screen.set_filter("category:gradient")
        await it.press("6")
        assert isinstance(it.app.screen, FindingsScreen)
        told = str(it.app.screen.query_one("#told", Static).content)
        assert "row @ step() train.py:47 keeps 64.00 MiB alive for 16.00 KiB" in told and "clone()" in told
        await it.press("1", "6", "escape", "6", "enter")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        await it.until(lambda: it.tree.selected is not None and it.tree.selected.names[0].startswith("row @"))


async def test_no_findings_says_what_was_not_looked_at() -> None:
    async with driven(many(3)) as it:
        await it.until(lambda: it.app.feed is not None and it.app.feed.judged is not None)
        assert "costs the program 0.3 %" in it.status()
        await it.press("6")
        said = str(it.app.screen.query_one("#none", Static).content)
        assert said.startswith("no findings\n") and "not the autograd graphs" in said and "r reads them" in said


async def test_no_key_waits_for_a_large_table_to_be_arranged() -> None:
    async with driven(many(5000)) as it:
        await it.until(lambda: not it.tree.busy)
        first = list(it.screen.rows.order)
        it.tree.sort_by("name")
        assert it.tree.busy and it.screen.rows.order == first
        assert "name ▲" in it.lines()[0]
        it.tree.action_move(1)
        assert it.tree.cursor == 1
        it.screen.set_filter("block.3.")
        await it.until(lambda: not it.tree.busy)
        names = [it.screen.rows.tensor(row).names[0] for row in it.screen.rows.order]  # type: ignore[union-attr]
        assert names == sorted(names, key=natural) and all("block.3." in name for name in names) and len(names) > 400
        it.screen.go_to(1)
        await it.until(lambda: not it.tree.busy)
        assert it.tree.selected is not None and it.tree.selected.id == 1


async def test_a_sample_that_comes_while_rows_are_arranged_waits_for_that() -> None:
    sample = many(5000)
    async with driven(sample) as it:
        await it.until(lambda: not it.tree.busy)
        it.tree.sort_by("name")
        newer = after(sample, gone=[7])
        it.source.queue.put_nowait(newer)
        await it.until(lambda: it.screen.rows.sample is newer and not it.tree.busy)
        assert it.screen.rows.view.sort_by == "name" and it.screen.rows.shown == 4999


async def test_going_to_a_tensor_that_passes_the_filter_leaves_it_though_the_rows_are_old() -> None:
    sample = training()
    old = next(iter(sample.tensors.values()))
    new = replace(old, id=9_000, names=("model.new",))
    newer = replace(sample, seq=sample.seq + 1, tensors={**sample.tensors, new.id: new}, change=Change())
    async with driven(sample) as it:
        it.screen.set_filter("name~model")
        it.app.feed.sample = newer  # type: ignore[union-attr]
        it.screen.go_to(new.id)
        assert it.screen.rows.view.filter is not None
        it.screen.set_filter("name~nothing")
        it.screen.go_to(new.id)
        assert it.screen.rows.view.filter is None


async def test_keys_that_make_no_sense_are_neither_listed_nor_obeyed() -> None:
    async with driven(training()) as it:
        await it.press("p")
        assert isinstance(it.app.screen, TensorsScreen) and "`tensortui attach` without a PID" in it.notes()
        await it.press("ctrl+c")
        assert it.notes() == "Press q to quit."
        shown = [getattr(each, "action", "") for each in it.app.usable_bindings(it.screen)]
        assert "processes" not in shown and "detach" in shown
        await it.press("6", "D")
        assert isinstance(it.app.screen, FindingsScreen)


async def test_nothing_is_painted_while_another_screen_covers_it() -> None:
    sample = training()
    async with driven(sample) as it:
        screen = it.screen
        await it.press("question_mark")
        assert isinstance(it.app.screen, HelpScreen)
        it.source.queue.put_nowait(after(sample, gone=[1]))
        await it.until(lambda: it.app.feed is not None and it.app.feed.dirty)
        screen.tick()
        assert screen.rows.sample is sample
        await it.press("escape")
        await it.until(lambda: screen.rows.sample is not sample)


async def test_the_palette_goes_to_a_tensor_by_its_name() -> None:
    async with driven(training()) as it:
        await it.press("ctrl+p", *"dataset.im")
        await it.pilot.pause(0.3)
        await it.press("down", "enter")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        await it.until(lambda: it.tree.selected is not None and it.tree.selected.names[0] == "dataset.images")


async def test_detaching_asks_first() -> None:
    async with driven(training()) as it:
        await it.press("D")
        assert isinstance(it.app.screen, ConfirmScreen)
        await it.press("n")
        assert not it.source.detached
        await it.press("D", "y")
        await it.until(lambda: it.source.detached)


async def test_the_output_of_the_program_is_followed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("step 1\n")
    async with driven(training(), log=log) as it:
        await it.press("o")
        with log.open("a") as file:
            file.write("10%\r100%\n\x1b[31mred [/]\x1b[0m\n")
        await it.until(lambda: len(it.screen._output._lines_view.lines) >= 3)
        assert list(it.screen._output._lines_view.lines)[:3] == ["step 1", "100%", "red [/]"]


async def test_a_source_that_cannot_be_opened_says_why() -> None:
    async def connect() -> Played:
        raise TensortuiError("process 1 has gone", "choose another")

    app = TensortuiApp(connect)
    async with app.run_test() as pilot:
        await pilot.pause(0.1)
        assert isinstance(app.screen, FailedScreen)
        assert "process 1 has gone" in str(app.screen.query(Static).first().content)


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_help_has_the_whole_width_of_a_narrow_terminal_from_the_first_frame_on(
    monkeypatch: pytest.MonkeyPatch, ascii_only: bool
) -> None:
    monkeypatch.setattr(HelpScreen, "on_resize", lambda self, event: None)  # it has not come yet
    async with driven(training(), size=(80, 24), ascii_only=ascii_only) as it:
        await it.press("question_mark")
        left, right = it.app.screen.query_one("#left"), it.app.screen.query_one("#right")
        assert min(left.size.width, right.size.width) >= 78 and right.region.y >= left.region.bottom


async def test_every_binding_has_an_id_and_a_tooltip() -> None:
    from tensortui.ui.screens.picker import PickerScreen

    ids = []
    owners = (TensortuiApp, TensorsScreen, TensorTree, PickerScreen, HelpScreen, ConfirmScreen, ColumnsScreen)
    for owner in (*owners, FindingsScreen):
        for binding in owner.BINDINGS:
            assert binding.id and binding.tooltip, binding  # type: ignore[union-attr]
            ids.append(binding.id)  # type: ignore[union-attr]
    assert len(set(ids)) == len(ids)


async def test_ascii_only_means_the_whole_screen() -> None:
    async def connect() -> Played:
        return Played(training())

    app = TensortuiApp(connect, clock=Clock(), ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        while not isinstance(app.screen, TensorsScreen) or app.feed is None or app.feed.sample is None:
            await pilot.pause(0.01)
        app.screen.tick()
        for keys in ((), ("i",), ("o",), ("D",), ("n", "c"), ("escape", "6"), ("1", "question_mark"), ("pagedown",)):
            await pilot.press(*keys)
            await pilot.pause()
            all_ascii(app)
        await pilot.press("escape", "ctrl+p", *"embed")
        while not app.screen.query_one(OptionList).option_count:
            await pilot.pause(0.01)
        await pilot.pause()
        all_ascii(app)
