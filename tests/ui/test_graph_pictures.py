"""Pictures of the Graph screen, kept in snapshots/screens/ like those of the other screens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from graph_data import WithGraph, chain, training_graph
from test_screens import LARGE, MIDDLE, SIZES, SMALL, THEMES, ready
from textual.pilot import Pilot
from ui_data import NOW

from tensortui.model import Coverage, Graph, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.graph import GraphScreen
from tensortui.ui.screens.tensors import TensorsScreen

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


def picture(sample: Sample, graph: Graph, tid: int, light: bool = False, ascii_only: bool = False) -> TensortuiApp:
    async def connect() -> WithGraph:
        return WithGraph(sample, graph=graph)

    return TensortuiApp(connect, light=light, ascii_only=ascii_only, clock=lambda: NOW + 0.4)


def graph_of(tid: int, *keys: str) -> Any:
    async def open_graph(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp) and isinstance(app.screen, TensorsScreen)
        app.screen.go_to(tid)
        await pilot.press("3")
        while not isinstance(app.screen, GraphScreen) or app.screen.reading.under_way:
            await pilot.pause(0.01)
        while app.feed is None or app.feed.judged is None:  # what was read is looked through
            await pilot.pause(0.01)
        app.screen.tick()
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return ready(then=open_graph)


@SIZES
@THEMES
def test_graph(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    sample, graph, loss = training_graph()
    assert snap_compare(picture(sample, graph, loss, light), terminal_size=size, run_before=graph_of(loss))


@pytest.mark.parametrize("size", [LARGE, SMALL], ids=["160x45", "80x24"])
def test_graph_of_a_tensor_without_one(snap_compare: Any, size: tuple[int, int]) -> None:
    sample, graph, _ = training_graph()
    (target,) = (one.id for one in sample.tensors.values() if one.names[:1] == ("target @ step() train.py:41",))

    assert snap_compare(picture(sample, graph, target), terminal_size=size, run_before=graph_of(target))


@pytest.mark.parametrize("size", [LARGE, SMALL], ids=["160x45", "80x24"])
def test_graph_in_ascii(snap_compare: Any, size: tuple[int, int]) -> None:
    sample, graph, loss = training_graph()
    app = picture(sample, graph, loss, ascii_only=True)
    assert snap_compare(app, terminal_size=size, run_before=graph_of(loss, "g", "j"))


def test_graph_without_colour(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    sample, graph, loss = training_graph()
    assert snap_compare(picture(sample, graph, loss), terminal_size=MIDDLE, run_before=graph_of(loss))


def test_graph_of_a_long_chain(snap_compare: Any) -> None:
    sample, graph, total = chain(10_000)
    assert snap_compare(picture(sample, graph, total), terminal_size=SMALL, run_before=graph_of(total, "j"))


def test_graph_not_read(snap_compare: Any) -> None:
    sample, _, loss = training_graph()
    busy = Graph(cut=True, reasons=("the graph was not read to its end: a backward was running at each try",))
    assert snap_compare(picture(sample, busy, loss), terminal_size=SMALL, run_before=graph_of(loss))


def test_graph_of_a_torch_that_does_not_tell(snap_compare: Any) -> None:
    sample, graph, loss = training_graph()
    why = "the graph is not read: this torch does not tell what it saved without side effects"
    bare = replace(graph, nodes=tuple(replace(node, saved=()) for node in graph.nodes))
    app = picture(replace(sample, coverage=Coverage(False, (why,))), bare, loss)
    assert snap_compare(app, terminal_size=SMALL, run_before=graph_of(loss))
