"""The work there is: the first scan, samples, refreshes, graphs and passes, as generators that are run in slices."""

import time
from typing import Any, Dict, List, Optional

from tensortui.agent import graph
from tensortui.agent.answers import Answers, graph_messages
from tensortui.agent.census import Work
from tensortui.agent.connections import MIN_INTERVAL, Connection, Server
from tensortui.agent.governor import MOMENT, PASS, REQUEST, SAMPLE, Governor
from tensortui.agent.jobs import Job
from tensortui.agent.sampler import Sampler
from tensortui.agent.searches import Searches

UNWATCHED_DRAIN = 2.0
PASS_EVERY = 0.5
MOST_AGAIN = 200  # known tensors that are read again within a sample: what a pass changes may be very much


class Workshop:
    """Chooses what is done next once torch is there. One thing may be under way in front,
    the passes behind it, and beside them a search for holders."""

    def __init__(self, sampler: Sampler, server: Server, answers: Answers, governor: Governor) -> None:
        """Begin with the first scan."""
        self.sampler = sampler
        self._governor = governor
        self._server = server
        self._answers = answers
        self._asked: Dict[Connection, List[Any]] = {}  # requests that the work in front will answer
        self._passes_at = 0.0
        self._drained_at = 0.0
        self._behind: Optional[Job] = None
        self.searches = Searches(sampler, server)
        self._front: Optional[Job] = Job(self._first(), REQUEST)
        self._discarded: List[Job] = []  # to be ended where that may give up the interpreter lock

    @property
    def at_hand(self) -> "List[Job]":
        """What can be gone on with, the more urgent first."""
        return [job for job in (self._front, self._behind, self.searches.job) if job is not None]

    @property
    def busy(self) -> bool:
        """Whether nothing new is taken up before the work in front is over."""
        return self._front is not None

    def close(self) -> None:
        """End all work, and what it holds open with it."""
        self._discarded += [job for job in (self._front, self._behind) if job is not None]
        self._front = self._behind = None
        self.searches.close()
        self.discard()

    def discard(self) -> None:
        """End what is to be gone on with no more, and close what it has open. Not to be called `Alone`."""
        self.searches.discard()
        while self._discarded:
            self._discarded.pop().close()

    def over(self, job: "Job", failure: str = "") -> None:
        """Say that a piece of work has ended, or failed: whoever waits for it is told."""
        if job is self._behind:
            self._behind = None
            return
        if job is self.searches.job:
            self.searches.over(failure)
            return
        self._front = None
        self._answers.live = True
        asked, self._asked = self._asked, {}
        for one, requests in asked.items():
            for request in requests if failure and one in self._server.connections else ():
                one.send({"t": "failed", "request": request, "cause": failure, "next_step": "Ask again."})

    def choose(self, now: float) -> None:
        """Take up the next work where none is in front: what somebody waits for, then samples that are due."""
        self.searches.begin()
        if self._front is not None:
            return
        ready = [one for one in self._server.connections if one.greeted and not one.closing and one.idle]
        graphs = [one for one in ready if one.graphs]
        if any(one.requests for one in ready):
            if self._governor.wait(REQUEST) > 0:  # there were too many: none of them is to wait for the others
                self._front = Job(self._brief(), SAMPLE)
            else:
                self._discarded += [] if self._behind is None else [self._behind]
                self._behind = None
                self._front = Job(self._refresh(), REQUEST)
        elif graphs:
            self._front = Job(self._graph(graphs[0]), REQUEST)
        elif any(one.due <= now for one in ready) and self._governor.wait(SAMPLE) == 0.0:
            self._front = Job(self._sample(), SAMPLE)
        elif now - self._drained_at > UNWATCHED_DRAIN and not any(one.interval for one in ready):
            self._drained_at = now
            self._front = Job(self.sampler.drain(), SAMPLE)

    # -- the work

    def _first(self) -> Work:
        yield from self.sampler.start()
        yield from self.sampler.readings.read_all()
        self.sampler.complete_at = time.monotonic()
        self._answers.live = True  # what follows of the names is told with the samples, or is what a request waits for
        for one in list(self._server.connections):  # some may go meanwhile
            if one.interval is not None:
                one.due = now = time.monotonic()
                if one.idle and not one.requests:
                    one.due = now + one.interval
                    yield from self._answers.tell(one, self.sampler)
        if any(one.requests for one in self._server.connections):
            yield from self._complete()
        else:
            self._behind = Job(self._passes(), REQUEST)

    def _refresh(self) -> Work:
        yield from self.sampler.drain()
        yield from self.sampler.readings.read_all()
        yield from self._complete()

    def _complete(self) -> Work:
        """Find the names and answer who has asked by now, once everything has been read."""
        self._asked = self._take_requests()
        yield from self.sampler.run_names()
        yield from self.sampler.run_graph()
        yield from self.sampler.readings.read_fresh()
        yield from self.sampler.compact()
        yield from self.sampler.young.keep_up(self._last_look())
        self._passes_at = self.sampler.complete_at = time.monotonic()
        self.sampler.brief = False
        yield from self._answer()

    def _last_look(self) -> Work:
        """Find what was missed, and what has come since: much has, in a program that makes its steps meanwhile."""
        yield from self.sampler.complete()
        yield from self._moment(True)

    def _brief(self) -> Work:
        """Answer with what is new, and with what else is known: reading everything anew would cost too much."""
        self._asked = self._take_requests()
        yield from self._read_some()
        self.sampler.brief = True
        yield from self._answer()

    def _take_requests(self) -> Dict[Connection, List[Any]]:
        asked = {}
        for one in self._server.connections:
            if one.requests:
                asked[one], one.requests = one.requests, []
        return asked

    def _answer(self) -> Work:
        asked, self._asked = self._asked, {}
        for one, requests in asked.items():
            for request in requests if one in self._server.connections else ():
                yield from self._answers.tell(one, self.sampler, request)

    def _graph(self, one: Connection) -> Work:
        header = one.graphs.pop(0)
        self._asked = {one: [header.get("request")]}
        roots, limit = header.get("roots"), header.get("limit")
        body = yield from self.sampler.walk_graph(
            roots if isinstance(roots, list) else None, limit if isinstance(limit, int) else graph.MAX_NODES
        )
        for message in graph_messages(header, body):
            if one not in self._server.connections:
                return
            one.queue_frame(message)
            yield

    def _read_some(self) -> Work:
        """Read some of what has been there for long, then what was born and what is on a screen."""
        self._drained_at = time.monotonic()
        yield from self.sampler.readings.moved.compare()
        yield from self.sampler.readings.read_old()
        yield from self.sampler.compact()
        yield from self._moment(False)

    def _moment(self, named: bool) -> Work:
        """Read what comes and goes with each step, without waiting for the budget meanwhile: it would be gone by then.

        With `named` its names are looked for whatever that costs.
        """
        sampler, job = self.sampler, self._front
        if job is not None and job.kind == SAMPLE:
            job.kind = MOMENT
        last = sampler.census.last
        yield from sampler.drain()
        yield from sampler.await_backward()
        began = time.monotonic()
        yield from sampler.take_newest()
        yield from sampler.readings.deepest.look()
        born = sampler.census.last > last
        yield from sampler.run_direct()
        yield from sampler.run_revisit()
        yield from sampler.readings.read_fresh(MOST_AGAIN)
        yield from sampler.run_recent(born, named)
        yield from sampler.readings.read_fresh(MOST_AGAIN)
        yield from sampler.readings.read_watched({number for one in self._server.connections for number in one.watch})
        sampler.spread = time.monotonic() - began
        if job is not None and job.kind == MOMENT:
            job.kind = SAMPLE

    def _sample(self) -> Work:
        yield from self._read_some()
        now = time.monotonic()
        for one in list(self._server.connections):
            if one.due <= now + MIN_INTERVAL / 2 and one.idle:
                one.due = max(one.due + (one.interval or 0.0), now + MIN_INTERVAL / 2)
                yield from self._answers.tell(one, self.sampler)
        yield from self._answers.forget_told(self.sampler)
        if self._behind is None and now - self._passes_at > PASS_EVERY:
            self._behind = Job(self._passes(), PASS)

    def _passes(self) -> Work:
        yield from self.sampler.audit()
        yield from self.sampler.run_names()
        yield from self._read_named()
        yield from self.sampler.run_graph()
        yield from self._read_named()
        self._passes_at = time.monotonic()

    def _read_named(self) -> Work:
        """Read what a pass gave a name: there may be so much of it that the samples would come late."""
        readings = self.sampler.readings
        work = readings.read_fresh()
        while True:
            while readings.frozen:  # the rows must not change then; the sample in front goes on with that
                yield
            try:
                said = next(work)
            except StopIteration:
                return
            yield said
