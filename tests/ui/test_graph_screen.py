"""The Graph screen: read when asked for, said why not, walked through by keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from driving import Driven, all_ascii, driven
from graph_data import WithGraph, chain, training_graph
from test_screens import LARGE, MIDDLE, SMALL, ready
from textual.widgets import Static
from ui_data import NOW, after, many

from tensortui.errors import TensortuiError
from tensortui.model import Ended, Graph, GraphNode, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.findings import FindingsScreen
from tensortui.ui.screens.graph import GraphScreen
from tensortui.ui.screens.help import MANUAL, in_ascii
from tensortui.ui.screens.tensors import TensorsScreen


class Opened:
    """The Graph screen under a pilot."""

    def __init__(self, it: Driven, source: WithGraph) -> None:
        self.it, self.source = it, source
        self.press, self.until, self.pilot = it.press, it.until, it.pilot

    @property
    def screen(self) -> GraphScreen:
        screen = self.it.app.screen
        assert isinstance(screen, GraphScreen)
        return screen

    def rows(self) -> list[str]:
        tree = self.screen.tree_view
        return [tree.render_line(y).text.rstrip() for y in range(tree.size.height)]

    def here(self) -> str:
        tree = self.screen.tree_view
        return tree.render_line(1 + tree.cursor - tree._top).text.rstrip()

    def text_of(self, selector: str) -> str:
        return str(self.screen.query_one(selector, Static).content)

    async def settled(self) -> None:
        await self.until(lambda: not self.screen.reading.under_way)
        await self.pilot.pause()

    async def give(self, update: Sample | Ended) -> None:
        app = self.it.app
        self.source.queue.put_nowait(update)
        await self.until(lambda: app.feed is not None and update in (app.feed.sample, app.feed.ended))


@asynccontextmanager
async def opened(
    sample: Sample,
    graph: Graph | TensortuiError,
    tid: int | None = None,
    *,
    size: tuple[int, int] = MIDDLE,
    wait: bool = True,
) -> AsyncIterator[Opened]:
    source = WithGraph(sample, graph=graph)
    async with driven(sample, source=source, size=size) as it:
        if tid is not None:
            assert it.tree.go_to(tid)
        else:
            await it.press("g")
        if not wait:
            source.may.clear()
        await it.press("3")
        one = Opened(it, source)
        if wait:
            await one.settled()
        yield one


async def test_the_graph_behind_the_selected_tensor_is_asked_for_once_and_never_polled() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        assert it.source.asked == [[loss, *sorted((t.id for t in sample.tensors.values() if t.grad_fn and t.id != loss),
                                                  reverse=True)]]  # fmt: skip
        assert it.text_of("#head").startswith(" loss @ step() train.py:53  NllLossBackward0")
        await it.give(after(sample, seconds=1))
        it.it.clock.now += 30
        it.screen.tick()
        await it.pilot.pause()
        assert len(it.source.asked) == 1
        assert "read 30 s ago" in it.text_of("#head")
        await it.press("r")
        await it.settled()
        assert len(it.source.asked) == 2
        assert "read 0.0 s ago" in it.text_of("#head")


async def test_what_is_stale_is_said_and_where_the_cursor_begins() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        assert (
            it.text_of("#notice") == "▲! SwishBackward: saved_tensors[0] saved at v0, now v1: backward will raise (n)"
        )
        assert "saved_tensors[0]" in it.here() and "▲! v0, now v1: will raise" in it.here()
        detail = it.text_of("#detail")
        assert (
            "changed by  last changed in place by AddBackward0, which is recorded on h @ forward() model.py:61"
            in detail
        )
        await it.press("g", "n")
        assert "saved_tensors[0]" in it.here()


async def test_layers_fold_open_and_close() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss, size=(160, 60)) as it:
        (fold,) = [row for row in it.rows() if "more times" in row]
        assert "the same 4 nodes 10 more times, from AddBackward0 on" in fold
        before = it.rows()
        while "more times" not in it.here():
            await it.press("j")
        await it.press("enter")
        assert len(it.screen.tree_view._rows) > 100
        await it.press("left")
        assert it.rows() == before
        await it.press("C")
        assert not any("▲ " in row for row in it.rows())
        await it.press("E")
        assert len(it.screen.tree_view._rows) > 100


async def test_enter_goes_to_the_tensor_in_the_table_and_left_to_the_node() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        await it.press("h")
        assert "SwishBackward" in it.here() and "a Function of model.Swish" in it.here()
        await it.press("h")
        assert "SwishBackward" in it.here() and "saved_tensors" not in "".join(it.rows())
        await it.press("l", "j", "enter")
        await it.until(lambda: isinstance(it.it.app.screen, TensorsScreen))
        await it.pilot.pause()
        assert it.it.tree.selected is not None
        assert it.it.tree.selected.names == ("h @ forward() model.py:61",)


async def test_a_link_leads_to_what_it_stands_for() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        while "shown below" not in it.here():
            await it.press("j")
        assert "AddBackward0" in it.here()
        await it.press("enter")
        assert "shown below" not in it.here()
        assert "AddBackward0" in it.here()


async def test_while_it_waits_it_says_what_for() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss, wait=False) as it:
        assert it.text_of("#state") == "reading the graph"
        it.it.clock.now += 3
        it.source.why_held = "stopped by a signal (T)"
        it.screen.tick()
        assert "3.0 s so far: it is read in small steps, and only while no backward runs" in it.text_of("#state")
        assert "stopped by a signal (T)" in it.text_of("#state")
        await it.press("n", "u", "a", "r", "enter", "left", "E")  # nothing of it makes sense yet
        assert len(it.source.asked) == 1
        it.source.may.set()
        await it.settled()
        assert "LogSoftmaxBackward0" in "".join(it.rows())


async def test_leaving_while_it_waits() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss, wait=False) as it:
        await it.press("escape")
        await it.until(lambda: isinstance(it.it.app.screen, TensorsScreen))
        await it.press("3", "6")
        await it.until(lambda: isinstance(it.it.app.screen, FindingsScreen))


async def test_a_failure_is_said_with_what_to_do_and_r_tries_again() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, TensortuiError("The agent failed.", "Ask again."), loss) as it:
        assert it.text_of("#state") == "the graph was not read: The agent failed.\n\nAsk again."
        it.source.answer = graph
        await it.press("r")
        await it.settled()
        assert "LogSoftmaxBackward0" in "".join(it.rows())


async def test_a_fault_of_ours_is_said_and_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, graph, loss = training_graph()
    monkeypatch.setattr("tensortui.ui.reading.Behind", lambda *_: 1 / 0)
    async with opened(sample, graph, loss) as it:
        assert it.text_of("#state").startswith("the graph cannot be shown: internal error: ZeroDivisionError")


async def test_the_last_graph_of_a_process_that_has_ended_stays() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        before = it.rows()
        await it.give(Ended("the process was killed by signal 9 (SIGKILL)", NOW + 1, expected=False))
        await it.press("r")
        assert "this is the last graph there is" in it.it.notes()
        assert it.rows() == before
        assert len(it.source.asked) == 1


async def test_a_storage_stands_for_its_first_tensor() -> None:
    sample, graph, _ = training_graph()
    async with driven(sample, source=WithGraph(sample, graph=graph)) as it:
        while it.tree.storage is None:
            await it.press("j")
        first = it.screen.any_selected
        await it.press("3")
        assert isinstance(it.app.screen, GraphScreen)
        assert it.app.screen.reading.tensor is first


async def test_a_source_without_graphs_says_why() -> None:
    sample, graph, loss = training_graph()
    source = WithGraph(sample, graph=graph)
    source.missing = {"graph": "a PyTorch pickle has no graph"}
    async with driven(sample, source=source) as it:
        it.tree.go_to(loss)
        await it.press("3")
        screen = it.app.screen
        assert "a PyTorch pickle has no graph" in str(screen.query_one("#state", Static).content)
        assert source.asked == []


async def test_no_graph_and_one_that_was_not_read_are_told_apart() -> None:
    async with opened(many(3), Graph()) as it:
        await it.press("a")
        await it.settled()
        assert it.text_of("#state").startswith("there is no graph\n\n")
    async with opened(many(3), Graph(cut=True, reasons=("a backward was running at each try",))) as it:
        await it.press("a")
        await it.settled()
        assert it.text_of("#state") == "the graph was not read\n\na backward was running at each try"


async def test_a_tensor_that_has_gone_is_replaced_by_the_newest_of_its_kind_and_that_is_said() -> None:
    """A training loop makes another loss each step."""
    sample, graph, loss = training_graph()
    nodes = tuple(replace(node, tensors=tuple(one for one in node.tensors if one != loss)) for node in graph.nodes)
    async with opened(sample, replace(graph, nodes=nodes), loss) as it:
        assert it.source.asked[1:] == [None]  # once: what was read holds something
        assert "▲! loss was gone when the graph was read: this is the newest graph that ends in NllLossBackward0" in (
            it.text_of("#notice")
        )
        assert "NllLossBackward0" in it.rows()[1] or "saved_tensors" in it.here()


async def test_what_was_read_right_after_a_backward_is_read_again_at_other_moments() -> None:
    sample, graph, loss = training_graph()

    def without_loss(node: GraphNode) -> GraphNode:
        return replace(node, tensors=tuple(one for one in node.tensors if one != loss))

    half = replace(graph, nodes=tuple(map(without_loss, graph.nodes[:-5])), roots=(graph.nodes[-6].id,))
    spent = replace(graph, nodes=tuple(replace(without_loss(node), saved=(), freed=bool(node.saved))
                                       for node in graph.nodes))  # fmt: skip
    async with opened(sample, spent, loss, wait=False) as it:
        it.source.answers = [spent, spent, spent, half]
        it.source.may.set()
        await it.settled()
        assert it.source.asked[1:] == [None, None, None]
        assert it.text_of("#notice").startswith(
            "▲! loss was gone when the graph was read: this is every graph that lived"
        )
        await it.press("g")
        assert "SwishBackward" in it.rows()[1]


async def test_a_step_that_is_over_is_shown_as_it_was_read() -> None:
    """Neither the loss nor what its graph held is in any sample: the graph itself tells."""
    sample, graph, loss = training_graph()
    lasting = {number: one for number, one in sample.tensors.items() if one.category == "parameter"}
    kept = {one.storage for one in lasting.values()}
    held = {number: replace(one, names=(), storage=-(one.storage or 0), python=False)
            for number, one in sample.tensors.items() if number not in lasting}  # fmt: skip
    graph = replace(
        graph,
        tensors=held,
        storages={-number: replace(one, id=-number) for number, one in sample.storages.items()},
    )
    later = replace(sample, tensors=lasting, storages={n: one for n, one in sample.storages.items() if n in kept})
    async with opened(sample, graph, loss) as whole:
        expected = whole.text_of("#head").splitlines()[1]
    async with opened(later, graph, size=LARGE) as it:
        await it.press("a")
        await it.settled()
        await it.press("g")
        assert "(4096, 4000) f32  graph alone" in "".join(it.rows())
        assert "view of model.layers.11.up.weight" in "".join(it.rows())
        assert it.text_of("#head").splitlines()[1].split("alive")[1].split() == expected.split("alive")[1].split()
        await it.give(after(later, seconds=2))
        it.it.clock.now += 5
        it.screen.tick()
        await it.until(lambda: "gone: this graph is no more" in it.text_of("#notice"))
        assert "(4096, 4000) f32  graph alone" in "".join(it.rows())


async def test_once_its_tensors_are_gone_the_picture_stays_and_says_so() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        before = it.rows()
        gone = [one.id for one in sample.tensors.values() if not one.python and "view" not in one.flags]
        await it.give(after(sample, gone=gone))
        it.it.clock.now += 5
        it.screen.tick()
        await it.until(lambda: it.screen.reading.gone > 0)
        await it.pilot.pause()
        assert it.text_of("#notice").startswith(f"▲! {len(gone)} tensors of it are gone: this graph is no more")
        rows = it.rows()
        assert rows == before[: len(rows)]
        other = next(one for one in sample.tensors.values() if one.id == loss)
        renewed = replace(other, id=9000)
        assert it.it.app.feed is not None and it.it.app.feed.sample is not None
        await it.give(after(it.it.app.feed.sample, new=[renewed], gone=[loss]))
        await it.press("r")
        assert it.source.asked[-2][0] == 9000  # the variable of that name, as it is now
        await it.settled()
        again = replace(other, id=9001, names=("trainer.last", *other.names))
        await it.give(after(it.it.app.feed.sample, new=[again], gone=[9000]))
        await it.press("r")
        assert it.source.asked[-2][0] == 9001  # also where that is only one of its names


async def test_what_changes_later_becomes_stale_without_reading_anew() -> None:
    sample, graph, loss = training_graph()
    async with opened(sample, graph, loss) as it:
        weight = next(one for one in sample.tensors.values() if one.names == ("model.head.weight",))
        await it.give(after(sample, changed=[replace(weight, version=13)]))

        def told() -> bool:
            it.it.clock.now += 5  # the longer the first look took, the later is the next
            it.screen.tick()
            return "2 saved tensors changed since" in it.text_of("#notice")

        await it.until(told)
        assert len(it.source.asked) == 1


async def test_a_running_sum_of_ten_thousand_steps_is_a_few_rows() -> None:
    sample, graph, total = chain(10_000)
    async with opened(sample, graph, total) as it:
        rows = [row for row in it.rows()[1:] if row]
        assert len(rows) == 4
        assert "9,998 more AddBackward0" in rows[1]
        assert "more, which was not read" in rows[3]
        assert "the graph is read up to 10,000 nodes: it is larger" in it.text_of("#notice")


async def test_all_graphs_that_were_read_or_only_the_one() -> None:
    sample, graph, loss = training_graph()
    more = GraphNode(4711, "OtherBackward0", saved=graph.nodes[2].saved)
    both = replace(graph, roots=(*graph.roots, 4711), nodes=(*graph.nodes, more))
    async with opened(sample, both, loss) as it:
        assert "OtherBackward0" not in str(it.screen.reading.behind.reach.nodes[graph.roots[0]])  # type: ignore
        await it.press("a")
        await it.until(lambda: "every graph" in it.text_of("#head"))
        await it.press("G")
        assert "OtherBackward0" in "".join(it.rows())
        await it.press("a")
        await it.until(lambda: "loss" in it.text_of("#head"))


def test_the_manual_page_shows_in_ascii_what_an_ascii_terminal_shows() -> None:
    page = in_ascii((MANUAL / "graph.md").read_text("utf-8"))
    assert page.isascii() and "\\u" not in page
    assert "/!\\ v0, now v1" in page and "   ` -> AddBackward0  shown below" in page and " > ~ the same" in page


@pytest.mark.parametrize("size", [LARGE, MIDDLE, SMALL])
async def test_hostile_names_and_ascii(size: tuple[int, int]) -> None:
    sample, graph, loss = training_graph()
    names = ("[bold red]x[/]\x1b[2J\u202e日本", "made\nup")
    tensors = {number: replace(one, names=(names[0],)) if one.names else one for number, one in sample.tensors.items()}
    nodes = tuple(
        replace(node, name=node.name + names[1], function=node.function and names[0],
                saved=tuple(replace(one, name=names[0]) for one in node.saved))
        for node in graph.nodes
    )  # fmt: skip
    sample = replace(sample, tensors=tensors)
    source = WithGraph(sample, graph=replace(graph, nodes=nodes))

    async def connect() -> WithGraph:
        return source

    app = TensortuiApp(connect, clock=lambda: NOW + 0.4, ascii_only=True)
    async with app.run_test(size=size) as pilot:
        await ready()(pilot)
        app.screen.tree_view.go_to(loss)  # type: ignore[attr-defined]
        await pilot.press("3")
        while not isinstance(app.screen, GraphScreen) or app.screen.reading.under_way:
            await pilot.pause(0.01)
        await pilot.press("E")
        for _ in range(60):
            await pilot.press("j")
        all_ascii(app)
