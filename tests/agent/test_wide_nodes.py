"""A node with thousands of inputs: all of them are told, in pieces, or it is said that they are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tensortui.agent import graph, nodes
from tensortui.agent.behind import Behind
from tensortui.agent.census import Context
from tensortui.agent.graph import Walker
from tensortui.agent.guard import Alone
from tensortui.agent.nodes import Depths
from tensortui.agent.picture import Picture, unpacked


@pytest.fixture(autouse=True)
def fresh_depths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "DEPTHS", Depths())


def stacked(count: int) -> Any:
    leaf = torch.ones(1, requires_grad=True)
    return torch.stack([leaf * 2 for _ in range(count)]).sum()


def wide_node(body: dict[str, Any]) -> list[Any]:
    (node,) = [node for node in body["nodes"] if node[1] == "StackBackward0"]
    return node


def test_every_input_of_a_wide_node_is_told(agent: Any) -> None:
    wide = stacked(3000)
    one = agent()
    body = one.graph([wide])
    node = wide_node(body)
    made = {each[0] for each in body["nodes"] if each[1] == "MulBackward0"}
    assert len(node[2]) == len(set(node[2])) == 3000
    assert set(node[2]) == made
    assert len(body["nodes"]) == 3003
    assert (body["cut"], body["reasons"], "cut" in node[5]) == (False, [], False)
    assert body["roots"] == [each[0] for each in body["nodes"] if each[1] == "SumBackward0"]
    assert body["weights"][body["nodes"].index(node)] > 100
    assert one.graph()["roots"] == body["roots"]


def test_they_are_told_in_the_order_that_the_node_has_them(agent: Any) -> None:
    leaves = [torch.ones(1, requires_grad=i % 2 == 0) for i in range(graph.FEW * 2 + 1)]
    wide = torch.stack([leaf + 1 for leaf in leaves])
    body = agent().graph([wide])
    node = wide_node(body)
    assert [one is None for one in node[2]] == [bool(i % 2) for i in range(len(leaves))]
    assert len([one for one in node[2] if one is not None]) == graph.FEW + 1


def test_of_too_many_inputs_none_is_touched_and_it_is_said(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MAX_SUCCESSORS", 500)
    wide, fits = stacked(501), stacked(500)
    one = agent()
    body = one.graph([wide])
    assert [node[1] for node in body["nodes"]] == ["SumBackward0", "StackBackward0"]
    assert (body["cut"], body["reasons"], wide_node(body)[5]["cut"]) == (True, [graph.TOO_WIDE], True)
    body = one.graph([fits])
    assert (body["cut"], body["reasons"], len(body["nodes"])) == (False, [], 503)
    assert one.saved().complete is False
    assert graph.TOO_WIDE in one.context.reasons


def test_a_wide_node_beyond_the_limit_of_nodes_is_marked(agent: Any) -> None:
    wide = stacked(1000)
    body = agent().graph([wide], limit=600)
    node = wide_node(body)
    assert (body["cut"], node[5]["cut"], len(node[2])) == (True, True, 1000)
    assert 590 < len([one for one in node[2] if one is not None]) < 600


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each piece read one node, or tell some of its inputs."""

    def over(self: Alone) -> bool:
        begun, self._begun = self._begun, True
        return begun

    monkeypatch.setattr(Alone, "over", over)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("times", [1, 3])
def test_a_walk_that_is_broken_off_between_its_inputs_goes_on_with_them(agent: Any, times: int) -> None:
    wide = stacked(3000)
    one = agent()
    walker = Walker(Context(torch, one.census, []), one.census.base, 10_000)
    told: list[int] = []
    emptied: list[int] = []

    def visit(walker: Any, node: Any, successors: list[Any]) -> None:
        if type(node).__name__ == "StackBackward0":
            told.append(len(successors))

    def more(walker: Any, node: Any, successors: list[Any]) -> None:
        told.append(len(successors))

    def during() -> None:
        if len(emptied) < times and len(told) > 2 * len(emptied) + 1 and "frontier" in place:
            emptied.append(len(told))
            place.clear()

    work = walker.walk([one.census.track(wide)], visit, None, more)
    place = next(work)
    one.run(work, during)
    assert len(emptied) == times and emptied[-1] < 3000 // graph.FEW
    assert told == [graph.FEW] * (3000 // graph.FEW)
    assert len(walker.seen) == 3003


@pytest.mark.usefixtures("short")
def test_what_is_not_told_to_its_end_is_marked(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor dies while the inputs of the node that made it are told."""
    box = [stacked(3000)]
    one = agent()
    told: list[int] = []
    real = Picture.more

    def more(self: Picture, walker: Walker, node: Any, successors: list[Any]) -> None:
        real(self, walker, node, successors)
        told.append(len(successors))

    def during() -> None:
        if told:
            box.clear()

    monkeypatch.setattr(Picture, "more", more)
    ids = [one.census.track(box[0]).id]
    body = one.run(graph.walk(Context(torch, one.census, []), ids), during)
    body["nodes"] = list(map(unpacked, body["nodes"]))
    node = wide_node(body)
    assert node[5]["cut"] is True and body["cut"] is True
    assert body["reasons"] == [graph.GONE]
    assert len(node[2]) == 2 * graph.FEW


def test_what_holds_the_graph_is_sought_behind_every_input(agent: Any) -> None:
    """Of each input it is known by which way it is reached."""
    leaves = [torch.ones(1, requires_grad=True) for _ in range(2 * graph.FEW + 5)]
    wide = torch.stack(leaves)
    one = agent()
    behind = Behind(Context(torch, one.census, []), SimpleNamespace(nodes={}), one.census.track(leaves[0]))
    one.run(behind.read())
    assert sum(one > 0 for one in behind._last) == len(leaves)
    assert wide.grad_fn is not None
