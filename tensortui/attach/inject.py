"""Run Python source once in a running CPython: Linux on x86_64, CPython 3.9 and later, without a debugger.

Two ways for a borrowed thread to get it run: `pthread_create` of a native thread of ours, which works while the main
thread is blocked in C with the GIL released; and `Py_AddPendingCall`, which the main thread runs at its next bytecode.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from tensortui.attach import procfs, ptrace, region, threads
from tensortui.attach.errors import (
    AttachError,
    AttachTimeoutError,
    GoneError,
    NoRoomError,
    NoThreadError,
    NotInitializedError,
    QueueRefusedError,
)
from tensortui.attach.hijack import Retry, Window
from tensortui.attach.region import Call, Region
from tensortui.attach.stubs import code
from tensortui.attach.target import Target
from tensortui.attach.waiting import poll

NOT_INITIALIZED = -99  # what the stub says for it
RUNNERS = {1: "pending", 2: "thread"}
WAITS_FOR_GIL = 1
PENDING_SECONDS = 1.0
VECTOR_STATE_LEAST = 576


class Injection:
    """One try to have source run in a process. Use it from one thread alone: `run`, then `report`, then `close`."""

    def __init__(self, pid: int, source: Callable[[int], str], timeout: float, stop: threading.Event) -> None:
        """`source` makes the text, given the address at which it may leave a report of what went wrong.

        `stop`, set by another thread, makes it give up soon, and cancel.
        """
        self.pid = pid
        self._begun = time.monotonic()
        self._end = self._begun + timeout
        self._stop = stop
        self._target = Target(pid)
        self._make_source = source
        self._region: Region | None = None

    def close(self) -> None:
        """Close the target's memory."""
        self._target.close()

    def report(self) -> str:
        """What the source has left in the region's report, if anything."""
        try:
            return self._region.report() if self._region is not None else ""
        except OSError:
            return ""

    def run(self) -> str:
        """Have the source run, and say how. Raises an AttachError or OSError: then it never will run."""
        try:
            return self._run()
        except BaseException:
            if self._region is not None:
                with contextlib.suppress(OSError):
                    self._region.cancel()
            raise

    def _run(self) -> str:
        self._region = self._obtain_region()
        refused: AttachError | None = None
        tries = (
            ("thread", bool(threads.sleepers(self.pid, may_allocate=True))),
            ("pending", True),
            ("thread", True),
        )
        for way, sensible in tries:
            if not sensible or self._thread_waits() or self._stop.is_set():
                continue
            try:
                self._queue(way)
            except (NoThreadError, QueueRefusedError) as error:
                refused = refused or error
                continue
            ran = self._wait(way)
            if ran:
                return ran
        if refused is None or self._queued():
            started = poll(self._ran_or_stopped, max(0.0, self._end - time.monotonic()))
            if isinstance(started, str):
                return started
        if self._region.cancel():
            if isinstance(refused, QueueRefusedError) or (refused is not None and not self._queued()):
                raise refused
            raise AttachTimeoutError(self.pid, time.monotonic() - self._begun, gil_held=self._thread_waits())
        return RUNNERS.get(self._region.get(region.RAN_BY), way)

    def _obtain_region(self) -> Region:
        room = len(self._make_source(2**48).encode())
        found = region.find(self._target, bytes(room))
        if found is None:
            found = region.create(self._target, bytes(room))
        found.prepare(self._make_source(found.report_address).encode())
        return found

    def _queue(self, way: str) -> None:
        """Borrow a thread for one C call. Raises NoThreadError or QueueRefusedError when it cannot be."""
        current = self._region
        assert current is not None
        for _ in range(3):
            borrowed = self._borrow(current, way)
            if not poll(lambda: current.get(region.DONE), 1.0):
                if way == "pending" and self._rescue(current, *borrowed):
                    current.refused()
                    continue
                return
            result = current.result()
            if result == 0:
                return
            current.refused()
            if result == NOT_INITIALIZED:
                raise NotInitializedError(self.pid)
            time.sleep(0.05)
        raise QueueRefusedError(self.pid)

    def _borrow(self, current: Region, way: str) -> tuple[Window, bytes]:
        why = region.NO_SLEEPER
        for attempt in range(region.ATTEMPTS):
            candidates = threads.sleepers(self.pid, may_allocate=way == "thread")
            if way == "pending":
                # up to 3.11 a pending call is noticed at once only when the main thread itself has added it
                candidates = [sleeper for sleeper in candidates if sleeper.tid == self.pid]
                if not candidates and attempt >= 3:
                    candidates = threads.running_main(self.pid)
            if not candidates:
                time.sleep(0.01 if way == "thread" else 0.002)
                continue
            _, tid, system_call = candidates[attempt % min(len(candidates), 4)]
            if not region.settled(self._target, current.get(region.BORROWED), current.base, current.get(region.SIZE)):
                why = "the one borrowed before is not back yet"
                continue
            try:
                with Window(self.pid, self._target.memory, tid, system_call) as window:
                    state = ptrace.vector_state(tid)
                    if not VECTOR_STATE_LEAST <= len(state) <= region.VECTOR_STATE_LIMIT:
                        raise NoRoomError(self.pid, f"{len(state)} bytes of vector registers")
                    current.queue(window, state, self._call(current, way))
                    return window, state
            except Retry as error:
                why = str(error)
        raise NoThreadError(self.pid, why)

    def _call(self, current: Region, way: str) -> Call:
        symbols, base = self._target.symbols, current.base
        if way == "pending":
            return Call(symbols["Py_AddPendingCall"], (base + code.REGION_PENDING, 0, 0, 0))
        if "pthread_create" not in symbols:
            raise NoThreadError(self.pid, "no pthread_create")
        identity = base + region.DATA + region.THREAD_ID
        return Call(symbols["pthread_create"], (identity, 0, base + code.REGION_TSTART, 0))

    def _rescue(self, current: Region, window: Window, state: bytes) -> bool:
        """The borrowed thread hangs in the call, on a lock it had itself: put it back to where it was."""
        try:
            with Window(self.pid, self._target.memory, window.tid, None) as now:
                inside = current.base <= now.registers.rsp <= current.base + region.STACK_TOP
                if not inside or current.get(region.DONE):
                    return False
                now.restore(window.back, state)
        except Retry:
            return False
        current.put(region.DONE, 1)
        return True

    def _wait(self, way: str) -> str | None:
        """Wait for the source to start; None when another way should be tried."""
        left = max(0.05, self._end - time.monotonic())
        if way == "thread":
            started = poll(self._ran_or_stopped, left)
            return started if isinstance(started, str) else None
        end = time.monotonic() + min(PENDING_SECONDS, left)
        asleep_since = None
        while time.monotonic() < end and not self._stop.is_set():
            ran = self._ran()
            if ran:
                return ran
            if threads.restartable_sleep(self.pid, self.pid):
                asleep_since = asleep_since or time.monotonic()
                if time.monotonic() - asleep_since > 0.1:
                    return None  # it will not get there by itself
            else:
                asleep_since = None
            time.sleep(0.002)
        return None

    def _ran(self) -> str | None:
        assert self._region is not None
        ran = self._region.get(region.RAN_BY)
        if not ran and not procfs.alive(self.pid):
            raise GoneError(self.pid, "ended meanwhile")
        return RUNNERS.get(ran)

    def _ran_or_stopped(self) -> str | bool:
        return self._ran() or self._stop.is_set()

    def _thread_waits(self) -> bool:
        return self._region is not None and self._region.get(region.THREAD_STATE) == WAITS_FOR_GIL

    def _queued(self) -> bool:
        return self._region is not None and self._region.get(region.QUEUED) != self._region.get(region.RETURNED)
