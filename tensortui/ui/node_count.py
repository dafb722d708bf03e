"""How many nodes the graphs of a process have, counted when somebody asks for it: samples do not tell.

A graph of scalars can grow for ever and hold next to nothing, so that no tensor of it shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from tensortui.errors import TensortuiError
from tensortui.ui.feed import Feed
from tensortui.ui.reading import PAUSES, SMALL


class Count(NamedTuple):
    """The nodes at one moment. `cut`: there are more than are ever read."""

    at: float
    nodes: int
    cut: bool


class NodeCount:
    """The first count and the last: what there is more of in the last has come between them."""

    def __init__(self, feed: Feed, clock: Callable[[], float]) -> None:
        """Nothing is counted before it is asked for."""
        self.first: Count | None = None
        self.last: Count | None = None
        self.problem = ""
        self.busy = False
        self.feed = feed
        self._clock = clock

    async def count(self) -> None:
        """Count now. The step under way has a graph too, so small ones are counted a few times, and the least is it."""
        if self.busy:
            return
        self.busy = True
        try:
            self.problem = ""
            least = await self._least()
            if least is not None:
                self.first, self.last = self.first or least, least
        except TensortuiError as error:
            self.problem = error.cause
        except OSError as error:
            self.problem = str(error)
        finally:
            self.busy = False

    async def _least(self) -> Count | None:
        source = self.feed.source
        if "graph" in source.missing:
            self.problem = source.missing["graph"]
            return None
        if self.feed.ended is not None:
            self.problem = f"the source has ended: {self.feed.ended.reason}"
            return None
        graph = await source.graph(None)
        for pause in PAUSES:
            if len(graph.nodes) > SMALL or (graph.reasons and not graph.nodes):
                break
            await asyncio.sleep(pause)
            again = await source.graph(None)
            if len(again.nodes) < len(graph.nodes) and not again.cut:
                graph = again
        if graph.cut and not graph.nodes:
            self.problem = ". ".join(graph.reasons) or "no backward left time for it"
            return None
        return Count(self._clock(), len(graph.nodes), graph.cut)
