"""How hooks and what checkpoints keep look in the graph: in the rows, and in the details below."""

from __future__ import annotations

from graph_data import CHECKPOINT, Grown, saved

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import Behind, words
from tensortui.model import Graph, GraphNode
from tensortui.ui.glyphs import UNICODE
from tensortui.ui.widgets.graph_detail import Detail
from tensortui.ui.widgets.graph_lines import GraphLines


def behind() -> Behind:
    g = Grown()
    argument = g.kept((64, 64), "ReluBackward0", "checkpoint[0]")
    packed = (saved("result", None, None, None, CHECKPOINT), saved("checkpoint[0]", argument, None))
    node = g.node("ReluBackward0", g.parameter("w", (4,), hooks=1)[1], saved=packed, hooks=2, retained=1)
    sample = g.build.sample()
    return Behind(Graph((node,), tuple(g.nodes)), sample, Accounts(sample))


def test_hooks_and_retained_gradients_are_marked_at_nodes() -> None:
    shown = behind()
    rows = shown.tree.rows(set(), set())
    lines = ["".join(text for text, _ in GraphLines(shown, UNICODE).row(row, 120)).rstrip() for row in rows]
    assert lines[0].endswith("2 hooks, retains grad")
    assert lines[2].endswith("for its rerun")
    assert "checkpoint[0]" in lines[2] and "graph alone" in lines[2] and "16.00 KiB" in lines[2]
    assert lines[3].endswith("1 hook")
    told = [Detail(shown, UNICODE).of(row, 100).plain for row in rows]
    assert "2 registered on the node, or on what it made" in told[0]
    assert "1 gradient of what it made, by retain_grad()" in told[0]
    assert "a checkpoint, an argument of it" in told[2]
    assert "only the graph keeps it" in told[2]


def test_in_words() -> None:
    said = [words.hooks(GraphNode(1, "", hooks=hooks, retained=kept)) for hooks in (0, 1, 2) for kept in (0, 1)]
    assert said == ["", "retains grad", "1 hook", "1 hook, retains grad", "2 hooks", "2 hooks, retains grad"]
