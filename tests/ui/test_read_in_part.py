"""A graph that was read in part: nothing that is said of it sounds as if all of it had been looked through."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from driving import Driven, driven
from graph_data import WithGraph
from textual.widgets import Static
from ui_data import Build

from tensortui.analysis.graph import words
from tensortui.model import Graph, GraphNode, Sample
from tensortui.ui.screens.graph import GraphScreen

WHY = "the program let go of a tensor while the graph behind it was read"


def moving_head(depth: int = 1906) -> tuple[Sample, Graph, int]:
    """A sum that is carried on, of whose graph three nodes were read; the sample knows how deep it is."""
    build = Build()
    total = build.add("total", (), category="activation", grad_fn="AddBackward0")
    nodes = (
        GraphNode(1, "AddBackward0", (2, 3), tensors=(total,)),
        GraphNode(2, "AddBackward0", (None, None), cut=True),
        GraphNode(3, "SumBackward0", (None,)),
    )
    sample = replace(build.sample(), depths=MappingProxyType({total: depth} if depth else {}))
    return sample, Graph((1,), nodes, True, (WHY,)), total


def text(it: Driven, selector: str) -> str:
    return str(it.app.screen.query_one(selector, Static).content)


async def read_on_findings(it: Driven) -> None:
    feed = it.app.feed
    await it.until(lambda: feed is not None and feed.judged is feed.sample)
    await it.press("6", "r")
    await it.until(lambda: feed is not None and feed.graph is not None and feed.judged is feed.sample)
    it.app.screen.tick()  # type: ignore[attr-defined]


async def test_the_findings_screen_never_says_that_there_are_none() -> None:
    sample, graph, _ = moving_head()
    async with driven(source=WithGraph(sample, graph=graph)) as it:
        await read_on_findings(it)
        assert not it.app.feed or not it.app.feed.findings
        assert text(it, "#graph") == (
            " graph read in part 0.0 s ago: 3 nodes, of at least 1,906 in a row; "
            "nothing found in these; r reads it anew"
        )
        assert text(it, "#none").startswith("nothing found in what was read\n")
        assert "a part: 3 nodes, of at least 1,906 in a row;" in text(it, "#none")
        shown = str(it.app.screen.query_one("StatusLine").content)  # type: ignore[attr-defined]
        assert "no findings" not in shown and "graph read in part" in shown


async def test_a_depth_that_says_no_more_than_the_nodes_is_left_out() -> None:
    for depth in (0, 2):
        sample, graph, _ = moving_head(depth)
        async with driven(source=WithGraph(sample, graph=graph)) as it:
            await read_on_findings(it)
            assert " ago: 3 nodes; nothing found in these;" in text(it, "#graph")


async def test_beside_the_tree_it_says_how_much_was_read() -> None:
    sample, graph, _ = moving_head()
    async with driven(source=WithGraph(sample, graph=graph)) as it:
        await it.press("3")
        await it.until(lambda: isinstance(it.app.screen, GraphScreen) and it.app.screen.reading.behind is not None)
        assert "read in part: 3 nodes, of at least 1,906 in a row" in text(it, "#head")
        assert " what was read keeps 0 B alive by itself" in text(it, "#head")


async def test_a_graph_that_was_read_to_its_end_is_told_as_before() -> None:
    sample, graph, _ = moving_head()
    whole = replace(graph, nodes=tuple(replace(node, cut=False) for node in graph.nodes), cut=False, reasons=())
    async with driven(source=WithGraph(sample, graph=whole)) as it:
        await read_on_findings(it)
        assert "ago: no findings; r reads it anew" in text(it, "#graph")
        assert text(it, "#none").startswith("no findings\n")


def test_of_a_variable_whose_tensor_is_gone_the_one_in_its_place_counts() -> None:
    sample, _, total = moving_head()
    now = sample.tensors[total]
    gone = replace(now, id=total + 99)
    assert words.depth(sample, now) == words.depth(sample, gone) == words.depth(sample) == 1906
    assert words.depth(sample, replace(gone, names=("other",))) == words.depth(None) == 0
