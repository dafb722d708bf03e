"""The searches for holders that viewers ask for: one at a time, beside all other work."""

import time
from typing import Any, Dict, Generator, List, Optional, Tuple

from tensortui.agent.answers import NO_TENSOR
from tensortui.agent.census import Context, Tracked, Work
from tensortui.agent.connections import Connection, Server
from tensortui.agent.governor import REQUEST
from tensortui.agent.guard import APART
from tensortui.agent.jobs import Job
from tensortui.agent.memory import Memory
from tensortui.agent.names import memory_of
from tensortui.agent.rows import cell
from tensortui.agent.sampler import Sampler
from tensortui.agent.storages import ADDRESS, BYTES
from tensortui.agent.variables import frame_locals
from tensortui.wire.messages import CHAINS, CHAINS_LIMIT

PROGRESS_EVERY = 0.5
LARGE = 1 << 20  # bytes of tensors' contents that are not searched for pointers
ROWS = 400  # that are looked at between two pieces of work
SECONDS = 20.0  # of processor time, for all that is searched to answer one request
WITHOUT_NAME = ".grad of a tensor without a name"
CUT = "the search was ended before everything was found: the program has very many references, or changes too quickly"


class Searches:
    """Takes up what is asked. `job` is the search that is under way."""

    def __init__(self, sampler: Sampler, server: Server) -> None:
        """Start with none."""
        self.job: Optional[Job] = None
        self._discarded: Optional[Job] = None
        self._sampler = sampler
        self._server = server
        self._for: Optional[Connection] = None
        self._request: Any = None
        self._said = ""  # how far it is

    def begin(self) -> None:
        """Take up the next, where none is under way."""
        for one in self._server.connections if self.job is None else ():
            if one.greeted and not one.closing and one.searches:
                header = one.searches.pop(0)
                self._for, self._request = one, header["request"]
                self.job = Job(self._search(one, header), REQUEST)
                return

    def cancel(self, one: Connection, request: Any) -> None:
        """End the search that is under way, if it is the one that `one` means."""
        if self._for is one and self._request == request:
            self.close()

    def close(self) -> None:
        """End the search; what it has open is closed by `discard`."""
        self._discarded = self.job or self._discarded
        self.job = self._for = None

    def discard(self) -> None:
        """Close what an ended search had open. Not to be called `Alone`."""
        job, self._discarded = self._discarded, None
        if job is not None:
            job.close()

    def over(self, failure: str) -> None:
        """Say that it has ended, or failed: whoever asked is told."""
        one = self._for
        if failure and one in self._server.connections and one is not None:
            one.send({"t": "failed", "request": self._request, "cause": failure, "next_step": "Ask again."})
        self.job = self._for = None

    def _search(self, one: Connection, header: Any) -> Work:
        tracked = self._sampler.census.by_id.get(header["tensor"])
        unwrapped = self._sampler.readings.unwrapped.find(header["tensor"])
        if tracked is None and unwrapped is None:
            one.send({"t": "failed", "request": header["request"], **NO_TENSOR})
            return
        yield APART
        # Only now: few need this, and it would have to be compiled in every target.
        from tensortui.agent.chains import answer

        yield
        if tracked is None:
            name = unwrapped.names if unwrapped is not None and unwrapped.names else WITHOUT_NAME
            one.send(answer(header, [[("gradient", name)]], [], True))  # torch alone holds it, or it would be an object
            return
        work = self._find(header, tracked)
        told = time.monotonic()
        while True:
            try:
                said = next(work)
            except StopIteration as end:
                one.send(end.value)
                return
            if one not in self._server.connections or one.broken:
                return
            if time.monotonic() - told > PROGRESS_EVERY and self._said:
                told = time.monotonic()
                one.send({"t": "progress", "request": header["request"], "text": self._said})
            yield said

    def _find(self, header: Any, tracked: Tracked) -> Generator[Any, None, Dict[str, Any]]:
        """Return the message that answers."""
        self._said = ""
        yield APART
        from tensortui.agent.behind import Behind
        from tensortui.agent.chains import answer, chains_of, missing, paths_of
        from tensortui.agent.folded import folded
        from tensortui.agent.heap import Heap
        from tensortui.agent.holders import Search
        from tensortui.agent.threads import threads

        threads()
        yield
        census, memory = self._sampler.census, Memory()
        until = time.thread_time() + SECONDS
        made: List[Search] = []

        def make() -> Search:
            made.append(Search(memory, frame_locals(), memory_of(census).opened, self._say, until))
            return made[-1]

        for last in (False, True):
            made.clear()
            large: List[Tuple[int, int]] = []
            yield from self._find_large(large)
            heap = Heap(memory, large)
            yield from heap.survey()
            search = make()
            targets = yield from search.run([tracked], heap)
            if not targets:
                return {"t": "failed", "request": header["request"], **NO_TENSOR}
            paths = yield from paths_of(search, targets[0])
            # A list that grows may have moved, past what had been searched, to where nothing had been: once more, then.
            if last or paths[0] or tracked.saved or targets[0].seen >= targets[0].references or search.cut:
                break
        asked = missing(targets[0], paths[1])
        ways: Dict[int, Any] = {}
        reasons: List[str] = []
        if asked or tracked.saved:
            self._said = "reading the autograd graph"
            behind = Behind(Context(self._sampler.torch, census, []), search, tracked)
            yield from behind.read()
            ways = yield from behind.find(list(dict.fromkeys([tracked.pyid, *asked])), heap, make)
            reasons = behind.reasons
        limit = min(CHAINS if header["limit"] is None else header["limit"], CHAINS_LIMIT)
        chains = yield from chains_of(search, targets[0], paths, tracked, census, limit, ways, not reasons)
        if tracked.ref() is None:
            return {"t": "failed", "request": header["request"], **NO_TENSOR}
        cut = any(one.cut for one in made)
        reasons = [CUT] * cut + [search.locals_reason] * bool(search.locals_reason) + reasons
        return answer(header, folded(chains), reasons, not reasons)

    def _say(self, text: str) -> None:
        self._said = text

    def _find_large(self, found: List[Tuple[int, int]]) -> Work:
        """Add where the contents of large tensors lie to `found`."""
        for place, row in enumerate(list(self._sampler.readings.storage_table.rows.values())):
            if not place % ROWS:
                yield
            address, size = cell(row, ADDRESS), cell(row, BYTES)
            if address > 0 and size >= LARGE:
                found.append((address, address + size))
