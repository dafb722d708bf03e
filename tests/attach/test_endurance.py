"""Many attaches to one busy target, attachers that are killed at any moment, and attachers that race."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tensortui.attach import attach, find_endpoint, memory, ptrace

TIMES = int(os.environ.get("TENSORTUI_TEST_ATTACHES", "300"))
KILLS = int(os.environ.get("TENSORTUI_TEST_KILLS", "50"))
WARM_UP = 30


def test_many_attaches_leave_no_growth(start, greet):
    """A busy target of 13 threads that is attached to and detached from again and again stays as it is."""
    program = start("many_threads")
    for _ in range(WARM_UP):
        greet(attach(program.pid)).detach()
    before, files = program.resident(), program.files()
    for _ in range(TIMES):
        endpoint = attach(program.pid)
        assert endpoint.fresh
        greet(endpoint).detach()
    assert program.regions() == 1
    assert program.resident() - before < 3072  # 10 KiB each
    assert abs(len(program.files()) - len(files)) < 8  # its subprocesses come and go
    assert program.finish() == "FAILURES []"


ATTACHER = """
import sys
from tensortui.attach import attach
pid = int(sys.argv[1])
attach(pid)  # warm: what follows is the attach itself, not the imports
print("go", flush=True)
sys.stdin.readline()
attach(int(sys.argv[2]))
print("done", flush=True)
"""


def test_attachers_killed_at_random_moments(start, greet):
    """The process whose attacher dies at any moment goes on, and can be attached to again."""
    rng = random.Random(7)
    program, other = start("many_threads"), start("sleeping")
    began = time.monotonic()
    greet(attach(program.pid)).detach()
    usual = time.monotonic() - began
    finished = 0
    for _ in range(KILLS):
        command = [sys.executable, "-c", ATTACHER, str(other.pid), str(program.pid)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacher:
            assert attacher.stdout.readline() == "go\n"
            attacher.stdin.write("\n")
            attacher.stdin.flush()
            time.sleep(rng.uniform(0, usual))
            os.kill(attacher.pid, signal.SIGKILL)
            finished += "done" in attacher.stdout.read()
        greet(attach(program.pid)).detach()
    assert finished < KILLS
    assert program.finish() == "FAILURES []"


def dies_at(step, pid):
    """Attach to `pid` in a child that is killed at its `step`th write or ptrace request; whether it was."""
    child = os.fork()
    if child == 0:
        left = itertools.count(step, -1)

        def deadly(function):
            def call(*arguments):
                if not next(left):
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*arguments)

            return call

        try:
            memory.Memory.write = deadly(memory.Memory.write)
            ptrace.request = deadly(ptrace.request)
            attach(pid)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_attacher_killed_at_each_step(start, greet):
    """Whatever the last thing was that an attacher did: the next one finds the region, and it is the only one."""
    program = start("many_threads")
    greet(attach(program.pid)).detach()
    step = 0
    while dies_at(step := step + 1, program.pid):
        greet(attach(program.pid)).detach()
        assert program.regions() == 1, f"killed at step {step}"
    assert step > 40
    greet(attach(program.pid)).detach()
    assert program.finish() == "FAILURES []"


def test_racing_attachers_get_one_agent(start, greet):
    """However many attach at once: one puts the agent in, the others find it."""
    program = start("busy")
    for _ in range(5):
        with ThreadPoolExecutor(6) as pool:
            endpoints = list(pool.map(attach, [program.pid] * 6))
        assert sorted(endpoint.fresh for endpoint in endpoints) == [False] * 5 + [True]
        assert len({endpoint.path for endpoint in endpoints}) == 1
        greet(endpoints[0]).detach()
        assert find_endpoint(program.pid) is None
    assert program.finish() == "LEFT {}"
