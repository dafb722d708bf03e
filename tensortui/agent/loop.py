"""The agent's thread: serves the viewers and runs the work there is in short slices, as the governor allows.

What is decided and computed happens `Alone`, outside of which only system calls are made: whatever is allocated there
could have the interpreter collect garbage, and run finalizers of the target, on this thread. So there, no loop goes
over a list and no generator is made, for both have an object that the collector counts.
"""

import operator
import os
import time
from typing import Any, Dict, List, Optional

from tensortui.agent.answers import Answers
from tensortui.agent.connections import MIN_INTERVAL, Connection, Server
from tensortui.agent.governor import GAP, SAMPLE, SLICE, Governor
from tensortui.agent.guard import APART, COMPANY, Alone
from tensortui.agent.jobs import Held, Job, forget_frames
from tensortui.agent.process import command, loaded_torch
from tensortui.agent.sampler import Sampler
from tensortui.agent.work import Workshop

LOOK_FOR_TORCH = 0.25
PROGRESS_EVERY = 0.25
NOT_ALONE = {"cause": "Another viewer is connected.", "next_step": "Detach without asking for that."}
_RAN_AT = operator.attrgetter("ran_at")
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
        self._leaving: Optional[Dict[str, Any]] = None  # the order to leave if nobody else is there, and whose it is
        self._leaver: Optional[Connection] = None
        self._encoding: List[Connection] = []  # whose next frames are to be encoded in this turn
        self._lonely_since = time.monotonic()
        self._cpu = time.thread_time()
        self._piece = Alone(SLICE)
        command()  # it reads a file

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
                self._turn()
                self._server.wait()
        except BaseException as error:  # it ends the agent; what follows takes a while, in which no frame may hold on
            forget_frames(error)
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
        self._look_for_torch(time.monotonic())
        gap = 0.0
        self._piece.begin()
        try:
            job = self._choose(time.monotonic())
            kind = SAMPLE if job is None else job.kind
            if job is not None and not job.apart:
                gap = self._go_on(job)
                job = None
            self._book(kind)
            self._encoding = [one for one in self._server.connections if one.wants_encoding()]
            self._server.plan(0.0 if job is not None else self._rest(gap))
        finally:
            self._piece.end()
        if gap:
            time.sleep(gap)  # at once: who allocates next is the one to collect, where that is due
        if job is not None:
            self._step_apart(job)
        while self._encoding:
            self._encode(self._encoding.pop())
        if self._workshop is not None:
            self._workshop.discard()
        if self._leaving is not None:
            self._leave()
            self._server.plan(0.0)

    def _encode(self, one: Connection) -> None:
        self._piece.begin()
        try:
            while not self._piece.over() and one.encode_some():
                pass
        finally:
            self._piece.end()

    def _book(self, kind: str) -> None:
        """Book what was used of the processor since the last time.

        Never before it is asked what the governor lets run: a turn would use up what its slice has waited for.
        """
        cpu = time.thread_time()
        self._governor.spend(cpu - self._cpu, kind)
        self._cpu = cpu

    def _choose(self, now: float) -> Optional["Job"]:
        """Take up what is due, and return what is gone on with in this turn: the first that the governor lets run.

        Of several that draw on the same purse it is the one that has waited longest: graphs that are asked for one
        after the other would leave nothing to a search for holders.
        """
        if self._workshop is not None and self._answers.live:
            self._workshop.choose(now)
        else:
            self._tell_progress(now)
        if any(one.greeted for one in self._server.connections):
            self._lonely_since = now
        elif now - self._lonely_since > self._idle_exit:
            self._stop = "idle"
        at_hand = [] if self._workshop is None else self._workshop.at_hand
        for job in at_hand:
            job.let_go(now)
        ready = [job for job in at_hand if self._governor.wait(job.kind) == 0.0]
        if not ready:
            return None
        return min((job for job in ready if job.kind == ready[0].kind), key=_RAN_AT)

    def _go_on(self, job: "Job") -> float:
        """Run one slice of `job`; return for how long nothing is to be done after it. Only `Alone`.

        What it allocates must not have the collector go through the target's objects on this thread.
        """
        start = time.thread_time()
        gap = GAP
        while not self._piece.over():
            said = self._step(job)
            if said is not None:
                if isinstance(said, float):
                    gap = said
                if not isinstance(said, Held):
                    break
        self._governor.slice_took(time.thread_time() - start)
        return gap

    def _step(self, job: "Job") -> Any:
        """Run one step of `job`; return what it says, APART where there is no next.

        What it raises is turned into a sentence and dropped at once: while an exception is in flight its frames keep
        what the step had in hand, and nobody else may run before that is let go.
        """
        job.ran_at = time.monotonic()
        try:
            said = next(job.work)
        except StopIteration:
            failure = ""
        except Exception as error:
            failure = self._answers.failed(error)
            forget_frames(error)
        else:
            if said is APART:
                job.apart = True
            elif isinstance(said, Held):
                job.held = said
            return said
        if self._workshop is not None:
            self._workshop.over(job, failure)
        return APART

    def _step_apart(self, job: "Job") -> None:
        """Run the step that gives up the lock. It has nothing of the target in hand."""
        job.apart = False
        kind, start = job.kind, time.thread_time()
        self._step(job)
        took = time.thread_time() - start
        self._piece.begin()
        try:
            self._book(kind)
            self._governor.slice_took(took)
        finally:
            self._piece.end()

    def _rest(self, gap: float) -> float:
        """Return for how long the sockets may be waited for, once the pause `gap` is over."""
        if any(one.wants_encoding() for one in self._server.connections):
            return GAP
        rest = LOOK_FOR_TORCH if self._workshop is None else 1.0
        for job in () if self._workshop is None else self._workshop.at_hand:
            rest = min(rest, self._governor.wait(job.kind))
        if self._workshop is None or not self._workshop.busy:
            now = time.monotonic()
            due = min((one.due for one in self._server.connections if one.idle), default=now + rest)
            rest = min(rest, max(due - now, self._governor.wait(SAMPLE), GAP))
        return max(rest - gap, 0.0)

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
            self._leaver, self._leaving = one, header  # who else is there is only known by system calls

    def _leave(self) -> None:
        """Follow the order to leave, if nobody else is there where that was the condition."""
        one, self._leaver = self._leaver, None
        header, self._leaving = self._leaving, None
        if one is None or header is None:
            return
        others = [other for other in self._server.connections if other is not one and other.greeted]
        if header["if_alone"] and any(not other.hung_up() for other in others):
            one.send({"t": "failed", "request": header["request"], **NOT_ALONE})
        else:
            self._stop = "detached"
