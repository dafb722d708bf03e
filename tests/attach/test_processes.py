"""What `tensortui ps` knows about processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tensortui.attach import attach, processes
from tensortui.attach.processes import list_processes, python_version


def info_of(pid):
    return next((info for info in list_processes() if info.pid == pid), None)


def test_python_process(start, python, pythons):
    program = start("sleeping", python=python, env={**os.environ, "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"})
    info = info_of(program.pid)
    version = next(name for name, command in pythons.items() if command == python)
    assert info.python == tuple(int(word) for word in version.split("."))
    assert (info.rank, info.local_rank, info.world_size) == (3, 1, 8)
    assert (info.torch, info.attachable, info.why_not, info.agent) == (False, True, "", False)
    assert info.threads == 1 and info.age >= 0 and "sleeping.py" in info.command and info.gpu_memory is None
    program.finish()


def test_agent_that_is_there(start, greet):
    program = start("sleeping")
    endpoint = attach(program.pid)
    assert info_of(program.pid).agent
    greet(endpoint).detach()
    assert not info_of(program.pid).agent
    program.finish()


def test_torch_comes_first(start):
    pytest.importorskip("torch")
    plain, program = start("sleeping"), start("training", "--torch")
    found = list_processes()
    assert info_of(program.pid).torch is True
    pids = [info.pid for info in found]
    assert pids.index(program.pid) < pids.index(plain.pid)


def test_stopped_process_says_so(start):
    program = start("busy")
    os.kill(program.pid, 19)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
    info = info_of(program.pid)
    assert not info.attachable and "stopped" in info.why_not
    os.kill(program.pid, 18)
    program.finish()


def test_not_python_and_not_ourselves():
    with subprocess.Popen(["sleep", "60"]) as process:
        pids = {info.pid for info in list_processes()}
        assert process.pid not in pids and os.getpid() not in pids
        process.kill()
    assert processes.describe(process.pid) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_users_process_is_listed_with_the_reason(start):
    program = start("busy")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(54326)
            os.write(writing, info_of(program.pid).why_not.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as file:
        assert "belongs to another user" in file.read()
    program.finish()


@pytest.mark.parametrize(
    ("executable", "images", "version"),
    [
        ("/usr/bin/python3.12", None, (3, 12)),
        ("/opt/env/bin/python", {"/opt/env/lib/libpython3.10.so.1.0"}, (3, 10)),
        ("/opt/env/bin/python3", {"/opt/env/lib/python3.13/lib-dynload/_json.so"}, (3, 13)),
        ("/opt/app/server", {"/usr/lib/libpython3.11.so.1.0"}, (3, 11)),
        ("/usr/bin/gdb", {"/usr/lib/libc.so.6"}, None),
        ("/usr/bin/python3.14t", None, (3, 14)),
    ],
)
def test_version_from_names(executable, images, version):
    assert python_version(executable, images) == version


def test_this_interpreter():
    assert processes.describe(os.getpid()).python == sys.version_info[:2]
