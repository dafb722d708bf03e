"""Whose sockets are trusted, and which are swept away."""

from __future__ import annotations

import importlib
import os
import socket
import sys
from pathlib import Path

import pytest

from tensortui.attach import attach, find_endpoint, no_socket_left, procfs, rendezvous


def bound(path, *, listen=True):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    if listen:
        server.listen(1)
    return server


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory as an agent makes it, in which the socket of this very process would be looked for."""
    made = tmp_path / "tensortui"
    made.mkdir(mode=0o700)
    monkeypatch.setattr(rendezvous, "socket_paths", lambda pid: [str(made / "agent.sock")])
    return made


def test_socket_in_a_directory_of_ours(folder):
    with bound(folder / "agent.sock"):
        assert find_endpoint(os.getpid()).path == str(folder / "agent.sock")
    assert find_endpoint(os.getpid()) is None


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o777])
def test_directory_that_others_can_use_is_not_trusted(folder, mode):
    with bound(folder / "agent.sock"):
        folder.chmod(mode)
        assert find_endpoint(os.getpid()) is None


def test_link_is_not_trusted(folder, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setattr(rendezvous, "socket_paths", lambda pid: [str(tmp_path / "link" / "agent.sock")])
    with bound(folder / "agent.sock"):
        assert find_endpoint(os.getpid()) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_directory_of_somebody_else_is_not_trusted(folder):
    with bound(folder / "agent.sock"):
        os.chown(folder, 54321, -1)
        assert find_endpoint(os.getpid()) is None


OLD = 1_000_000_000


def test_sweep_removes_what_killed_processes_left_and_nothing_else(folder):
    names = {"1-1.sock": False, "2-2.sock": True, "3-3.sock": False, "other": False}
    servers = [bound(folder / name, listen=listen) for name, listen in names.items()]
    (folder / "4-4.sock").write_text("no socket")
    for name in ("1-1.sock", "2-2.sock", "4-4.sock", "other"):
        os.utime(folder / name, (OLD, OLD))
    rendezvous.sweep(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["2-2.sock", "3-3.sock", "4-4.sock", "other"]
    for server in servers:
        server.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_sweep_leaves_directories_of_others_alone(folder):
    bound(folder / "1-1.sock", listen=False).close()
    os.utime(folder / "1-1.sock", (OLD, OLD))
    os.chown(folder, 54321, -1)
    rendezvous.sweep(folder)
    assert (folder / "1-1.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start as another user")
def test_on_other_platforms_the_directory_is_the_one_of_the_processs_user_too(start, monkeypatch, everyones_python):
    """Root enters the process of another user, whose agent has a directory of that user's."""
    importlib.import_module("psutil")  # before the platform is another one, for which it is not built
    program = start("sleeping", python=everyones_python, user=54321)
    monkeypatch.setattr(rendezvous.sys, "platform", "darwin")
    assert {Path(path).parent.name for path in rendezvous.socket_paths(program.pid)} == {"tensortui-54321"}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_whoever_sees_a_process_end_removes_its_socket(start, greet):
    """One that is killed cannot do it, and the way through its own root ends with it."""
    program = start("sleeping")
    endpoint = attach(program.pid)
    place = Path(endpoint.path.removeprefix(f"/proc/{program.pid}/root"))
    greet(endpoint)
    with no_socket_left(endpoint):
        pass
    assert place.exists(), "the process lives"
    beside = place.with_name("1-1.sock")
    with bound(beside, listen=False), no_socket_left(endpoint):
        program.process.kill()
        program.process.wait()
        assert place.exists()
    assert not place.exists()
    assert beside.exists()
    beside.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("name", ["{pid}-1.sock", "1-{start}.sock", "other"])
def test_a_socket_of_another_name_is_nobodys_to_remove(folder, monkeypatch, start, name):
    program = start("sleeping")
    name = name.format(pid=program.pid, start=procfs.start_time(program.pid))
    with bound(folder / name, listen=False):
        with no_socket_left(rendezvous.Endpoint(program.pid, str(folder / name), None, False, "connected", 0.0)):
            program.process.kill()
            program.process.wait()
        assert (folder / name).exists()


def test_attach_sweeps(start, greet):
    program = start("sleeping")
    dead = Path(rendezvous.socket_paths(program.pid)[0]).parent / "1-1.sock"
    dead.parent.mkdir(0o700, exist_ok=True)
    bound(dead, listen=False).close()
    os.utime(dead, (1, 1))
    endpoint = attach(program.pid)
    assert not dead.exists()
    greet(endpoint).detach()
    program.finish()
