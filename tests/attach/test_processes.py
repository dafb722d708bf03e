"""What `tensortui ps` knows about processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    assert not info_of(program.pid).stopped
    os.kill(program.pid, 19)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
    assert info_of(program.pid).agent
    assert info_of(program.pid).stopped
    os.kill(program.pid, 18)
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
    assert info.stopped
    os.kill(program.pid, 18)
    program.finish()


def test_not_python_and_not_ourselves():
    with subprocess.Popen(["sleep", "60"]) as process:
        pids = {info.pid for info in list_processes()}
        assert process.pid not in pids and os.getpid() not in pids
        process.kill()
    assert processes.describe(process.pid) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_users_process_is_listed_with_the_reason(start, as_user):
    program = start("busy")
    assert "belongs to another user" in as_user(54326, lambda: info_of(program.pid).why_not)
    program.finish()


def child_pids(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_children_of_multiprocessing_are_told_apart(start, wait_for):
    program = start("children")
    fork, spawn, forked_by_server, again = (int(word) for word in program.line().split())
    wait_for(lambda: processes.describe(spawn).role and processes.describe(again).command)  # they have started
    infos = {info.pid: info for info in list_processes()}
    assert (infos[program.pid].role, infos[program.pid].parent) == ("", None)
    assert (infos[fork].role, infos[fork].parent) == ("fork", program.pid)
    assert (infos[spawn].role, infos[spawn].parent) == ("worker", program.pid)
    assert (infos[forked_by_server].role, infos[forked_by_server].parent) == ("worker", program.pid)
    assert infos[again].command == infos[program.pid].command and infos[again].role == ""
    others = {infos[pid].role for pid in child_pids(program.pid) if pid not in (fork, spawn, again)}
    assert others == {"resource tracker", "fork server"}
    assert infos[spawn].title.startswith(f"worker of {program.pid}: python")
    pids = list(infos)
    assert pids.index(program.pid) < pids.index(fork)


def test_workers_of_a_data_loader_say_whose_they_are(start):
    pytest.importorskip("torch")
    program = start("loader_of_batches", "--torch")
    workers = [processes.describe(pid) for pid in child_pids(program.pid)]
    roles = [(info.role, info.parent) for info in workers if info is not None and info.role != "resource tracker"]
    assert roles == [("DataLoader worker", program.pid)] * 2


def test_worker_whose_parent_has_ended(start, wait_for):
    program = start("children")
    spawn = int(program.line().split()[1])
    wait_for(lambda: processes.describe(spawn).role)
    os.kill(program.pid, 9)
    program.process.wait()
    info = processes.describe(spawn)
    assert (info.role, info.parent) == ("worker", None) and info.title.startswith("worker: python")


@pytest.mark.parametrize("rank", ["9" * 5000, "-1", "٣", "", "x"])
def test_rank_that_is_none(start, rank):
    program = start("sleeping", env={**os.environ, "RANK": rank, "WORLD_SIZE": "2"})
    info = info_of(program.pid)
    assert (info.rank, info.world_size) == (None, 2)


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
