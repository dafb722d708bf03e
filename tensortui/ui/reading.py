"""Reading the graph of a process when somebody asks for it, and what is known of it since. It is never polled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tensortui.analysis.graph import Behind, Reach, maker_of, words
from tensortui.errors import TensortuiError
from tensortui.model import Graph, Sample, Tensor
from tensortui.ui.asking import Words, impossible
from tensortui.ui.columns import name_text
from tensortui.ui.feed import Feed

UPDATE_SECONDS = 2.0
PAUSES = (0.11, 0.23, 0.37, 0.53)  # seconds before another try, none a multiple of another: steps have a rhythm
WORDS = Words("there is no graph here", "the graph can no longer be read", "there is no graph yet")
SMALL = 3_000  # nodes up to which another try is cheap
UPDATE_FACTOR = 20  # so many times as long as looking at the graph took, it is not looked at again


def spent(graph: Graph) -> bool:
    """Whether a backward has released all that these nodes had saved."""
    return any(node.freed for node in graph.nodes) and not any(node.saved and not node.freed for node in graph.nodes)


def behind(graph: Graph, root: int) -> Graph:
    """The part of a graph that is behind one node."""
    reach = Reach(graph, [root])
    return Graph((root,), tuple(reach.nodes[number] for number in reach.order))


class Reading:
    """The graph behind one tensor as it was read once; newer samples tell what became of its tensors."""

    def __init__(self, feed: Feed, tensor: Tensor | None, clock: Callable[[], float], *, every: bool = False) -> None:
        """Ask for the graph behind `tensor`; behind every tensor for None, and with `every` for one no node made."""
        self.tensor = tensor
        self.every = every
        self.behind: Behind | None = None
        self.all = tensor is None or tensor.grad_fn is None
        self.begun = clock()
        self.read_at: float | None = None
        self.problem: tuple[str, str] | None = None  # why there is no graph, and what to do
        self.lost = False  # the tensor was gone when the graph was read
        self.substitute = False  # and this is the graph behind one like it
        self.gone = 0  # tensors of the graph that are no more
        self._feed = feed
        self._clock = clock
        self._graph: Graph | None = None
        self._root: int | None = None
        self._next = 0.0

    @property
    def under_way(self) -> bool:
        """Whether the answer is still to come."""
        return self.behind is None and self.problem is None

    async def read(self) -> None:
        """Ask the source, and look at the answer. Whatever goes wrong becomes the reason why there is no graph."""
        self.problem = impossible(self._feed, "graph", WORDS) or self._none_behind()
        if self.problem is not None:
            return
        try:
            await self._read()
        except TensortuiError as error:
            self.problem = (f"the graph was not read: {error.cause}", error.next_step)
        except OSError as error:
            self.problem = (f"the graph was not read: {error}", "press r to try it again")
        except Exception as error:  # a fault of ours: said, not left behind a screen that waits for ever
            self.problem = (f"the graph cannot be shown: internal error: {error!r}", "press r to try it again")

    async def _read(self) -> None:
        graph = await self._ask()
        self.read_at = self._clock()
        self._graph = graph
        if graph.nodes or not graph.reasons:
            self._feed.keep(graph)
        self._root = self._find_root(graph)
        sample = self._feed.sample
        assert sample is not None
        if not graph.nodes:
            self.problem = self._nothing(graph, sample)
            return
        await self._look(sample)

    @property
    def none_behind(self) -> bool:
        """Whether the tensor has no graph of its own, and nobody has asked for all others."""
        return self.tensor is not None and self.tensor.grad_fn is None and not self.every

    def _none_behind(self) -> tuple[str, str] | None:
        tensor, sample = self.tensor, self._feed.sample
        if tensor is None or sample is None or not self.none_behind:
            return None
        account = self._feed.accounts.account(tensor.storage) if tensor.storage is not None else None
        beside = (sample.tensors.get(one) for one in (account.tensors if account is not None else ()))
        why = words.none_behind(tensor, (one for one in beside if one is not None and one.id != tensor.id))
        name = name_text(tensor).partition(" @ ")[0]
        return f"{name} has no graph", f"{why}\n\na shows every graph, and begins where it was saved or is a leaf"

    async def _ask(self) -> Graph:
        """The graph behind the tensor first, then behind all others: who else saved what is asked for, too."""
        sample, tensor = self._feed.sample, self.tensor
        if tensor is None or tensor.grad_fn is None or sample is None:
            return await self._feed.source.graph(None)
        others = [one.id for one in sample.tensors.values() if one.grad_fn is not None and one.id != tensor.id]
        graph = await self._feed.source.graph([tensor.id, *reversed(others)])
        if maker_of(graph, tensor.id) is None:
            # A step of a fast loop is over before it is asked about: what lives now is known to the target alone.
            graph = await self._feed.source.graph(None)
            for pause in PAUSES:
                # Who waits for the end of a backward finds what it has released: another moment may be in a forward.
                if len(graph.nodes) > SMALL or not spent(graph):
                    break
                await asyncio.sleep(pause)
                again = await self._feed.source.graph(None)
                graph = again if again.nodes else graph
        return graph

    def _find_root(self, graph: Graph) -> int | None:
        """The node that made the tensor; where that has gone, the one of its kind that nothing leads to."""
        tensor = self.tensor
        if tensor is None or tensor.grad_fn is None:
            return None
        root = maker_of(graph, tensor.id)
        self.lost = root is None
        if root is None:
            roots = set(graph.roots)
            alike = [node.id for node in graph.nodes if node.id in roots and node.name == tensor.grad_fn]
            if not spent(graph):  # what is behind one that a backward has been through is of less interest
                alike = [one for one in alike if not spent(behind(graph, one))]
            root = next(iter(alike), None)
            self.substitute = root is not None
        self.all = root is None
        return root

    def _nothing(self, graph: Graph, sample: Sample) -> tuple[str, str]:
        reasons = words.incomplete(graph, sample.coverage)
        if reasons:
            return "the graph was not read", ". ".join(reasons)
        return "there is no graph", "no live tensor was made by an operation that autograd follows; r looks again"

    async def _look(self, sample: Sample) -> None:
        begun = time.perf_counter()
        assert self._graph is not None
        roots = None if self.all or self._root is None else [self._root]
        behind = await asyncio.to_thread(Behind, self._graph, sample, self._feed.accounts.frozen(), roots)
        self.behind = behind
        self._next = self._clock() + max(UPDATE_SECONDS, UPDATE_FACTOR * (time.perf_counter() - begun))

    async def turn(self) -> None:
        """Between the graph behind the tensor and all that was read."""
        if self._root is not None and self._feed.sample is not None:
            self.all = not self.all
            await self._look(self._feed.sample)

    async def update(self) -> bool:
        """See what became of the tensors in the newest sample; whether there is something new to show.

        Once some of them are gone, the picture stays as it was: it is of a graph that is no more.
        """
        sample, behind = self._feed.sample, self.behind
        if behind is None or sample is None or sample is behind.newest or self.gone or self._clock() < self._next:
            return False
        # A sample begun after the graph was read knows all that still lives of it.
        began = self.read_at if self.read_at is not None else 0.0
        self.gone = len(behind.tensors - sample.tensors.keys()) if sample.taken_at > began else 0
        if self.gone:
            return True
        old = behind.newest.tensors
        if all(sample.tensors.get(one) is old.get(one) for one in behind.tensors):
            return False
        await self._look(sample)
        return True
