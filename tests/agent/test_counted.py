"""What is made outside of a piece: hardly anything that the collector counts, for it could run on that thread."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensortui.agent.connections import MAX_CONNECTIONS, Server
from tensortui.agent.descriptors import Held
from tensortui.agent.guard import APART
from tensortui.agent.maps import read_mappings


@contextlib.contextmanager
def collections() -> Iterator[list[int]]:
    """The collections of what runs within, where nearly all that is counted has the collector run."""
    thresholds, enabled, runs = gc.get_threshold(), gc.isenabled(), []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            runs.append(1)

    gc.collect()
    gc.callbacks.append(count)
    gc.set_threshold(1, 1000, 1000)
    gc.enable()
    try:
        yield runs
    finally:
        (gc.enable if enabled else gc.disable)()
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(count)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server([str(tmp_path / "agent" / "a.sock")], "", lambda one, header: None, 1.0)
    yield server
    server.close()


def test_letting_a_viewer_in_makes_hardly_anything_outside_of_a_piece(server: Server) -> None:
    viewers = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    with collections() as runs:
        gc.disable()
        for number, viewer in enumerate(viewers):
            viewer.connect(server.path)
            while len(server.connections) == number:
                server.plan(0.01)
                gc.enable()
                server.wait()
                gc.disable()
    assert len(runs) <= 2 + len(viewers)  # the partner's start, and the pair that a descriptor comes in
    for viewer in viewers:
        viewer.close()


def test_a_viewer_is_let_in_whatever_timeout_the_target_has_for_its_sockets(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = socket.socket(socket.AF_UNIX)
    viewer.connect(server.path)
    socket.setdefaulttimeout(7.0)
    try:
        while not server.connections:
            server.plan(0.01)
            server.wait()
    finally:
        socket.setdefaulttimeout(None)
    sock = server.connections[0].sock
    assert (sock.gettimeout(), os.get_blocking(sock.fileno()), sock.type) == (0.0, False, socket.SOCK_STREAM)
    viewer.close()


def test_who_comes_when_there_are_too_many_is_sent_away(server: Server) -> None:
    viewers = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS + 1)]
    for viewer in viewers:
        viewer.connect(server.path)
        viewer.settimeout(0.0)
        server._deaf_until = 0.0
        server.plan(1.0)
        server.wait()
    assert len(server.connections) == MAX_CONNECTIONS
    assert viewers[-1].recv(1) == b""
    for viewer in viewers:
        viewer.close()


def test_a_viewer_that_cannot_be_taken_in_is_sent_away(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    viewer = socket.socket(socket.AF_UNIX)
    viewer.connect(server.path)
    monkeypatch.setattr("tensortui.agent.connections.peer_allowed", fail)
    server.plan(1.0)
    server.wait()
    assert not server.connections
    viewer.settimeout(10.0)
    assert viewer.recv(1) == b""
    viewer.close()


def test_the_memory_map_is_read_without_a_collection() -> None:
    found: list[int] = []
    with collections() as runs:
        gc.disable()
        work = read_mappings(lambda *mapping: found.append(1))
        said = next(work, work)
        while said is not work:
            if said is APART:
                gc.enable()
            said = next(work, work)
            gc.disable()
    assert len(found) > 10
    assert not runs


def test_a_descriptor_is_told_from_another_under_its_number(tmp_path: Path) -> None:
    held = Held()
    assert not held.ours
    held.close()
    held.take(os.open(tmp_path, os.O_RDONLY))
    number = held.fd
    assert held.ours
    other = os.open("/", os.O_RDONLY)
    os.dup2(other, number)
    assert not held.ours
    held.close()
    assert os.fstat(number).st_ino == os.fstat(other).st_ino
    os.close(number)
    os.close(other)
