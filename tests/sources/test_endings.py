"""How a process ends, as the live source tells it; what holds one up; which program one runs by now."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from tensortui.errors import TensortuiError
from tensortui.model import Ended, Sample
from tensortui.sources import LiveSource, endings


async def ended(source):
    """Read to the end."""
    async for update in source.updates():
        last = update
    assert isinstance(last, Ended)
    return last


ENDS = [
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the process was killed by signal 9 (SIGKILL)", False),
    ("raise SystemExit(3)", "the process exited with status 3", False),
    ("pass", "the process exited with status 0", True),
]


@pytest.mark.parametrize(("code", "reason", "expected"), ENDS, ids=["killed", "failed", "done"])
@pytest.mark.parametrize("socket_stays", [False, True])
async def test_the_end_of_the_process_is_told_with_its_status(agent, start, code, reason, expected, socket_stays):
    process = start(sys.executable, "-c", f"input(); {code}" if ";" not in code else f"input()\n{code}", stdin=-1)
    hang = asyncio.Event()

    async def script(peer):
        await peer.welcome()
        await peer.sample()
        if not socket_stays:  # else: as if a forked child kept it open
            await hang.wait()
            await peer.hang_up()

    source = await LiveSource.connect(await agent(script, pid=process.pid))
    assert isinstance(await anext(source.updates()), Sample)
    process.stdin.write("\n")
    process.stdin.flush()
    hang.set()
    last = await asyncio.wait_for(ended(source), 20)
    assert (last.reason, last.expected) == (reason, expected)
    await source.close()


@pytest.mark.parametrize(("code", "reason", "expected"), ENDS, ids=["killed", "failed", "done"])
async def test_a_process_that_takes_long_to_exit_is_said_to_be_exiting_until_it_has(
    agent, start, code, reason, expected
):
    process = start(sys.executable, "-c", f"input()\n{code}", stdin=-1)

    async def script(peer):
        await peer.welcome()
        await peer.sample()
        await peer.send({"t": "bye", "reason": "exit"})
        await peer.hang_up()

    source = await LiveSource.connect(await agent(script, pid=process.pid))
    updates = source.updates()
    assert isinstance(await anext(updates), Sample)
    exiting = await asyncio.wait_for(anext(updates), 20)
    assert (exiting.reason, exiting.expected) == ("the process is exiting", True)
    with pytest.raises(TensortuiError, match="the process is exiting"):
        await source.refresh()
    process.stdin.write("\n")
    process.stdin.flush()
    last = await asyncio.wait_for(anext(updates), 20)
    assert (last.reason, last.expected) == (reason, expected)
    assert source.ended is last
    with pytest.raises(StopAsyncIteration):
        await anext(updates)
    await source.close()


async def test_whoever_leaves_does_not_wait_for_a_process_that_is_exiting(agent, start):
    process = start(sys.executable, "-c", "input()", stdin=-1)

    async def script(peer):
        await peer.welcome()
        await peer.send({"t": "bye", "reason": "exit"})
        await peer.hang_up()

    source = await LiveSource.connect(await agent(script, pid=process.pid))
    updates = source.updates()
    assert (await asyncio.wait_for(anext(updates), 20)).reason == "the process is exiting"
    await source.close()
    assert [update.reason async for update in updates] == ["closed"]


def until_free(pid):
    """Wait until nothing holds a process: one that begins may wait for the disk at first."""
    end = time.monotonic() + 20
    while endings.held(pid):
        assert time.monotonic() < end, endings.held(pid)
        time.sleep(0.01)


def test_a_process_that_is_stopped_is_known_to_be(start):
    process = start("sleep", "60")
    until_free(process.pid)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    assert endings.held(process.pid) == f"stopped (SIGSTOP): kill -CONT {process.pid}"
    process.send_signal(signal.SIGCONT)
    os.waitpid(process.pid, os.WCONTINUED)
    until_free(process.pid)


def test_signals_have_names():
    from tensortui.sources.endings import describe

    assert describe(signal.SIGSEGV | 0x80) == "the process was killed by signal 11 (SIGSEGV)"
    assert describe(None) == "the process ended"
    assert describe(None, exiting=True) == "the process exited"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_that_runs_another_program_by_now_is_told_from_one_that_goes_on():
    other = "print(flush=True); input()"
    code = f"import os, sys; {other}; os.execv(sys.executable, [sys.executable, '-c', {other!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # before that the first program may not be in place yet
        watch = endings.Watch(process.pid)
        assert not watch.replaced()
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert watch.replaced()
        process.kill()
        watch.close()
