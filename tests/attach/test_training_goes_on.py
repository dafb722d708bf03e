"""What the agent reads while a program trains: torch changes much of it without holding the interpreter lock."""

from __future__ import annotations

import asyncio
import time

import pytest

from tensortui.attach import attach
from tensortui.cli.connecting import connect

SECONDS = 15.0


async def refresh_until(pid, end):
    """Have everything read anew, again and again; how often it was."""
    source, _ = await connect(attach(pid), interval=0.1)
    count = 0
    while time.monotonic() < end:
        await source.refresh()
        if not count % 10:
            await source.graph()
        count += 1
    await source.detach()
    return count


def test_a_training_program_survives_being_read_without_a_pause(start):
    """Reading `.grad` beside it, or taking a reference to what may have been freed, crashed it within this time."""
    pytest.importorskip("torch")
    program = start("torch_threads", "--torch")
    before = program.ask()
    assert asyncio.run(refresh_until(program.pid, time.monotonic() + SECONDS)) > 5
    assert program.ask() != before
    assert program.finish() == "LEFT {}"
