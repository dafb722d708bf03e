"""Ends the viewer in order when it is told to by a signal, or when its terminal goes away.

Textual by itself ends in neither case: its input thread reads the end of a lost terminal again and again, its output
thread dies of the first write, and the main thread waits for them for ever.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ORDERLY_SECONDS = 3.0
AT_ALL_SECONDS = 10.0  # of which a program that ends with us may take 5


@contextmanager
def ends_in_order(leave: Callable[[], object]) -> Iterator[None]:
    """Call `leave` in the event loop at the first signal to end, end with the signal's exit code; raise at the second.

    A terminal that goes away counts as SIGHUP, whether or not the kernel sends one (only a controlling one does it).
    """
    told: list[int] = []
    over = threading.Event()

    def end(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        try:
            if len(told) > 1:
                raise SystemExit(128 + number)
            asyncio.get_running_loop().call_soon_threadsafe(leave)
        except RuntimeError:  # the loop does not run yet, or no more
            raise SystemExit(128 + number) from None

    before = {number: signal.signal(number, end) for number in SIGNALS}
    threading.Thread(target=_watch, args=(over,), name="tensortui terminal", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)
    if told:
        raise SystemExit(128 + told[0])


def _watch(over: threading.Event) -> None:
    """Wait until the terminal goes away; let what is still read and written come from nowhere and go nowhere."""
    hangup = select.poll()
    hangup.register(0, 0)
    while not hangup.poll(1000):
        if over.is_set():
            return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in range(3):
        if os.isatty(descriptor) or _hung_up(descriptor):
            os.dup2(nowhere, descriptor)
    os.kill(os.getpid(), signal.SIGHUP)
    if not over.wait(ORDERLY_SECONDS):
        os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(AT_ALL_SECONDS)
    os._exit(128 + signal.SIGHUP)  # a thread of Textual's holds the process back


def _hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))
