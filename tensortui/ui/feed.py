"""What came from the source: every sample is taken in, the newest is what the screens paint."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import Finding, Thresholds, arranged, in_sample
from tensortui.analysis.growth import Comparison, Growth
from tensortui.errors import TensortuiError
from tensortui.model import LIVE, Change, Ended, Graph, Sample
from tensortui.sources.protocol import Source
from tensortui.ui.graph_findings import GraphFindings
from tensortui.ui.watching import Watching

JUDGE_SECONDS = 2.0
JUDGE_FACTOR = 30  # so many times as long as looking for findings took, nobody looks again
LATE_SECONDS = 2.0  # without a sample; one a second is asked for
FIRST_SECONDS = 30.0  # over so many the agent tells its cost
FREEZE_FROM = 20_000  # tensors from which on the viewer's own full collections would be felt


class Feed:
    """The state of one source. The reader marks it dirty; whoever paints calls `take`."""

    def __init__(self, source: Source, clock: Callable[[], float], thresholds: Thresholds | None = None) -> None:
        """Read from `source`; `clock` gives seconds since the epoch. What is beyond the `thresholds` is told."""
        self.source = source
        self.thresholds = thresholds or Thresholds()
        self.watching = Watching(source)
        self.accounts = Accounts()
        self.sample: Sample | None = None
        self.ended: Ended | None = None
        self.paused = False
        self.dirty = False
        self.findings: Sequence[Finding] = ()
        self.live_since: float | None = None  # when the first sample after the first scan was taken
        self.judged: Sample | None = None  # the sample that the findings are of
        self.graph: GraphFindings | None = None  # of the graph that was read last
        self._news = asyncio.Event()
        self._read = asyncio.Event()
        self._clock = clock
        self._change: Change | None = None  # since the sample last taken
        self._frozen = False
        self.grown: Comparison | None = None  # what grew since the first sample
        self.grown_since_mark: Comparison | None = None
        self._growth = Growth()
        self._judging = False
        self._mark_due = False

    async def read(self) -> None:
        """Follow the source to its end. Whatever goes wrong becomes the reason of the end, said on the screen."""
        try:
            async for update in self.source.updates():
                if isinstance(update, Ended):
                    self._end(update)  # of a process that is exiting another one follows: that it has
                else:
                    self._put(update)
            if self.ended is None:
                self._end(Ended("the source gave no more samples", self._clock()))
        except TensortuiError as error:
            self._end(Ended(error.cause, self._clock(), expected=False))
        except OSError as error:
            self._end(Ended(f"the connection failed: {error}", self._clock(), expected=False))
        except Exception as error:  # a fault of ours: said, not left behind a screen that stands still
            self._end(Ended(f"internal error: {error!r}", self._clock(), expected=False))

    def keep(self, graph: Graph) -> None:
        """Look for findings in a graph that was read just now, too."""
        self.graph = GraphFindings(graph, self._clock())
        self.judged = None
        self._read.set()
        self._news.set()

    async def judge(self) -> None:
        """Look for findings in the newest sample, in a thread, for a small part of the time at most."""
        while True:
            self._news.clear()
            sample = self.sample
            if sample is not None and sample is not self.judged and sample.phase == LIVE:
                begun = time.perf_counter()
                graph = self.graph
                self._read.clear()
                self._judging = True
                found = await asyncio.to_thread(self._judge, sample, self.accounts.frozen(), graph)
                self._judging = False
                self.findings, self.grown, self.grown_since_mark = found
                self.watching.count_by(self._growth.counter)
                self.judged = sample if graph is self.graph else None
                if self._mark_due:
                    self.mark()
                pause = max(JUDGE_SECONDS, JUDGE_FACTOR * (time.perf_counter() - begun))
                with suppress(asyncio.TimeoutError):  # what a graph shows that was just read is waited for
                    await asyncio.wait_for(self._read.wait(), pause)
            elif self.ended is not None:
                return
            else:
                await self._news.wait()

    def _judge(
        self, sample: Sample, accounts: Accounts, graph: GraphFindings | None
    ) -> tuple[Sequence[Finding], Comparison, Comparison | None]:
        self._growth.update(sample)
        found = self._find(sample, accounts, graph)
        return found, self._growth.since_start(), self._growth.since_mark()

    def mark(self) -> None:
        """Look for what grows since this moment too."""
        self._mark_due = self._judging  # a thread of ours is at it
        if not self._judging:
            self._growth.mark()
            self.grown_since_mark = self._growth.since_mark()

    def _find(self, sample: Sample, accounts: Accounts, graph: GraphFindings | None) -> Sequence[Finding]:
        found = in_sample(sample, accounts, self.thresholds, self._growth)
        if graph is not None:
            found += graph.of(sample, accounts, self.thresholds)
        return arranged(found, self.thresholds)

    @property
    def first_look(self) -> bool:
        """Whether the cost that the newest sample tells may be that of the first scan."""
        return (
            self.sample is None or self.live_since is None or (self.sample.taken_at - self.live_since < FIRST_SECONDS)
        )

    def held(self, now: float) -> str:
        """What holds the program up, where samples are late and that is known; "" otherwise."""
        if self.sample is None or self.ended is not None or self.paused or now - self.sample.taken_at < LATE_SECONDS:
            return ""
        return self.source.held()

    def take(self) -> Change | None:
        """What changed since the last call, None for everything; clears the dirty mark."""
        self.dirty = False
        change = self._change
        self._change = Change(since=self.sample.seq) if self.sample is not None else None
        return change

    async def set_interval(self, seconds: float | None) -> None:
        """Have a sample every `seconds`; None: no more of them."""
        with suppress(TensortuiError, OSError):  # the end of the source is told by its updates
            await self.source.set_interval(seconds)

    def _end(self, ended: Ended) -> None:
        self.ended = ended
        self.dirty = True
        self._news.set()

    def _put(self, sample: Sample) -> None:
        before = self.sample
        with self._sparing_the_collector(sample):
            self.accounts.update(sample)
        if before is None or self._change is None or sample.change.since != before.seq:
            self._change = None
        else:
            self._change = self._change.then(sample.change)
        if self.live_since is None and sample.phase == LIVE:
            self.live_since = sample.taken_at
        self.sample = sample
        self.dirty = True
        self._news.set()

    @contextmanager
    def _sparing_the_collector(self, sample: Sample) -> Iterator[None]:
        """No collection while the accounts of very many tensors are made, and none over these records later on.

        A full one takes a tenth of a second, at a moment nobody chose; what little garbage there is at first stays.
        """
        if self._frozen or sample.phase != LIVE or len(sample.tensors) < FREEZE_FROM or not gc.isenabled():
            yield
            return
        self._frozen = True
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
        gc.freeze()
