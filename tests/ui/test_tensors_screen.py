"""The Tensors screen, driven by keys and the mouse as a user would."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from driving import driven
from textual.widgets import Static
from ui_data import HOSTILE, NOW, Build, Played, after, hostile, many, tensor, training

from tensortui.model import Coverage, Ended, Storage
from tensortui.ui.widgets.filter_bar import FilterBar
from tensortui.ui.widgets.inspector import Inspector
from tensortui.ui.widgets.tensor_tree import TensorTree


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
        assert "did you mean gradient?" in it.text_of("#hint") and "all rows stay" in it.text_of("#hint")
        assert it.screen.rows.shown == 101
        await it.press("enter")
        assert it.screen.query_one(FilterBar).typing and not it.tree.has_focus
        await it.press(*"ient")
        assert "20 of 101 shown" in it.bar()
        await it.press("enter")
        assert it.tree.has_focus and not it.screen.query_one("#hint").display
        assert it.screen.rows.shown == 20
        await it.press("f", *" devcie:cpu", "enter")
        assert it.screen.rows.shown == 20 and "the rows are those of 'category:gradient'" in it.text_of("#hint")
        await it.press("escape")
        assert "category:gradient none" not in it.bar() and "category:gradient" in it.bar()
        assert not it.screen.query_one("#hint").display
        await it.press("f", *" devcie:cpu")
        await it.pilot.click("#tree", offset=(40, 3))
        await it.until(lambda: it.tree.has_focus)
        assert it.screen.rows.shown == 20 and not it.screen.query_one("#hint").display
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
        assert seen == ["category", "holder", "shape", "storage"]
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
        sample = after(sample, new=[new], gone=[gone], changed=[replace(sample.tensors[changed], category="saved")])
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


async def test_a_step_of_the_optimizer_marks_nothing() -> None:
    sample = training()
    async with driven(sample) as it:
        stepped = [replace(each, version=(each.version or 0) + 1) for each in sample.tensors.values()]
        await it.give(after(sample, changed=stepped))
        assert {line[0] for line in it.lines()[1:]} == {" "}
        assert any(" 13 " in line for line in it.lines())


async def test_a_filter_that_nothing_passes_says_so() -> None:
    for phase, words in (
        ("live", "4 tensors could not be asked, having no name"),
        ("scanning", "more tensors and names are to come"),
    ):
        async with driven(replace(training(), phase=phase, progress=0.4)) as it:
            it.screen.set_filter("name~nothing_like_it")
            assert "no tensor passes this filter: esc clears it" in it.lines()[2] and words in it.lines()[2]
            it.screen.set_filter("version>1000")
            assert "no tensor passes" in it.lines()[2] and "having no name" not in it.lines()[2]
            await it.press("escape")
            assert "no tensor passes" not in "".join(it.lines())


async def test_a_bundle_opens_by_enter_and_closes_by_left() -> None:
    b = Build()
    weight = b.storage(4096)
    b.add("fc.weight", (32, 32), storage=weight)
    for _ in range(5):
        b.add("mat2 saved by AddmmBackward0", (32, 32), storage=weight, strides=(1, 32))
    async with driven(b.sample()) as it:
        await it.press("end")
        assert "5 x mat2 saved by" in it.lines()[3]
        await it.press("enter", "down", "down")
        assert len(it.screen.rows.order) == 7 and "x mat2" not in "".join(it.lines())
        await it.press("left")
        assert len(it.screen.rows.order) == 3 and it.tree.cursor == 2
        await it.press("right")
        assert len(it.screen.rows.order) == 7
        await it.press("i", "left")
        text = str(it.screen.query_one(Inspector).query_one(Static).content)
        assert "5 of them read the same" in text


async def test_the_details_of_a_group_say_what_is_in_it() -> None:
    async with driven(training(), size=(160, 45)) as it:
        await it.press("b", "i")
        text = str(it.screen.query_one(Inspector).query_one(Static).content)
        assert "● parameter" in text and "22 tensors" in text and "model.layers.0.mlp.up.weight" in text


async def test_the_details_say_what_is_a_view_of_what_and_what_the_finding_says() -> None:
    async with driven(training(), size=(160, 45)) as it:
        await it.until(lambda: it.app.feed is not None and it.app.feed.judged is not None)
        await it.press("i", "slash", *"row @", "enter")
        text = " ".join(str(it.screen.query_one(Inspector).query_one(Static).content).split())
        assert "keeps 64.00 MiB alive for 16.00 KiB" in text and "row.clone() frees the rest" in text
        assert "view shares the memory of another tensor" in text
        await it.press("slash", *"logits.t", "enter")
        text = " ".join(str(it.screen.query_one(Inspector).query_one(Static).content).split())
        assert "view of logits @ step() train.py:52" in text
        assert "is_leaf no the result of an operation" in text


async def test_the_details_say_first_who_holds_a_base_and_wrap_what_is_long() -> None:
    b = Build()
    held = b.storage(64 << 20, "cpu")
    b.add((), (4096, 4096), device="cpu", storage=held, flags=("base-only",))
    b.add("trainer.a_long_way.to_the.sample_of_the_epoch", (4096,), device="cpu", storage=held, flags=("view",))
    async with driven(b.sample(), size=(160, 45)) as it:
        await it.press("down", "i")
        lines = str(it.screen.query_one(Inspector).query_one(Static).content).split("\n")
        assert lines[2:4] == [" base held only by trainer.a_long_way.to_the.", " sample_of_the_epoch"]


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


async def test_what_comes_and_goes_with_every_step_leaves_no_rows_behind() -> None:
    sample = training()
    async with driven(sample, size=(160, 45)) as it:
        for step in range(3):
            ids = range(900 + 100 * step, 920 + 100 * step)
            gradients = [tensor(tid, tid, [f"w{tid}.grad"], (9000, 9000)) for tid in ids]
            sample = after(sample, new=gradients, storages=[Storage(tid, "cuda:0", tid << 30, 1 << 29) for tid in ids])
            await it.give(sample)
            assert {each.id for each in it.tree.visible_tensors()} > set(ids)
            sample = after(sample, gone=ids)
            await it.give(sample)
            assert not it.screen.rows.ghosts


async def test_rows_of_tensors_that_are_gone_leave_the_table_readable() -> None:
    sample = training()
    async with driven(sample, size=(160, 45)) as it:
        await it.press("pagedown")
        shown, held = [each.id for each in it.tree.visible_tensors()], it.tree.selected
        assert len(shown) > 30 and held is not None and held.id == shown[-1]
        await it.give(after(sample, gone=shown))
        assert len(it.screen.rows.ghosts) == 4 and held.id in it.screen.rows.ghosts
        largest = max((sample.tensors[tid] for tid in shown), key=lambda each: (bool(each.names), each.bytes))
        assert largest.id in it.screen.rows.ghosts


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


async def test_while_the_cost_may_be_that_of_the_first_look_that_is_said() -> None:
    dear = replace(training(), cost=replace(training().cost, share=0.04, budget=0.01))
    async with driven(dear, size=(160, 45)) as it:
        assert "costs the program 4.0 % (first look)" in it.status()
        await it.give(after(dear, seconds=29))
        it.screen.tick()
        assert "costs the program 4.0 % (first look)" in it.status()
        await it.give(after(dear, seconds=31))
        it.screen.tick()
        assert "costs the program 4.0 % " in it.status() and "first look" not in it.status()
    async with driven(training(), size=(160, 45)) as it:
        assert "costs the program 0.3 % " in it.status() and "first look" not in it.status()


async def test_what_holds_the_program_up_is_said_as_soon_as_samples_are_late() -> None:
    for size in ((160, 45), (80, 24)):
        async with driven(training(), size=size) as it:
            it.source.why_held = "stopped (SIGSTOP): kill -CONT 41234"
            it.screen.tick()
            assert "live" in it.status()
            it.clock.now += 3
            it.screen.tick()
            assert "▲! stopped (SIGSTOP): kill -CONT 41234, sample 3.4 s old" in it.status()


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
        assert "▲! not all seen, press w" in it.status()
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
        await it.until(lambda: "into the directory you started in: tensortui-41234" in it.notes())
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
