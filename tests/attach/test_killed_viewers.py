"""Viewers killed at any moment of their life: the process they looked at goes on, and nothing of them stays in it."""

from __future__ import annotations

import asyncio
import os
import pty
import random
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensortui.attach import attach, find_endpoint
from tensortui.cli.connecting import connect

KILLS = int(os.environ.get("TENSORTUI_TEST_VIEWERS", "50"))
AT_ONCE = 2
LONGEST = 2.0  # seconds that a viewer lives at most
WARM_UP = 5


def view(pid, seconds):
    """Run a viewer in a terminal of its own and kill it after `seconds`; whether it showed the model's tensors."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tensortui", "attach", str(pid)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    shown, end = bytearray(), time.monotonic() + seconds
    try:
        while (left := end - time.monotonic()) > 0:
            if select.select([ours], [], [], left)[0]:
                shown += os.read(ours, 1 << 16)
        assert process.poll() is None
    except OSError:  # the terminal's other end is closed
        raise AssertionError(f"the viewer ended by itself: {shown.decode(errors='replace')[-2000:]}") from None
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return b"model.0.weight" in shown


async def sample_and_graph(pid):
    """A whole visit: attach, a sample, the graph, detach."""
    source, endpoint = await connect(attach(pid), interval=None)
    sample = await source.refresh()
    await source.graph()
    await source.detach()
    return endpoint, sample


def steps_of(program):
    """How many steps each of its threads has made."""
    return [int(word) for word in program.ask().split()]


def test_viewers_killed_at_random_moments(start, greet, wait_for):
    """50 viewers, two at a time, some of them the first and some not: no crash, no hang, no growth."""
    pytest.importorskip("torch")
    program = start("torch_threads", "--torch")
    rng = random.Random(11)
    for _ in range(WARM_UP):
        endpoint, _ = asyncio.run(sample_and_graph(program.pid))
    before = steps_of(program)
    threads, files, resident = program.threads(), program.files(), program.resident()

    showed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for turn in range(KILLS // AT_ONCE):
            if turn == KILLS // AT_ONCE // 2:
                middle = program.resident()
            moments = [rng.uniform(0, LONGEST) for _ in range(AT_ONCE)]
            showed += sum(pool.map(view, [program.pid] * AT_ONCE, moments))
            if rng.random() < 0.5:  # the next ones bring the agent anew; otherwise they find it there
                greet(attach(program.pid)).detach()
    assert 0 < showed < KILLS

    greet(attach(program.pid)).detach()
    assert program.threads() == threads
    assert find_endpoint(program.pid) is None
    assert list(Path(endpoint.path).parent.glob(f"{program.pid}-*")) == []
    assert all(now > then for now, then in zip(steps_of(program), before, strict=True))  # which collects garbage too
    assert program.files() == files
    assert program.regions() <= AT_ONCE  # a viewer that finds another's call still under way takes a second one
    grown, later = middle - resident, program.resident() - middle
    print(f"{showed} of {KILLS} had the tensors on their screen; {grown} KiB, then {later} KiB more resident")
    # The arenas that the C allocator has for the agent's threads reach their fill with about the sixtieth agent: what
    # is in use stays the same, but they are not given back. What grows by more is a leak.
    assert later < 8192

    after = steps_of(program)
    wait_for(
        lambda: all(now > then for now, then in zip(steps_of(program), after, strict=True)), "a step of each thread"
    )

    endpoint, sample = asyncio.run(sample_and_graph(program.pid))
    assert endpoint.fresh
    names = {name for tensor in sample.tensors.values() for name in tensor.names}
    assert {"model.0.weight", "model.2.bias"} <= names
    wait_for(lambda: program.threads() == threads, "the end of the agent's threads")
    assert program.finish() == "LEFT {}"
