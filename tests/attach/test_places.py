"""Processes that are elsewhere: other users, private namespaces, deleted programs, forked children."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tensortui.attach import attach, find_endpoint, procfs

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
UID = 54325


@root_only
def test_root_into_another_users_process(start, greet, everyones_python):
    program = start("busy", python=everyones_python, user=UID)
    endpoint = attach(program.pid)
    folder = Path(endpoint.path).parent.stat()
    assert (folder.st_uid, stat.S_IMODE(folder.st_mode)) == (UID, 0o700)
    greet(endpoint).detach()
    assert program.finish() == "LEFT {}"


@root_only
def test_private_pid_and_mount_namespaces(start, greet, wait_for, child_of):
    probe = ["unshare", "--pid", "--mount", "--fork", "--mount-proc"]
    if subprocess.run([*probe, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no new namespaces here")
    prefix = [*probe, "sh", "-c", 'mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    program = start("busy", python=str(Path(sys.executable).resolve()), prefix=prefix)
    inside = wait_for(lambda: child_of(program.pid))
    assert procfs.inner_pid(inside) == 1
    endpoint = attach(inside)
    assert endpoint.fresh and Path(endpoint.path).name.startswith("1-")
    assert not Path("/tmp", f"tensortui-{os.geteuid()}", Path(endpoint.path).name).exists()
    assert attach(inside).how == "connected"
    greet(endpoint).detach()
    assert find_endpoint(inside) is None
    program.pid = inside
    assert program.finish() == "LEFT {}"


def test_program_that_was_deleted(start, greet, tmp_path):
    """An upgrade replaces the interpreter under a running program: no file of it is needed."""
    copy = tmp_path / "python"
    shutil.copy(Path(sys.executable).resolve(), copy)
    program = start("busy", python=str(copy), env={**os.environ, "PYTHONHOME": sys.base_prefix})
    copy.unlink()
    greet(attach(program.pid)).detach()
    assert program.finish() == "LEFT {}"


def test_forked_child_of_an_attached_process(start, greet):
    """The child has the parent's memory, with the region in it, but no agent: it gets one of its own."""
    program = start("forking")
    first = attach(program.pid)
    program.process.stdin.write("fork\n")
    program.process.stdin.flush()
    child = int(program.line())
    assert find_endpoint(child) is None
    second = attach(child)
    assert second.fresh and second.path != first.path
    greet(second).detach()
    greet(first).detach()
    assert program.finish() == "LEFT {}"


def test_program_that_may_not_make_memory_executable(start, greet):
    program = start("hardened", ready=False)
    said = program.line()
    if said != "READY":
        pytest.skip(said)
    greet(attach(program.pid)).detach()
    assert program.finish() == "LEFT {}"
