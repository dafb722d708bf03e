"""The agent's thread: serves the viewers and runs the work there is in short slices, as the governor allows."""

import os
import time
from typing import Any, Dict, List, Optional

from tensortui.agent.answers import Answers
from tensortui.agent.census import Work
from tensortui.agent.connections import MIN_INTERVAL, Connection, Server
from tensortui.agent.governor import GAP, SAMPLE, SLICE, Governor
from tensortui.agent.guard import APART, COMPANY, LATER, Alone
from tensortui.agent.process import loaded_torch
from tensortui.agent.sampler import Sampler
from tensortui.agent.work import Workshop

LATER_GAP = 0.004  # seconds until what could do nothing more is asked again
LOOK_FOR_TORCH = 0.25
PROGRESS_EVERY = 0.25
NOT_ALONE = {"cause": "Another viewer is connected.", "next_step": "Detach without asking for that."}
MAX_REQUESTS = 63  # of one viewer that wait; older ones are dropped


class Agent:
    """Lives from `run` to its end; `stop` may be called from any thread."""

    def __init__(self, options: Dict[str, Any]) -> None:
        """Open the socket; raises OSError where that is impossible."""
        self._idle_exit = float(options.get("idle_exit", 30.0))
        self._governor = Governor(float(options.get("budget", 0.01)))
        self._server = Server(
            list(options["path"]), str(options.get("token") or ""), self._handle, self._governor.budget
        )
        self._answers = Answers(str(options.get("version", "")), self._governor, self._server)
        self._workshop: Optional[Workshop] = None
        self._stop = ""
        self._detail = ""
        self._pid = os.getpid()
        self._progress_at = 0.0
        self._torch_at = 0.0
        self._apart: List[Work] = []  # what asked to run its next step by itself
        self._lonely_since = time.monotonic()
        self._cpu = time.thread_time()

    @property
    def _sampler(self) -> Optional[Sampler]:
        return None if self._workshop is None else self._workshop.sampler

    # -- life

    def stop(self, reason: str, detail: str = "") -> None:
        """Ask the thread to say goodbye and end."""
        self._stop, self._detail = reason, detail
        self._server.wake()

    def run(self) -> None:
        """Serve until the end; leaves no socket and no file."""
        try:
            while not self._stop:
                self._server.wait(self._timeout())
                self._turn()
        finally:
            workshop, self._workshop = self._workshop, None
            if workshop is not None:
                workshop.close()
            if os.getpid() == self._pid:
                self._server.stop_listening()
            if workshop is not None and self._stop != "exit":  # an exit must not wait for that
                workshop.sampler.dismantle()
            COMPANY.dismiss()
            if os.getpid() == self._pid:  # the last word: whoever hears it finds hardly a trace
                self._server.broadcast({"t": "bye", "reason": self._stop or "error", "detail": self._detail})
                self._server.close()

    def _turn(self) -> None:
        now = time.monotonic()
        self._look_for_torch(now)
        if self._answers.live and self._workshop is not None:
            self._workshop.choose(now)
        else:
            self._tell_progress(now)
        for one in self._server.connections:
            if one.wants_encoding():
                self._encode(one)
        kind = self._slice()
        cpu = time.thread_time()
        spent, self._cpu = cpu - self._cpu, cpu
        self._governor.spend(spent, kind)
        if any(one.greeted for one in self._server.connections):
            self._lonely_since = now
        elif now - self._lonely_since > self._idle_exit:
            self._stop = "idle"

    @staticmethod
    def _encode(one: Connection) -> None:
        with Alone(SLICE) as alone:
            while not alone.over() and one.encode_some():
                pass

    def _slice(self) -> str:
        """Run one slice where the governor lets us; return the kind of work that this turn is booked under."""
        workshop = self._workshop
        at_hand = [] if workshop is None else workshop.at_hand
        payable = next((one for one in at_hand if self._governor.wait(one[1]) == 0.0), None)
        if workshop is None or payable is None:
            return SAMPLE
        work, kind = payable
        start = time.thread_time()
        try:
            said = self._go_on(work)
            self._apart = [one for one in self._apart if one is not work] + [work] * (said is APART)
        except StopIteration:
            workshop.over(work)
        except Exception as error:
            workshop.over(work, self._answers.failed(error))
        self._governor.slice_took(time.thread_time() - start)
        return kind

    def _go_on(self, work: Work) -> Any:
        """Run one slice of `work`; return APART where its next step is to be run by itself.

        All else is run with the interpreter lock in hand and the collector asleep: what work allocates must not have
        the collector go through the target's objects, and run its finalizers, on this thread.
        """
        if any(one is work for one in self._apart):
            return next(work)
        gap = GAP
        try:
            with Alone(SLICE) as alone:
                while not alone.over():
                    said = next(work)
                    if said is APART:
                        return APART
                    if said is LATER:
                        gap = LATER_GAP
                        return None
        finally:
            time.sleep(gap)  # at once: who allocates next is the one to collect, where that is due
        return None

    def _timeout(self) -> float:
        if any(one.wants_encoding() for one in self._server.connections):
            return GAP
        rest = LOOK_FOR_TORCH if self._workshop is None else 1.0
        for _, kind in () if self._workshop is None else self._workshop.at_hand:
            rest = min(rest, self._governor.wait(kind))  # the gap was given after the slice
        if self._workshop is None or not self._workshop.busy:
            now = time.monotonic()
            due = min((one.due for one in self._server.connections if one.idle), default=now + rest)
            rest = min(rest, max(due - now, self._governor.wait(SAMPLE), GAP))
        return rest

    # -- before the first scan is over

    def _look_for_torch(self, now: float) -> None:
        if self._workshop is not None or now - self._torch_at < LOOK_FOR_TORCH:
            return
        self._torch_at = now
        torch = loaded_torch()
        if torch is None:
            return
        sampler = Sampler(torch, self._governor.budget, time.perf_counter)
        for one in self._server.connections:
            one.process_told = False
        self._workshop = Workshop(sampler, self._server, self._answers, self._governor)

    def _tell_progress(self, now: float) -> None:
        greeted = [one for one in self._server.connections if one.greeted and not one.closing]
        if self._workshop is None:  # nothing to wait for: a request is answered by what is known
            for one in greeted:
                self._answers.without_tables(one, None)
        if now - self._progress_at < PROGRESS_EVERY:
            return
        self._progress_at = now
        for one in greeted:
            if one.due <= now and one.idle:
                one.due = now + max(one.interval or 0.0, PROGRESS_EVERY)
                one.queue_batch([], self._answers.sample(one, self._sampler))

    # -- requests

    def _handle(self, one: Connection, header: Dict[str, Any]) -> None:
        kind = header["t"]
        if kind == "hello":
            sampler = self._sampler
            one.send(self._answers.welcome(header, None if sampler is None else sampler.torch))
        elif kind == "subscribe":
            interval = header["interval"]
            one.interval = None if interval is None else max(interval, MIN_INTERVAL)
            one.due = float("inf") if interval is None else time.monotonic()
        elif kind == "watch":
            one.watch = header["ids"]
        elif kind == "refresh":
            one.requests = [*one.requests[-MAX_REQUESTS:], header["request"]]
            self._torch_at = 0.0  # torch may have come since we looked
        elif kind == "graph":
            one.graphs = [*one.graphs[-MAX_REQUESTS:], header]
            self._torch_at = 0.0
        elif kind == "holders":
            one.searches = [*one.searches[-MAX_REQUESTS:], header]
        elif kind == "cancel":
            one.searches = [search for search in one.searches if search["request"] != header["request"]]
            if self._workshop is not None:
                self._workshop.searches.cancel(one, header["request"])
        elif kind == "detach":
            if header["if_alone"] and self._others(one):
                one.send({"t": "failed", "request": header["request"], **NOT_ALONE})
            else:
                self._stop = "detached"

    def _others(self, one: Connection) -> bool:
        others = (other for other in self._server.connections if other is not one and other.greeted)
        return any(not other.hung_up() for other in others)
