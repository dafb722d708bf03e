"""A fixed graph and the sample that it belongs to, and a source that gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from ui_data import Build, Played

from tensortui.errors import TensortuiError
from tensortui.model import Ended, Graph, GraphNode, Sample, SavedTensor

LAYERS = 12
CHECKPOINT = "torch.utils.checkpoint._checkpoint_hook.__init__.<locals>.unpack_hook"


def saved(name: str, tensor: int | None, then: int | None = 0, now: int | None = 0, by: str = "") -> SavedTensor:
    return SavedTensor(name, tensor, then, now, then is not None and then != now, bool(by), by)


class Grown:
    """Collects nodes and the tensors that they saved."""

    def __init__(self) -> None:
        self.build = Build()
        self.nodes: list[GraphNode] = []

    def parameter(self, name: str, shape: tuple[int, ...], hooks: int = 0) -> tuple[int, int]:
        """A parameter and the node that fills its gradient."""
        tid = self.build.add(name, shape, category="parameter", version=12)
        return tid, self.node("AccumulateGrad", leaf=tid, hooks=hooks)

    def kept(self, shape: tuple[int, ...], node: str, name: str = "result", version: int = 0) -> int:
        """A tensor that only the graph holds."""
        label = f"{name} saved by {node}"
        return self.build.add(label, shape, category="saved", python=False, version=version)

    def node(self, name: str, *following: int | None, **more: object) -> int:
        number = len(self.nodes) + 1
        self.nodes.append(GraphNode(number, name, following, **more))  # type: ignore[arg-type]
        return number


def training_graph() -> tuple[Sample, Graph, int]:
    """A transformer with twelve layers that read the same, one stale save, a checkpoint, a custom Function."""
    g = Grown()
    b = g.build
    _, at = g.parameter("model.embed.weight", (50304, 512))
    at = g.node("EmbeddingBackward0", at)
    for layer in range(LAYERS):
        path, skip = f"model.layers.{layer}", at
        weight, leaf = g.parameter(f"{path}.up.weight", (2048, 512))
        _, bias = g.parameter(f"{path}.up.bias", (2048,))
        gain, norm = g.parameter(f"{path}.norm.weight", (512,))
        inner = g.kept((4096, 512), "NativeLayerNormBackward0", "input")
        at = g.node("NativeLayerNormBackward0", at, norm, saved=(saved("input", inner), saved("weight", gain, 12, 12)))
        view = b.add(
            "mat2 saved by AddmmBackward0", (512, 2048), storage=b.tensors[weight].storage, strides=(1, 512),
            flags=("view",), category="saved", version=12, python=False,
        )  # fmt: skip
        turned = g.node("TBackward0", leaf)
        first = g.kept((4096, 512), "AddmmBackward0", "mat1")
        at = g.node("AddmmBackward0", bias, at, turned, saved=(saved("mat1", first), saved("mat2", view, 12, 12)))
        at = g.node("ReluBackward0", at, saved=(saved("result", g.kept((4096, 2048), "ReluBackward0")),))
        at = g.node("AddBackward0", skip, at)
    at = g.node("TanhBackward0", at, saved=(saved("result", None, None, None, CHECKPOINT),))
    hidden = b.add("h @ forward() model.py:61", (4096, 512), category="activation", version=1, grad_fn="AddBackward0")
    at = g.node("SwishBackward", at, function="model.Swish", saved=(saved("saved_tensors[0]", hidden, 0, 1),))
    weight, leaf = g.parameter("model.head.weight", (4000, 512), hooks=1)
    out = g.kept((4096, 4000), "LogSoftmaxBackward0")
    logits = b.add("logits @ step() train.py:52", (4096, 4000), category="activation", grad_fn="MmBackward0")
    at = g.node(
        "MmBackward0", at, g.node("TBackward0", leaf), tensors=(logits,), saved=(saved("mat2", weight, 12, 12),)
    )
    at = g.node("LogSoftmaxBackward0", at, saved=(saved("result", out),))
    storage = b.tensors[out].storage
    again = b.add("self saved by NllLossBackward0", (4096, 4000), storage=storage, category="saved", python=False)
    target = b.add("target @ step() train.py:41", (4096,), "int64", category="input")
    loss = b.add("loss @ step() train.py:53", (), category="activation", grad_fn="NllLossBackward0")
    at = g.node("NllLossBackward0", at, tensors=(loss,), saved=(saved("self", again), saved("target", target)))
    return b.sample(), Graph((at,), tuple(g.nodes)), loss


def chain(count: int) -> tuple[Sample, Graph, int]:
    """A running sum that was never detached, read to its limit."""
    b = Build()
    total = b.add("total", (), device="cpu", category="activation", grad_fn="AddBackward0")
    last = GraphNode(count, "AddBackward0", (None,), cut=True)
    nodes = [GraphNode(number, "AddBackward0", (number + 1,)) for number in range(1, count)]
    nodes[0] = replace(nodes[0], tensors=(total,))
    return b.sample(), Graph((1,), (*nodes, last), True), total


class WithGraph(Played):
    """A source that gives `graph` once it may, or fails."""

    def __init__(self, *updates: Sample | Ended, graph: Graph | TensortuiError) -> None:
        super().__init__(*updates)
        self.answer = graph
        self.may = asyncio.Event()
        self.may.set()
        self.asked: list[list[int] | None] = []
        self.answers: list[Graph] = []  # that come first

    async def graph(self, roots: Iterable[int] | None = None) -> Graph:
        self.asked.append(None if roots is None else list(roots))
        await self.may.wait()
        if self.answers:
            return self.answers.pop(0)
        if isinstance(self.answer, TensortuiError):
            raise self.answer
        return self.answer
