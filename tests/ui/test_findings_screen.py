"""The Findings screen: what it tells of a graph, what stays selected, and what can be scrolled."""

from __future__ import annotations

from dataclasses import replace

from driving import Driven, driven
from graph_data import WithGraph, training_graph
from picture_text import svg_text
from textual.widgets import OptionList, Static
from ui_data import MIB, NOW, Build, after, many

from tensortui.analysis.findings import Finding
from tensortui.errors import TensortuiError
from tensortui.model import Ended, Graph, Sample
from tensortui.ui.screens.findings import FindingsScreen, _place_of
from tensortui.ui.screens.tensors import TensorsScreen


def screen(it: Driven) -> FindingsScreen:
    assert isinstance(it.app.screen, FindingsScreen)
    return it.app.screen


def text(it: Driven, selector: str) -> str:
    return str(screen(it).query_one(selector, Static).content)


def kinds(it: Driven) -> list[str]:
    assert it.app.feed is not None
    return [finding.kind for finding in it.app.feed.findings]


async def judged(it: Driven, *more: str) -> None:
    feed = it.app.feed
    assert feed is not None
    await it.until(lambda: feed.judged is feed.sample and all(kind in kinds(it) for kind in more))


async def open_findings(it: Driven) -> None:
    await judged(it)
    await it.press("6")
    screen(it).tick()


async def test_a_graph_is_read_by_a_key_and_its_findings_have_its_age() -> None:
    sample, graph, _ = training_graph()
    async with driven(source=WithGraph(sample, graph=graph)) as it:
        await open_findings(it)
        assert "no graph was read: r reads it" in text(it, "#graph")
        assert "stale-save" not in kinds(it)
        await it.press("r")
        await judged(it, "stale-save")
        screen(it).tick()
        assert text(it, "#graph") == " graph read 0.0 s ago: 1 finding; r reads it anew"
        at = kinds(it).index("stale-save")
        screen(it).query_one(OptionList).highlighted = at
        it.clock.now += 42
        screen(it).tick()
        await it.pilot.pause()
        told = text(it, "#told")
        assert "SwishBackward saved h @ forward() model.py:61 (saved_tensors[0]) at version 0, it is now at 1" in told
        assert "changed by      last changed in place by AddBackward0, which is recorded on h @ forward()" in told
        assert "\nnode  " not in told
        assert "graph           read 42 s ago" in told
        assert text(it, "#graph").startswith(" graph read 42 s ago: 1 finding")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, TensorsScreen))
        await it.until(lambda: it.tree.selected is not None and it.tree.selected.names[0].startswith("h @ forward()"))


async def test_the_graph_that_the_graph_screen_read_is_looked_through_too() -> None:
    sample, graph, _ = training_graph()
    async with driven(source=WithGraph(sample, graph=graph)) as it:
        await judged(it)
        await it.press("3", "a")
        await judged(it, "stale-save")
        await it.press("6")
        assert "graph read 0.0 s ago: 1 finding" in text(it, "#graph")


async def test_of_a_graph_that_is_gone_the_last_findings_stay_and_say_so() -> None:
    sample, graph, _ = training_graph()
    (stale,) = [saved for node in graph.nodes for saved in node.saved if saved.stale]
    async with driven(source=WithGraph(sample, graph=graph)) as it:
        await open_findings(it)
        await it.press("r")
        await judged(it, "stale-save")
        assert stale.tensor is not None
        it.source.queue.put_nowait(replace(after(sample, gone=[stale.tensor]), taken_at=NOW + 9))
        feed = it.app.feed
        assert feed is not None
        await it.until(lambda: feed.graph is not None and feed.graph.gone and feed.judged is feed.sample)
        screen(it).tick()
        assert "stale-save" in kinds(it)
        assert "some of it is gone by now" in text(it, "#graph")
        screen(it).query_one(OptionList).highlighted = kinds(it).index("stale-save")
        await it.press("enter")
        assert "The tensors of this finding are gone." in it.notes()


async def test_a_change_in_place_after_the_graph_was_read_is_found() -> None:
    sample, graph, _ = training_graph()
    saved = [one for node in graph.nodes for one in node.saved if one.name == "target"]
    assert saved[0].tensor is not None
    target = sample.tensors[saved[0].tensor]
    async with driven(source=WithGraph(sample, graph=graph)) as it:
        await open_findings(it)
        await it.press("r")
        await judged(it, "stale-save")
        it.source.queue.put_nowait(after(sample, changed=[replace(target, version=5)]))
        await it.until(lambda: kinds(it).count("stale-save") == 2)


async def test_why_a_graph_was_not_read_is_said() -> None:
    source = WithGraph(many(3), graph=TensortuiError("a backward is running", "press r to try again"))
    async with driven(source=source) as it:
        await open_findings(it)
        await it.press("r")
        await it.until(lambda: "a backward is running" in text(it, "#graph"))
        source.answer = Graph()
        await it.press("r")
        await it.until(
            lambda: "graph read 0.0 s ago: no findings" in text(it, "#graph") or "no live" in text(it, "#graph")
        )
        source.queue.put_nowait(Ended("the process ended", NOW + 1))
        await it.until(lambda: it.app.feed is not None and it.app.feed.ended is not None)
        await it.press("r")
        await it.until(lambda: "the graph can no longer be read" in text(it, "#graph"))


async def test_it_says_that_it_waits_for_a_graph() -> None:
    source = WithGraph(many(3), graph=Graph())
    source.may.clear()
    async with driven(source=source) as it:
        await open_findings(it)
        await it.press("r")
        it.clock.now += 3
        await it.press("r")  # it is asked for already
        screen(it).tick()
        assert "reading the graph, 3.0 s so far" in text(it, "#graph")
        assert len(source.asked) == 1
        source.may.set()
        await it.until(lambda: "reading" not in text(it, "#graph"))


def hoards(sizes: dict[str, int], line: int, first: int = 1) -> Sample:
    """Views that keep storages of so many MiB, as the locals of a function that has come to a line."""
    build = Build()
    for _ in range(first - 1):
        build.add("filler", (1,))
    for name, size in sizes.items():
        build.add(f"{name} @ step() train.py:{line}", (16,), storage=build.storage(size * MIB))
    return build.sample()


async def test_what_is_selected_stays_so_when_it_changes_and_the_place_when_it_is_gone() -> None:
    async with driven(hoards({"a": 30, "b": 20, "c": 10}, 7)) as it:
        await open_findings(it)
        await it.press("j")
        listing = screen(it).query_one(OptionList)
        assert "b @ step() train.py:7 keeps 20.00 MiB" in text(it, "#told")
        # other tensors by the same names, in another order, and the line goes on
        grown = replace(hoards({"b": 90, "c": 50, "a": 2}, 8, first=4), seq=2)
        it.source.queue.put_nowait(grown)
        await it.until(lambda: it.app.feed is not None and it.app.feed.judged is grown)
        screen(it).tick()
        assert listing.highlighted == 0
        assert "b @ step() train.py:8 keeps 90.00 MiB" in text(it, "#told")
        await it.press("j")
        without = replace(hoards({"b": 90, "a": 2, "d": 1}, 8), seq=3)
        it.source.queue.put_nowait(without)
        await it.until(lambda: it.app.feed is not None and it.app.feed.judged is without)
        screen(it).tick()
        assert listing.highlighted == 1


def test_of_several_about_the_same_the_one_with_the_same_tensors_is_kept() -> None:
    def finding(*tensors: int, more: int = 1) -> Finding:
        return Finding("growth", "warning", "", tensors, stands_for=more, about=("x",))

    found = [finding(1), finding(2), finding(1, 2, more=2)]
    assert [_place_of(one, found, 0) for one in (finding(2), finding(9), finding(7, more=3))] == [1, 0, 2]
    assert _place_of(None, found, 9) == 2


async def test_the_details_can_be_scrolled_to_their_end_on_a_small_terminal() -> None:
    sample, graph, _ = training_graph()
    async with driven(source=WithGraph(sample, graph=graph), size=(80, 24)) as it:
        await open_findings(it)
        await it.press("r")
        await judged(it, "stale-save")
        screen(it).tick()
        await it.pilot.pause()
        await it.press("g")
        assert "tensor          h @ forward()" in text(it, "#told")
        await it.press(*["full_stop"] * 4)
        part = screen(it).query_one("#detail")
        assert part.scroll_y == part.max_scroll_y > 0
        shown = "\n".join(svg_text(it.app.export_screenshot(simplify=True)))
        assert "tensor          h @ forward()" in shown
        screen(it).tick()
        await it.pilot.pause()
        assert part.scroll_y > 0  # what is painted anew stays where it is
        await it.press(*["comma"] * 4)
        assert part.scroll_y == 0


async def test_another_finding_is_told_from_its_beginning() -> None:
    async with driven(hoards({"a": 30, "b": 20}, 7), size=(80, 16)) as it:
        await open_findings(it)
        part = screen(it).query_one("#detail")
        await it.press("full_stop")
        assert part.scroll_y > 0
        await it.press("j")
        assert part.scroll_y == 0
