"""The Tensors screen, driven by keys and the mouse as a user would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from picture_text import svg_text
from textual.pilot import Pilot
from textual.widgets import OptionList, Static
from ui_data import HOSTILE, NOW, Played, after, hostile, many, tensor, training

from tensortui.errors import TensortuiError
from tensortui.model import Coverage, Ended, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.columns import ColumnsScreen
from tensortui.ui.screens.confirm import ConfirmScreen
from tensortui.ui.screens.failed import FailedScreen
from tensortui.ui.screens.findings import FindingsScreen
from tensortui.ui.screens.help import HelpScreen
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.ui.widgets.filter_bar import FilterBar
from tensortui.ui.widgets.inspector import Inspector
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
    *updates: Sample | Ended, size: tuple[int, int] = (120, 30), source: Played | None = None, log: Path | None = None
) -> AsyncIterator[Driven]:
    source, clock = source or Played(*updates), Clock()

    async def connect() -> Played:
        return source

    app = TensortuiApp(connect, clock=clock, log=log, ascii_only=False)
    async with app.run_test(size=size) as pilot:
        it = Driven(app, pilot, source, clock)
        await it.until(lambda: isinstance(app.screen, TensorsScreen))
        if updates:
            await it.until(lambda: app.feed is not None and app.feed.sample is updates[0])
        it.screen.tick()
        await pilot.pause()
        yield it


async def test_the_selection_stays_on_the_same_tensor_through_updates_sorts_and_filters() -> None:
    sample = training()
    async with driven(sample) as it:
        await it.press("down", "down", "down")
        held = it.tree.selected
        assert held is not None
        bigger = tensor(900, None, ["aaa"], (9000, 9000))
        sample = after(sample, new=[bigger], gone=[1])
        await it.give(sample)
        assert it.tree.selected is not None and it.tree.selected.id == held.id
        await it.press("s", "S", "s")
        assert it.tree.selected is not None and it.tree.selected.id == held.id
        it.screen.set_filter("logits")
        assert it.tree.selected is not None and it.tree.selected.id == held.id
        it.screen.set_filter("")
        await it.press("b", "E")
        assert it.tree.selected is not None and it.tree.selected.id == held.id


async def test_the_selected_row_keeps_its_place_on_the_screen() -> None:
    sample = many(500)
    async with driven(sample) as it:
        await it.press("pagedown", "pagedown", "up", "up")
        place = it.tree.cursor - it.tree.scroll_offset.y
        new = [tensor(9000 + at, None, [f"n{at}"], (1,)) for at in range(50)]
        await it.give(after(sample, new=new, gone=list(sample.tensors)[490:]))
        assert it.tree.cursor - it.tree.scroll_offset.y == place


async def test_the_filter_works_as_it_is_typed_and_says_what_is_wrong() -> None:
    async with driven(training()) as it:
        await it.press("f", *"category:grad")
        assert "did you mean gradient?" in it.bar()
        assert it.screen.rows.shown == 101
        await it.press(*"ient")
        assert "20 of 101 shown" in it.bar()
        await it.press("enter")
        assert it.tree.has_focus
        assert it.screen.rows.shown == 20
        await it.press("f", "escape")
        assert it.screen.rows.shown == 20
        await it.press("escape")
        assert it.screen.rows.shown == 101


async def test_search_goes_to_names_inside_closed_storages_and_on_with_n() -> None:
    async with driven(training()) as it:
        await it.press("C", "slash", *"logits", "enter")
        first = it.tree.selected
        assert first is not None and "logits" in first.names[0]
        await it.press("n")
        second = it.tree.selected
        assert second is not None and "logits" in second.names[0] and second.id != first.id
        await it.press("N")
        assert it.tree.selected is not None and it.tree.selected.id == first.id


async def test_grouping_goes_round_and_is_said() -> None:
    async with driven(training()) as it:
        seen = []
        for _ in range(4):
            await it.press("b")
            seen.append(it.screen.rows.view.group_by)
        assert seen == ["category", "module", "shape", "storage"]
        await it.press("b")
        assert "group category" in it.bar()
        assert "■ optimizer   " in "\n".join(it.lines())


async def test_groups_open_and_close_by_key_and_mouse() -> None:
    async with driven(training()) as it:
        whole = len(it.screen.rows.order)
        await it.press("down", "left")
        assert len(it.screen.rows.order) == whole - 2
        await it.press("right")
        assert len(it.screen.rows.order) == whole
        await it.press("down", "left")
        assert it.tree.selected is None and it.tree.storage is not None
        await it.pilot.click(TensorTree, offset=(2, 2))
        assert len(it.screen.rows.order) == whole - 2
        await it.press("E")
        assert len(it.screen.rows.order) == whole


async def test_a_click_on_a_title_sorts_and_again_turns_round() -> None:
    async with driven(training()) as it:
        x = it.lines()[0].index("shape")
        await it.pilot.click(TensorTree, offset=(x, 0))
        assert (it.screen.rows.view.sort_by, it.screen.rows.view.reverse) == ("shape", True)
        await it.pilot.click(TensorTree, offset=(x, 0))
        assert (it.screen.rows.view.sort_by, it.screen.rows.view.reverse) == ("shape", False)
        assert "sort shape ▲" in it.bar()


async def test_what_is_new_changed_and_gone_is_marked_for_a_moment() -> None:
    sample = training()
    async with driven(sample, size=(120, 45)) as it:
        shown = [row for row in it.screen.rows.order[:30] if row >= 0]
        gone, changed = shown[0], shown[1]
        new = tensor(900, None, ["fresh"], (90, 90))
        sample = after(sample, new=[new], gone=[gone], changed=[replace(sample.tensors[changed], version=13)])
        await it.press("home")
        await it.give(sample)
        await it.press("home")
        marks = {line[0] for line in it.lines()[1:]}
        assert {"×", "~"} <= marks
        await it.press("end")
        assert any(line[0] == "+" and "fresh" in line for line in it.lines())
        it.clock.now += 3
        it.screen.tick()
        assert {line[0] for line in it.lines()[1:]} == {" "}
        assert it.screen.rows.find(("tensor", gone)) is None


async def test_rows_of_tensors_that_are_gone_do_not_pile_up_while_samples_keep_coming() -> None:
    sample = training()
    async with driven(sample, size=(160, 45)) as it:
        for _ in range(4):
            shown = [row for row in it.screen.rows.order if row >= 0 and row in sample.tensors][:2]
            sample = after(sample, gone=shown)
            await it.give(sample)
            it.clock.now += 1
            it.screen.tick()
            assert set(it.screen.rows.ghosts) == set(shown)
            assert len([row for row in it.screen.rows.order if row >= 0]) == len(sample.tensors) + 2


async def test_nothing_of_the_first_sample_is_marked_as_new() -> None:
    async with driven(training()) as it:
        assert {line[0] for line in it.lines()[1:]} == {" "}


async def test_the_details_follow_the_cursor() -> None:
    async with driven(training(), size=(160, 45)) as it:
        await it.press("i")
        panel = it.screen.query_one(Inspector)
        assert panel.display and "model.head.weight" in str(panel.query_one(Static).content)
        await it.press("down")
        assert "storage of 64.00 MiB" in str(panel.query_one(Static).content)
        await it.press("down")
        assert "logits.t()" in str(panel.query_one(Static).content)
        await it.press("escape")
        assert not panel.display


async def test_enter_on_a_tensor_shows_its_details() -> None:
    async with driven(training(), size=(80, 24)) as it:
        await it.press("enter")
        assert it.screen.query_one(Inspector).display


async def test_pausing_asks_the_source_for_nothing_more() -> None:
    async with driven(training()) as it:
        await it.press("space")
        assert it.source.intervals == [None]
        assert "paused" in it.status()
        await it.press("space")
        assert it.source.intervals == [None, 1.0]
        assert "live" in it.status()


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


async def test_leaving_a_search_goes_back_to_where_it_began() -> None:
    async with driven(training()) as it:
        await it.press("down", "down")
        before = it.tree.selected
        await it.press("slash", *"norm")
        assert it.tree.selected != before
        await it.press("escape")
        assert it.tree.selected == before and it.tree.has_focus


async def test_a_click_on_the_table_ends_the_typing() -> None:
    async with driven(training()) as it:
        await it.press("f", *"grad")
        await it.pilot.click("#tree", offset=(40, 3))
        await it.pilot.pause()
        assert not it.screen.query_one(FilterBar).typing and it.tree.has_focus
        assert 0 < it.screen.rows.shown < 101


async def test_details_of_a_tensor_that_is_gone_say_so_and_keep_its_storage() -> None:
    sample = training()
    async with driven(sample, size=(160, 45)) as it:
        await it.press("i")
        held = it.tree.selected
        assert held is not None
        await it.give(after(sample, gone=[held.id]))
        text = str(it.screen.query_one(Inspector).query_one(Static).content)
        assert "gone" in text and "98.25 MiB" in text and "holds no memory" not in text


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
        assert "▲! 2 findings" in it.status()
        it.screen.set_filter("category:gradient")
        await it.press("2")
        assert isinstance(it.app.screen, FindingsScreen)
        told = str(it.app.screen.query_one("#detail", Static).content)
        assert "row @ step() train.py:47 keeps 64.00 MiB alive for 16.00 KiB" in told and "clone()" in told
        await it.press("1", "2", "escape", "2", "enter")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        await it.until(lambda: it.tree.selected is not None and it.tree.selected.names[0].startswith("row @"))


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
        assert names == sorted(names) and all("block.3." in name for name in names) and len(names) > 400
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


async def test_keys_that_make_no_sense_are_neither_listed_nor_obeyed() -> None:
    async with driven(training()) as it:
        await it.press("p")
        assert isinstance(it.app.screen, TensorsScreen)
        shown = [getattr(each, "action", "") for each in it.app.usable_bindings(it.screen)]
        assert "processes" not in shown and "detach" in shown
        await it.press("2", "D")
        assert isinstance(it.app.screen, FindingsScreen)


async def test_the_last_sample_stays_when_the_target_is_lost() -> None:
    async with driven(training()) as it:
        await it.give(Ended("the process was killed by signal 9 (SIGKILL)", NOW + 1, expected=False))
        assert "killed by signal 9 (SIGKILL)" in it.text_of("#notice")
        assert "09:20:00 UTC" in it.text_of("#notice")
        assert "ended" in it.status()
        assert any("model.embed" in line for line in it.lines())
        await it.press("down", "b", "space")
        assert it.source.intervals == []


async def test_before_the_first_sample_the_screen_says_that_it_is_connecting() -> None:
    async with driven(source=Played()) as it:
        assert "connecting to train.py" in it.text_of("#empty") and it.screen.has_class("-empty")


async def test_a_narrow_status_line_still_says_who_how_fresh_and_at_what_cost() -> None:
    async with driven(training(), size=(80, 24)) as it:
        await it.until(lambda: it.app.feed.judged is not None)  # type: ignore[union-attr]
        it.screen.tick()
        for words in (" train.py  pid 41234  rank 0/8", "cost 0.3 %", "2 findings", "live 0.4 s ago"):
            assert words in it.status()
        alone = replace(training(), seq=2, process=replace(training().process, rank=None, torch="2.13.0+cpu"))
        await it.give(alone)
        assert "cost 0.3 %" in it.status()


async def test_an_aged_sample_is_called_slow() -> None:
    async with driven(training()) as it:
        it.clock.now += 7
        it.screen.tick()
        assert "slow" in it.status() and "7.4 s" in it.status()


@pytest.mark.parametrize(
    ("phase", "words"), [("waiting", "has not imported torch yet"), ("scanning", "40%"), ("live", "no tensors")]
)
async def test_without_tensors_the_screen_says_why(phase: str, words: str) -> None:
    empty = replace(training(), phase=phase, progress=0.4, tensors={}, storages={})
    async with driven(empty) as it:
        assert words in it.text_of("#empty")
        await it.give(after(replace(empty, change=training().change), new=[tensor(5, None, ["x"], (2,))]))
        assert not it.screen.has_class("-empty")


async def test_incomplete_coverage_is_said_with_its_reasons() -> None:
    sample = replace(training(), coverage=Coverage(False, ("gc.freeze() hides 120 objects",)))
    async with driven(sample) as it:
        assert "incomplete" in it.status()
        await it.press("w")
        assert "gc.freeze() hides 120 objects" in it.notes()


async def test_hostile_names_are_never_markup_and_never_act() -> None:
    async with driven(hostile(), size=(160, 45)) as it:
        await it.press("i")
        for _ in HOSTILE:
            await it.press("down")
        text = "\n".join(it.lines())
        assert "[bold red]x[/]" in text and "\\e[2J" in text
        assert not set(text) & {"\x1b", "\u202e", "\ud800"}
        await it.press("ctrl+p")
        await it.press(*"red")
        await it.press("escape", "escape")
        await it.give(Ended("[/] \x1b[2J", NOW))
        assert "[/]" in it.text_of("#notice")


async def test_copy_gives_the_json_of_the_tensor() -> None:
    async with driven(training()) as it:
        await it.press("y")
        copied = json.loads(it.app.clipboard)
        assert copied["tensor"]["names"][0] == "model.embed.weight"
        assert copied["storage"]["id"] == copied["tensor"]["storage"]


async def test_export_writes_the_document_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with driven(training()) as it:
        await it.press("e", "e")
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == [
        "tensortui-41234-20251229T092000Z-1.json",
        "tensortui-41234-20251229T092000Z.json",
    ]
    assert json.loads(files[1].read_text())["totals"]["tensors"] == 101


async def test_the_source_is_told_what_is_on_screen() -> None:
    async with driven(many(500)) as it:
        await it.until(lambda: bool(it.source.watched))
        first = it.source.watched[-1]
        await it.press("end")
        await it.until(lambda: it.source.watched[-1] != first)
        assert it.source.watched[-1] == frozenset(t.id for t in it.tree.visible_tensors())


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


async def test_every_binding_has_an_id_and_a_tooltip() -> None:
    from tensortui.ui.screens.picker import PickerScreen

    ids = []
    owners = (TensortuiApp, TensorsScreen, TensorTree, PickerScreen, HelpScreen, ConfirmScreen, ColumnsScreen)
    for owner in (*owners, FindingsScreen):
        for binding in owner.BINDINGS:
            assert binding.id and binding.tooltip, binding  # type: ignore[union-attr]
            ids.append(binding.id)  # type: ignore[union-attr]
    assert len(set(ids)) == len(ids)


def all_ascii(app: TensortuiApp) -> None:
    text = "".join(svg_text(app.export_screenshot(simplify=True)))
    assert text.strip() and text.isascii(), sorted({char for char in text if not char.isascii()})


async def test_ascii_only_means_the_whole_screen() -> None:
    async def connect() -> Played:
        return Played(training())

    app = TensortuiApp(connect, clock=Clock(), ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        while not isinstance(app.screen, TensorsScreen) or app.feed is None or app.feed.sample is None:
            await pilot.pause(0.01)
        app.screen.tick()
        for keys in ((), ("i",), ("o",), ("D",), ("n", "c"), ("escape", "2"), ("1", "question_mark"), ("pagedown",)):
            await pilot.press(*keys)
            await pilot.pause()
            all_ascii(app)
        await pilot.press("escape", "ctrl+p", *"embed")
        while not app.screen.query_one(OptionList).option_count:
            await pilot.pause(0.01)
        await pilot.pause()
        all_ascii(app)
