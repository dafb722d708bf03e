"""The source is told what is on screen and what counts the steps: nothing else is read with every sample."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from driving import driven
from ui_data import Played, after, many, tensor

from tensortui.errors import TensortuiError
from tensortui.ui.watching import Watching

STEP = 90_000


async def test_the_step_counter_is_watched_wherever_it_is_in_the_table() -> None:
    first = after(many(500), new=[tensor(STEP, None, ["step of model.weight"], (), category="optimizer")])
    async with driven(first) as it:
        await it.until(lambda: any(STEP in ids for ids in it.source.watched))
        assert STEP not in {one.id for one in it.tree.visible_tensors()}
        await it.press("pagedown")
        shown = frozenset(one.id for one in it.tree.visible_tensors())
        await it.until(lambda: it.source.watched[-1] == shown | {STEP})
        told = len(it.source.watched)
        await it.press("6")  # another screen: what was on this one stays watched
        await it.pilot.pause()
        assert len(it.source.watched) == told


async def told(watching: Watching, until: asyncio.Event) -> None:
    following = asyncio.create_task(watching.follow())
    await asyncio.wait_for(until.wait(), 10)
    following.cancel()


async def test_the_counter_comes_first_and_is_told_again_when_that_failed() -> None:
    class Refusing(Played):
        orders: list[list[int]]
        enough: asyncio.Event

        async def watch(self, tensor_ids: Iterable[int]) -> None:
            self.orders.append(list(tensor_ids))
            if len(self.orders) == 1:
                watching.show(range(1000))
                raise TensortuiError("busy", "ask again")
            self.enough.set()

    source = Refusing()
    source.orders, source.enough = [], asyncio.Event()
    watching = Watching(source)
    watching.show(range(1000))
    watching.count_by(700)
    await told(watching, source.enough)
    assert [order[0] for order in source.orders] == [700, 700]
    assert all(sorted(order) == list(range(1000)) for order in source.orders)
