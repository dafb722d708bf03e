"""The agent's one thread: serves the viewers and runs the sampler's work in short slices, as the governor allows."""

import os
import time
from typing import Any, Dict, List, Optional, Set

from tensortui.agent.census import Work
from tensortui.agent.connections import MIN_INTERVAL, Connection, Server
from tensortui.agent.governor import GAP, SLICE, Governor
from tensortui.agent.process import describe, loaded_torch
from tensortui.agent.rows import Reader
from tensortui.agent.sampler import Sampler
from tensortui.wire.messages import PROTOCOLS, WATCH_LIMIT, common_protocol

LOOK_FOR_TORCH = 0.25
UNWATCHED_DRAIN = 2.0
PROGRESS_EVERY = 0.25
MAX_REQUESTS = 63  # of one viewer that wait; older ones are dropped
GRAPH_CHUNK = 100  # nodes in one frame: well under a millisecond to encode
MAX_NODES = 10_000


class Agent:
    """Lives from `run` to its end; `stop` may be called from any thread."""

    def __init__(self, options: Dict[str, Any]) -> None:
        """Open the socket; raises OSError where that is impossible."""
        self.version = str(options.get("version", ""))
        self.idle_exit = float(options.get("idle_exit", 30.0))
        self.governor = Governor(float(options.get("budget", 0.01)))
        self.server = Server(list(options["path"]), str(options.get("token") or ""), self._handle)
        self.sampler: Optional[Sampler] = None
        self.phase = "waiting"
        self._stop = ""
        self._detail = ""
        self._pid = os.getpid()
        self._seq = 0
        self._work: Optional[Work] = None
        self._urgent = False
        self._background: Optional[Work] = None
        self._passes_at = 0.0
        self._drained_at = 0.0
        self._progress_at = 0.0
        self._torch_at = 0.0
        self._lonely_since = time.monotonic()
        self._failures: List[str] = []
        self._cpu = time.thread_time()
        self._hook_seconds = 0.0

    # -- life

    def stop(self, reason: str, detail: str = "") -> None:
        """Ask the thread to say goodbye and end."""
        self._stop, self._detail = reason, detail
        self.server.wake()

    def run(self) -> None:
        """Serve until the end; leaves no hook, no socket and no file."""
        try:
            while not self._stop:
                self.server.wait(self._timeout())
                self._turn()
        finally:
            self._work = self._background = None
            if self.sampler is not None:
                self.sampler.close()
            if os.getpid() == self._pid:
                self.server.broadcast({"t": "bye", "reason": self._stop or "error", "detail": self._detail})
                self.server.close()

    def _turn(self) -> None:
        now = time.monotonic()
        self._look_for_torch(now)
        self._choose(now)
        urgent = self._urgent and self._work is not None
        for one in list(self.server.connections):
            if one.wants_encoding():
                self._encode(one)
        if self.governor.wait(urgent) == 0.0:
            self._slice()
        cpu = time.thread_time()
        spent, self._cpu = cpu - self._cpu, cpu
        if self.sampler is not None:
            hook = self.sampler.hook.seconds
            spent, self._hook_seconds = spent + hook - self._hook_seconds, hook
        self.governor.spend(spent, urgent)
        if any(one.greeted for one in self.server.connections):
            self._lonely_since = now
        elif now - self._lonely_since > self.idle_exit:
            self._stop = "idle"

    def _encode(self, one: Connection) -> None:
        start = time.perf_counter()
        while time.perf_counter() - start < SLICE and one.encode_some():
            pass

    def _slice(self) -> None:
        work = self._work or self._background
        if work is None:
            return
        start = time.perf_counter()
        end = start + SLICE
        try:
            while time.perf_counter() < end:
                next(work)
        except StopIteration:
            self._over(work)
        except Exception as error:
            self._failures = [*self._failures[-4:], "the agent failed: %s: %.200s" % (type(error).__name__, error)]
            self._over(work)
        self.governor.slice_took(time.perf_counter() - start)

    def _over(self, work: Work) -> None:
        if work is self._work:
            self._work = None
            if self.phase == "scanning":
                self.phase = "live"
        else:
            self._background = None

    def _timeout(self) -> float:
        now = time.monotonic()
        if any(one.wants_encoding() for one in self.server.connections):
            return GAP
        if self._work is not None or self._background is not None:
            return max(GAP, self.governor.wait(self._urgent and self._work is not None))
        due = min((one.due for one in self.server.connections), default=now + 1.0)
        return min(max(due - now, GAP), LOOK_FOR_TORCH if self.phase == "waiting" else 1.0)

    # -- what to do next

    def _look_for_torch(self, now: float) -> None:
        if self.phase != "waiting" or now - self._torch_at < LOOK_FOR_TORCH:
            return
        self._torch_at = now
        torch = loaded_torch()
        if torch is None:
            return
        self.sampler = Sampler(torch, self.governor.budget, time.perf_counter)
        self.sampler.hook.on_fork = self.server.abandon
        for one in self.server.connections:
            one.process_told = False
        self.phase = "scanning"
        self._work, self._urgent = self._first(self.sampler), True

    def _choose(self, now: float) -> None:
        greeted = [one for one in self.server.connections if one.greeted and not one.closing]
        if self.phase != "live":
            self._tell_progress(greeted, now)
            return
        sampler = self.sampler
        if self._work is not None or sampler is None:
            return
        asking = [one for one in greeted if one.requests and one.idle]
        graphs = [one for one in greeted if one.graphs and one.idle]
        due = [one for one in greeted if one.due <= now and one.idle]
        if asking:
            self._background = None
            self._work, self._urgent = self._refresh(sampler), True
        elif graphs:
            self._work, self._urgent = self._graph(sampler, graphs[0]), True
        elif due:
            self._work, self._urgent = self._sample(sampler, now), False
        elif now - self._drained_at > UNWATCHED_DRAIN and not any(one.interval for one in greeted):
            self._drained_at = now
            self._work, self._urgent = sampler.drain(), False

    def _tell_progress(self, greeted: List[Connection], now: float) -> None:
        if self.phase == "waiting":  # nothing to wait for: a refresh is answered by what is known
            for one, requests in self._take_requests().items():
                for request in requests:
                    one.send(self._sample_message(one, request))
            for one in greeted:
                asked, one.graphs = one.graphs, []
                for header in asked:
                    one.send(_graph_message(header, {"roots": [], "cut": False}, [], False))
        if now - self._progress_at < PROGRESS_EVERY:
            return
        self._progress_at = now
        for one in greeted:
            if one.due <= now and one.idle:
                one.due = now + max(one.interval or 0.0, PROGRESS_EVERY)
                one.queue_batch([], self._sample_message(one))

    # -- work

    def _first(self, sampler: Sampler) -> Work:
        yield from sampler.start()
        asked = self._take_requests()
        yield from self._everything(sampler)
        self.phase = "live"
        self._answer(asked)

    def _refresh(self, sampler: Sampler) -> Work:
        asked = self._take_requests()
        yield from sampler.drain()
        yield from self._everything(sampler)
        self._answer(asked)

    def _graph(self, sampler: Sampler, one: Connection) -> Work:
        header = one.graphs.pop(0)
        roots, limit = header.get("roots"), header.get("limit")
        body = yield from sampler.walk_graph(
            roots if isinstance(roots, list) else None, limit if isinstance(limit, int) else MAX_NODES
        )
        nodes = body["nodes"]
        for start in range(0, max(len(nodes), 1), GRAPH_CHUNK):
            if one not in self.server.connections:
                return
            more = start + GRAPH_CHUNK < len(nodes)
            one.send(_graph_message(header, body, nodes[start : start + GRAPH_CHUNK], more))
            yield

    def _everything(self, sampler: Sampler) -> Work:
        yield from sampler.read_all()
        yield from sampler.run_names()
        yield from sampler.run_graph()
        yield from sampler.read_fresh()
        self._passes_at = time.monotonic()

    def _take_requests(self) -> Dict[Connection, List[Any]]:
        asked = {}
        for one in self.server.connections:
            if one.requests:
                asked[one], one.requests = one.requests, []
        return asked

    def _answer(self, asked: Dict[Connection, List[Any]]) -> None:
        for one in self.server.connections:
            if one.interval is not None and one.idle and one not in asked:
                self._tell(one)
        for one, requests in asked.items():
            for request in requests:
                if one in self.server.connections:
                    self._tell(one, request)

    def _sample(self, sampler: Sampler, now: float) -> Work:
        self._drained_at = now
        yield from sampler.drain()
        yield from sampler.read_fresh()
        watched: Set[int] = set()
        for one in self.server.connections:
            watched.update(one.watch)
        yield from sampler.read_watched(watched)
        now = time.monotonic()
        for one in self.server.connections:
            if one.due <= now + MIN_INTERVAL / 2 and one.idle:
                one.due = max(one.due + (one.interval or 0.0), now + MIN_INTERVAL / 2)
                self._tell(one)
        if self._background is None and now - self._passes_at > 0.5:
            self._passes_at = now
            self._background = self._passes(sampler)

    @staticmethod
    def _passes(sampler: Sampler) -> Work:
        yield from sampler.audit()
        yield from sampler.run_names()
        yield from sampler.run_graph()

    # -- talking

    def _tell(self, one: Connection, request: Any = None) -> None:
        sampler = self.sampler
        if sampler is None:
            return
        if not one.readers:
            one.readers = (Reader(sampler.storage_table), Reader(sampler.tensors))
        if any(reader.stale for reader in one.readers):
            one.send({"t": "reset"})
            for reader in one.readers:
                reader.restart()
        one.queue_batch([reader.batch() for reader in one.readers], self._sample_message(one, request))

    def _sample_message(self, one: Connection, request: Any = None) -> Dict[str, Any]:
        self._seq += 1
        sampler = self.sampler
        reasons = list(self._failures)
        if sampler is not None:
            reasons += sampler.coverage.reasons(sampler.hook)
            for more in sampler.pass_reasons.values():
                reasons += more
        message: Dict[str, Any] = {
            "t": "sample",
            "seq": self._seq,
            "taken_at": time.time(),
            "phase": self.phase,
            "progress": sampler.progress if sampler is not None and self.phase == "scanning" else None,
            "coverage": {"complete": not reasons, "reasons": reasons},
            "cost": {
                "share": round(self.governor.share(), 6),
                "budget": self.governor.budget,
                "longest_slice": round(self.governor.longest_slice, 6),
            },
        }
        if not one.process_told:
            one.process_told = True
            message["process"] = describe(None if sampler is None else sampler.torch)
        if request is not None:
            message["request"] = request
        return message

    def _handle(self, one: Connection, header: Dict[str, Any]) -> None:
        kind = header["t"]
        if kind == "hello":
            torch = None if self.sampler is None else self.sampler.torch
            one.send(
                {
                    "t": "welcome",
                    "protocol": common_protocol(PROTOCOLS, header["protocols"]),
                    "version": self.version,
                    "pid": os.getpid(),
                    "process": describe(torch),
                    "budget": self.governor.budget,
                }
            )
        elif kind == "subscribe":
            interval = header.get("interval")
            one.interval = None if interval is None else max(float(interval), MIN_INTERVAL)
            one.due = float("inf") if interval is None else time.monotonic()
        elif kind == "watch":
            one.watch = [int(number) for number in header.get("ids", [])[:WATCH_LIMIT]]
        elif kind == "refresh":
            one.requests = [*one.requests[-MAX_REQUESTS:], header.get("request")]
            self._torch_at = 0.0  # torch may have come since we looked
        elif kind == "graph":
            one.graphs = [*one.graphs[-MAX_REQUESTS:], header]
            self._torch_at = 0.0
        elif kind == "detach":
            self._stop = "detached"


def _graph_message(header: Dict[str, Any], body: Dict[str, Any], nodes: List[Any], more: bool) -> Dict[str, Any]:
    return {
        "t": "graph",
        "request": header.get("request"),
        "roots": body["roots"],
        "nodes": nodes,
        "more": more,
        "cut": body["cut"],
    }
