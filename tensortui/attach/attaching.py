"""The whole way to an agent in a running process, from "is one there already?" to a socket that answers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import secrets
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tensortui.attach import bootstrap, procfs, rendezvous
from tensortui.attach.errors import (
    NOT_HERE,
    AgentSilentError,
    ArchError,
    AttachError,
    BusyError,
    GoneError,
    NoRoomError,
    NoThreadError,
    PermissionDeniedError,
    QueueRefusedError,
    RefusedError,
    SyscallRefusedError,
    ThreadStuckError,
    TracedError,
    UnsupportedError,
)
from tensortui.attach.inject import Injection
from tensortui.attach.memory import MemoryGoneError
from tensortui.attach.remote_exec import REMOTE_EXEC_VERSION, attach_by_remote_exec
from tensortui.attach.rendezvous import Endpoint, find_endpoint
from tensortui.attach.target import check_state
from tensortui.attach.waiting import poll

# Failures after which nothing of ours can run in the target any more, so that another way may be tried.
LEAVES_OTHER_WAYS = (
    *(ArchError, NoRoomError, NoThreadError, PermissionDeniedError),
    *(QueueRefusedError, SyscallRefusedError, ThreadStuckError, OSError, struct.error),
)
ENDING_SECONDS = 0.3
TRACED_SECONDS = 0.3
ANSWER_SECONDS = 2.0  # at least, from the moment the bootstrap has run


def attach(
    pid: int, *, timeout: float = 5.0, budget: float = 0.01, unwanted: Callable[[Endpoint], object] | None = None
) -> Endpoint:
    """Return an agent in process `pid`, put there if none is. Raises an AttachError that says what to do.

    `timeout` is how long to wait for the process to let us run; `budget` the share of its time the agent may use.
    `unwanted` is called with an agent that we put there although we were interrupted: it was too late to cancel it.
    """
    started = time.monotonic()
    if sys.platform == "linux":
        _check_state(pid)
    endpoint = find_endpoint(pid)
    if endpoint is None:
        with _alone(pid, timeout) if sys.platform == "linux" else contextlib.nullcontext():
            endpoint = find_endpoint(pid) or _put_in(pid, timeout, budget, unwanted)
        rendezvous.sweep(Path(endpoint.path).parent)
    return replace(endpoint, seconds=time.monotonic() - started)


def _check_state(pid: int) -> None:
    """Raise what keeps `pid` from being attached to. Another attacher traces it for a moment, a debugger for longer."""
    end = time.monotonic() + TRACED_SECONDS
    while True:
        try:
            check_state(pid)
            return
        except TracedError as error:
            if not error.held and find_endpoint(pid) is not None:
                return  # a traced process that runs can be talked to; only ptrace is taken
            if time.monotonic() > end:
                raise
        time.sleep(0.005)


def _put_in(pid: int, timeout: float, budget: float, unwanted: Callable[[Endpoint], object] | None = None) -> Endpoint:
    """Borrow a thread where that is possible, else let the target's own Python do it, if it knows how."""
    refused: AttachError
    if sys.platform == "linux" and platform.machine() == "x86_64":
        try:
            return _inject(pid, timeout, budget, unwanted)
        except LEAVES_OTHER_WAYS as error:
            # a process that ends refuses things in many ways, a little before its end shows
            if poll(lambda: not procfs.alive(pid), ENDING_SECONDS):
                raise GoneError(pid, "ended meanwhile") from None
            if isinstance(error, MemoryGoneError):
                raise GoneError(pid, "became another program meanwhile") from None
            refused = error if isinstance(error, AttachError) else RefusedError(pid, error)
    else:
        refused = UnsupportedError(pid, NOT_HERE)
    if not _knows_remote_exec(pid):
        raise refused
    try:
        token = secrets.token_hex(16)
        endpoint = attach_by_remote_exec(pid, timeout, budget, token)
    except UnsupportedError as error:
        raise error from refused
    return replace(endpoint, token=token, fresh=True, how="remote_exec")


def _knows_remote_exec(pid: int) -> bool:
    from tensortui.attach import processes  # psutil, which a program that only listens need not have

    info = processes.describe(pid)
    return info is not None and info.python is not None and info.python >= REMOTE_EXEC_VERSION


@contextlib.contextmanager
def _alone(pid: int, timeout: float) -> Iterator[None]:
    """One attacher at a time. The lock is on the process's own memory in /proc: no file of ours can be left over.

    Where that cannot be opened it is on its directory, which anybody can lock, to keep others out for ever.
    """
    try:
        handle = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        try:
            handle = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise GoneError(pid) from None
    try:
        if not poll(lambda: _locked(handle), timeout):
            raise BusyError(pid)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Thread(threading.Thread):
    """Runs the injection in a thread of its own: should a tracee be left seized, the kernel frees it as we end."""

    def __init__(self, pid: int, timeout: float, budget: float, token: str) -> None:
        super().__init__(name="tensortui attach")
        self._arguments = (pid, timeout, budget, token)
        self.stop = threading.Event()
        self.done = threading.Event()
        self.endpoint: Endpoint | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Put the agent in, and wait until it answers."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self.endpoint = self._attach(*self._arguments)
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def _attach(self, pid: int, timeout: float, budget: float, token: str) -> Endpoint:
        def source(report_address: int) -> str:
            return bootstrap.bootstrap_source(budget=budget, token=token, report_address=report_address)

        injection = Injection(pid, source, timeout, self.stop)
        try:
            how = injection.run()
            endpoint = _await_agent(pid, injection, timeout)
        finally:
            injection.close()
        return replace(endpoint, token=token, fresh=True, how=how)


def _await_agent(pid: int, injection: Injection, timeout: float) -> Endpoint:
    seconds = max(timeout, ANSWER_SECONDS)
    endpoint = rendezvous.await_agent(pid, injection.report, seconds)
    if endpoint is None:
        raise AgentSilentError(pid, seconds)
    return endpoint


def _inject(pid: int, timeout: float, budget: float, unwanted: Callable[[Endpoint], object] | None = None) -> Endpoint:
    worker = _Thread(pid, timeout, budget, secrets.token_hex(16))
    try:
        worker.start()
        worker.done.wait()  # not join(): interrupted, that takes a running thread for an ended one up to Python 3.12
    except BaseException:  # an interrupt: cancel first, so that nothing runs later
        worker.stop.set()
        if worker.is_alive():
            worker.done.wait()
        if worker.endpoint is not None and unwanted is not None:
            unwanted(worker.endpoint)
        raise
    worker.join()
    if worker.error is not None:
        raise worker.error
    assert worker.endpoint is not None
    return worker.endpoint
