"""A program that leaks, as the samples of it come: a list and a graph that grow, what is filled, comes and goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from driving import Driven
from ui_data import Played, after, tensor, training

from tensortui.model import Graph, GraphNode, Sample, Storage, Tensor
from tensortui.ui.screens.growth import GrowthScreen

OUTPUTS, CACHE, LENGTHS, PASSING, TOTAL = 1000, 2000, 3000, 4000, 5000  # where the ids of each begin


def _storage(one: Tensor) -> Storage:
    assert one.storage is not None and one.bytes is not None
    return Storage(one.storage, "cuda:0", one.storage << 24, one.bytes)


def leaking(seconds: int, first: Sample | None = None) -> Iterator[Sample]:
    """A sample a second, with two steps: `trainer.outputs` keeps one tensor, `lengths` two small ones of some shape.

    `total` is a sum over all steps.
    """
    sample = first or training()
    yield sample
    parameters = [one.id for one in sample.tensors.values() if one.category == "parameter"]
    for second in range(1, seconds):
        new = [
            tensor(
                OUTPUTS + second, OUTPUTS + second, [f"trainer.outputs[{second}]"], (16, 64), grad_fn="MeanBackward1"
            ),
            tensor(PASSING + second, PASSING + second, [f"hidden @ step() train.py:{second}"], (512, 512)),
        ]
        new.append(tensor(TOTAL + second, TOTAL + second, ["total"], (), grad_fn="AddBackward0"))
        if second < 10 or second == 25:
            name = f"model.layers.{second}.cache" if second > 4 else f"masks[{second}]"
            new.append(tensor(CACHE + second, CACHE + second, [name], (256, 128), category="buffer"))
        for at in (2 * second, 2 * second + 1):
            new.append(tensor(LENGTHS + at, LENGTHS + at, [f"lengths[{at}]"], (at * 7 % 11 + 1,), "int64"))
        stepped = [replace(sample.tensors[tid], version=12 + 2 * second) for tid in parameters]
        gone = [PASSING + second - 1, TOTAL + second - 1] if second > 1 else []
        sample = after(sample, new=new, gone=gone, changed=stepped, storages=map(_storage, new))
        sample = replace(sample, depths={TOTAL + second: 40 + 4 * second})
        yield sample


async def watched(it: Driven, samples: Iterator[Sample]) -> None:
    """Have samples taken in and judged one by one."""
    feed = it.app.feed
    assert feed is not None
    for sample in samples:
        if sample is not feed.sample:
            it.source.queue.put_nowait(sample)
        it.clock.now = sample.taken_at + 0.4
        await it.until(lambda sample=sample: feed.judged is sample)  # type: ignore[misc]
    it.app.screen.tick()  # type: ignore[attr-defined]
    await it.pilot.pause()


def growth_screen(it: Driven) -> GrowthScreen:
    screen = it.app.screen
    assert isinstance(screen, GrowthScreen)
    return screen


class Counted(Played):
    """A source whose graph has so many nodes, one of `sizes` at each reading."""

    def __init__(self, *updates: Sample, sizes: list[int], torn: bool = False) -> None:
        super().__init__(*updates)
        self.sizes, self.torn = sizes, torn

    async def graph(self, roots: object = None) -> Graph:
        size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
        nodes = [GraphNode(at, "AddBackward0", (at + 1,), None, ()) for at in range(size)]
        return Graph((1,), (*nodes[:-1], replace(nodes[-1], cut=self.torn)))
