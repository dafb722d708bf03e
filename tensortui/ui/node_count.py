"""How many nodes the graphs of a process have, counted when somebody asks for it: samples do not tell.

A graph of scalars can grow for ever and hold next to nothing, so that no tensor of it shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from tensortui.analysis.graph.words import in_part
from tensortui.errors import TensortuiError
from tensortui.ui.feed import Feed
from tensortui.ui.reading import PAUSES, SMALL


class Count(NamedTuple):
    """The nodes at one moment; without `whole` there are more, which could not be read, or are never."""

    at: float
    nodes: int
    whole: bool


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
        """Count now."""
        if self.busy:
            return
        self.busy = True
        try:
            self.problem = ""
            count = await self._read()
            if count is not None:
                self.first, self.last = self.first or count, count
        except TensortuiError as error:
            self.problem = error.cause
        except OSError as error:
            self.problem = str(error)
        finally:
            self.busy = False

    async def _read(self) -> Count | None:
        """The least of a few readings, since the step under way has a graph too; the most of those that broke off."""
        source = self.feed.source
        if "graph" in source.missing:
            self.problem = source.missing["graph"]
            return None
        if self.feed.ended is not None:
            self.problem = f"the source has ended: {self.feed.ended.reason}"
            return None
        graphs = [await source.graph(None)]
        for pause in PAUSES:
            if len(graphs[-1].nodes) > SMALL:
                break
            await asyncio.sleep(pause)
            graphs.append(await source.graph(None))
        whole = [len(graph.nodes) for graph in graphs if not in_part(graph)]
        if whole:
            return Count(self._clock(), min(whole), True)
        most = max(graphs, key=lambda graph: len(graph.nodes))
        if most.nodes:
            return Count(self._clock(), len(most.nodes), False)
        self.problem = ". ".join(most.reasons) or "a backward was running at each try"
        return None
