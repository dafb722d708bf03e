"""sys.remote_exec, for where no thread can be borrowed: Python 3.14 and later only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensortui.attach import attach, attaching, errors, find_endpoint
from tensortui.attach.bootstrap import socket_directories

UID = 54327


@pytest.fixture
def python314(pythons, monkeypatch):
    """A CPython 3.14, on a machine where threads cannot be borrowed."""
    if "3.14" not in pythons:
        pytest.skip("no CPython 3.14 found (name one in TENSORTUI_TEST_PYTHONS)")
    monkeypatch.setattr(attaching.platform, "machine", lambda: "aarch64")
    return pythons["3.14"]


def left_over(root=""):
    return [path for each in socket_directories() for path in Path(root + each).glob("tensortui-start-*")]


@pytest.mark.parametrize("state", ["busy", "event_loop"])
def test_attaches(start, greet, python314, state, wait_for):
    program = start(state, python=python314)
    if state == "event_loop":
        # asleep for an hour: it says so, and what it runs when it wakes up does nothing
        with pytest.raises(errors.AttachTimeoutError, match="runs no Python code"):
            attach(program.pid, timeout=0.3)
        assert find_endpoint(program.pid) is None
        for path in left_over():
            path.joinpath("start.py").unlink()
            path.rmdir()
    else:
        endpoint = attach(program.pid)
        assert endpoint.how == "remote_exec" and endpoint.fresh and endpoint.token
        assert attach(program.pid).how == "connected"
        greet(endpoint).detach()
        assert not left_over()
        assert program.finish() == "LEFT {}"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_private_namespaces(start, greet, wait_for, python314):
    probe = ["unshare", "--pid", "--mount", "--fork", "--mount-proc"]
    if subprocess.run([*probe, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no new namespaces here")
    prefix = [*probe, "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    program = start("busy", python=python314, prefix=prefix)
    task = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    program.pid = int(wait_for(task.read_text).split()[0])
    endpoint = attach(program.pid)
    assert endpoint.how == "remote_exec"
    greet(endpoint).detach()
    assert program.finish() == "LEFT {}"


def test_older_python_says_start_with_the_agent(start, monkeypatch):
    if sys.version_info >= (3, 14):
        pytest.skip("this Python is not older")
    monkeypatch.setattr(attaching.platform, "machine", lambda: "aarch64")
    program = start("busy")
    with pytest.raises(errors.UnsupportedError, match="tensortui run"):
        attach(program.pid)
    assert program.finish() == "LEFT {}"
