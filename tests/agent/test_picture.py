"""The answer to a graph request, however many tensors a node made and however many roots there are."""

from __future__ import annotations

import gc
import socket
import time
from array import array
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tensortui.agent import graph, picture
from tensortui.agent.answers import GRAPH_CHUNK, Answers, graph_messages
from tensortui.agent.census import Context
from tensortui.agent.connections import Connection
from tensortui.agent.governor import Governor
from tensortui.agent.picture import MOST_MADE, NUMBERS, Picture
from tensortui.model import Graph
from tensortui.sources.messages import GraphParts
from tensortui.wire.frames import Decoder, encode


def ask(one: Any, roots: list[int] | None = None) -> tuple[list[dict[str, Any]], Graph]:
    """Return the messages that answer a request, and what a viewer makes of them."""
    body = one.run(graph.walk(Context(torch, one.census, []), roots))
    parts, told = GraphParts(), []
    for message in graph_messages({"request": "r"}, body):
        ((header, _),) = Decoder().feed(encode(message))
        told.append(header)
        parts.add(header)
    assert [message["more"] for message in told] == [True] * (len(told) - 1) + [False]
    return told, parts.graph()


def test_thousands_of_roots_are_told_once(agent: Any) -> None:
    leaf = torch.ones(2, requires_grad=True)
    kept = [leaf * 2 for _ in range(3000)]
    one = agent()
    told, whole = ask(one)
    ids = {one.census.track(tensor).id for tensor in kept}
    made = {tensor: node.id for node in whole.nodes for tensor in node.tensors}
    assert ids <= made.keys()
    assert {made[tensor] for tensor in ids} <= set(whole.roots)
    assert sum(len(message["roots"]) for message in told) == len(whole.roots) >= 3000
    assert len(told) >= 3000 / GRAPH_CHUNK
    assert whole.cut is False


def test_every_tensor_of_a_node_that_made_very_many_is_told_in_pieces(agent: Any) -> None:
    rows = torch.ones(9000, 1, requires_grad=True).unbind(0)
    one = agent()
    ids = [one.census.track(row).id for row in rows]
    told, whole = ask(one, [ids[0], *ids, ids[0]])
    (node,) = [node for node in whole.nodes if node.name == "UnbindBackward0"]
    assert node.tensors == tuple(ids)
    assert whole.roots == (node.id,)
    assert whole.cut is False
    pieces = [tensors for message in told for _, tensors in message.get("made", [])]
    pieces += [
        more[0]["tensors"] for message in told for _, _, _, _, _, *more in message["nodes"] if "tensors" in more[0]
    ]
    assert max(map(len, pieces)) == MOST_MADE
    assert sum(map(len, pieces)) == len(ids)


def test_nodes_that_made_many_tensors_do_not_travel_together(agent: Any) -> None:
    kept = [torch.ones(500, 1, requires_grad=True).unbind(0) for _ in range(20)]
    told, whole = ask(agent())
    assert sum(len(node.tensors) for node in whole.nodes) >= 20 * len(kept[0])
    assert max(numbers(message) for message in told) <= (GRAPH_CHUNK + 2) * NUMBERS + 500


def numbers(message: dict[str, Any]) -> int:
    """Return how many tensors the nodes of a message made."""
    return sum(len(more.get("tensors", [])) for *_, more in message["nodes"])


class Counted(int):
    """A number that counts how often it is compared."""

    times = 0

    def __eq__(self, other: object) -> bool:
        Counted.times += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Picture:
    """A picture whose nodes are plain numbers."""
    monkeypatch.setattr(picture.nodes.DEPTHS, "measure", lambda node: ((node, 0), None), raising=False)
    return Picture(None)  # type: ignore[arg-type]


def test_a_tensor_that_a_node_made_is_not_compared_with_all_others(empty: Picture) -> None:
    Counted.times = 0
    for number in range(1000):
        empty.begin(1, SimpleNamespace(id=Counted(number)))  # type: ignore[arg-type]
    assert Counted.times <= 2 * 1000


def test_what_is_kept_of_many_roots_is_hardly_anything_to_the_collector(empty: Picture) -> None:
    for number in range(5000):
        for tensor in (10_000 + number, 20_000 + number):
            empty.begin(number, SimpleNamespace(id=tensor))  # type: ignore[arg-type]
    gc.collect()  # it goes by tuples of numbers from then on
    seen: dict[int, Any] = {}
    todo: list[Any] = [vars(empty)]
    while todo:
        thing = todo.pop()
        if id(thing) not in seen and isinstance(thing, (dict, list, tuple, set, array)) and gc.is_tracked(thing):
            seen[id(thing)] = thing
            todo += gc.get_referents(thing)
    assert len(seen) < 30


def test_who_asks_for_a_graph_before_torch_is_there_gets_an_empty_one() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    one = Connection(near, True, time.monotonic())
    one.graphs.append({"t": "graph", "request": "r", "roots": None, "limit": 10})
    says: Any = Answers("1", Governor(0.01), SimpleNamespace(connections=[one]))  # type: ignore[arg-type]
    says.without_tables(one, None)
    one.flush(time.monotonic())
    ((header, _),) = Decoder().feed(far.recv(4096))
    assert (header["t"], header["request"], header["nodes"], header["more"]) == ("graph", "r", [], False)
    near.close()
    far.close()
