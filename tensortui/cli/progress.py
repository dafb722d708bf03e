"""What a command waits for, said on a terminal while it waits."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tensortui.analysis.text import safe
from tensortui.analysis.units import format_many
from tensortui.model import LIVE, SCANNING

if TYPE_CHECKING:
    from tensortui.sources.live import LiveSource

FIRST_SECONDS = 1.0  # what is over sooner needs no words
AGAIN_SECONDS = 0.5


@contextmanager
def telling(source: LiveSource, step: Callable[[], str] | None = None) -> Iterator[None]:
    """Say on stderr, if that is a terminal, what `source` is waited for; the line is wiped out at the end.

    `step` says how far what was asked for is, "" where it has not said so yet.
    """
    if not sys.stderr.isatty():
        yield
        return
    task = asyncio.create_task(_tell(source, step))
    try:
        yield
    finally:
        task.cancel()
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


async def _tell(source: LiveSource, step: Callable[[], str] | None) -> None:
    begun = time.monotonic()
    await asyncio.sleep(FIRST_SECONDS)
    await source.set_interval(AGAIN_SECONDS)  # the samples on the way say how far it is
    while True:
        what = words(source)
        if step is not None and not source.held():
            what = safe(step()) or what
        text = f"\r\x1b[K{what}, {time.monotonic() - begun:.0f} s (Ctrl-C gives up)"
        print(text, end="", file=sys.stderr, flush=True)
        await asyncio.sleep(AGAIN_SECONDS)


def words(source: LiveSource) -> str:
    """What is waited for."""
    if why := source.held():
        return f"process {source.pid} is {why}"
    sample = source.latest
    if sample is None:
        return f"waiting for process {source.pid}"
    if sample.phase == SCANNING:
        return f"looking for tensors: {sample.progress or 0.0:.0%}"
    if sample.phase != LIVE:
        return f"process {source.pid} has not imported torch yet"
    return f"reading {format_many(len(sample.tensors), 'tensor')}"
