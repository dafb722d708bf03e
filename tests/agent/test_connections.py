"""The viewers' side of the agent on its own: what it costs, and whose descriptors it touches."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensortui.agent.connections import MAX_QUEUED, READ_SIZE, Connection, Server
from tensortui.wire.frames import encode

HELLO = encode({"t": "hello", "protocols": [1, 1]})
WATCH = encode({"t": "watch", "ids": list(range(20))})


def turn(server: Server, timeout: float) -> None:
    """What the loop does of a turn."""
    server.plan(timeout)
    server.wait()


class Desk:
    """A server that notes what it is asked, and the viewers that come to it."""

    def __init__(self, path: Path, budget: float) -> None:
        self.asked: list[tuple[Connection, dict[str, Any]]] = []
        self.during: Callable[[Connection, dict[str, Any]], None] = lambda one, header: None
        self.server = Server([str(path / "agent" / "a.sock")], "", self._handle, budget)
        self.viewers: list[socket.socket] = []

    def _handle(self, one: Connection, header: dict[str, Any]) -> None:
        self.asked.append((one, header))
        self.during(one, header)

    def viewer(self) -> socket.socket:
        """A viewer that has been let in and has said hello."""
        sock = socket.socket(socket.AF_UNIX)
        self.viewers.append(sock)
        sock.connect(self.server.path)
        sock.sendall(HELLO)
        before = len(self.asked)
        self.until(lambda: len(self.asked) > before)
        return sock

    def until(self, true: Callable[[], bool]) -> None:
        while not true():
            turn(self.server, 0.01)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(budget: float = 1.0) -> Desk:
        desks.append(Desk(tmp_path, budget))
        return desks[-1]

    yield make
    for one in desks:
        one.server.close()
        for sock in one.viewers:
            sock.close()


def burn(one: Connection, header: dict[str, Any]) -> None:
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass


def test_who_costs_much_is_not_read_for_a_while_and_others_are(desk: Any) -> None:
    here = desk(budget=0.0001)
    dear, cheap = here.viewer(), here.viewer()
    here.during = burn
    dear.sendall(WATCH)
    here.until(lambda: len(here.asked) == 3)
    for _ in range(3):
        dear.sendall(WATCH)
        for _ in range(5):
            turn(here.server, 0)
    assert len(here.asked) == 3
    cheap.sendall(WATCH)
    here.until(lambda: len(here.asked) > 3)
    assert [one is here.asked[1][0] for one, _ in here.asked] == [False, True, False, True]


def test_no_more_than_a_bounded_number_of_bytes_is_taken_in_one_turn(desk: Any) -> None:
    here = desk()
    viewer = here.viewer()
    viewer.sendall(WATCH * (2 * READ_SIZE // len(WATCH)))
    here.until(lambda: len(here.asked) > 1)
    assert len(here.asked) - 1 <= READ_SIZE // len(WATCH)


def test_a_handler_that_fails_ends_the_connection_it_served_and_no_other(desk: Any) -> None:
    here = desk()
    first, second = here.viewer(), here.viewer()

    def fail(one: Connection, header: dict[str, Any]) -> None:
        raise {1: KeyError, 2: AttributeError, 3: RecursionError, 4: MemoryError}[len(header["ids"])]

    here.during = fail
    for count in range(1, 5):
        first.sendall(encode({"t": "watch", "ids": [0] * count}))
        here.until(lambda: not here.server.connections or here.server.connections[0] is here.asked[1][0])
        here.during = lambda one, header: None
        first = here.viewer()
        here.during = fail
    here.during = lambda one, header: None
    before = len(here.asked)
    second.sendall(WATCH)
    here.until(lambda: len(here.asked) > before)


@pytest.mark.parametrize("sort", ["not a number", "too much"])
def test_what_cannot_be_sent_to_one_viewer_raises_nowhere_and_ends_its_connection(desk: Any, sort: str) -> None:
    here = desk()
    here.viewer()
    here.viewer()
    one, other = here.server.connections
    one.send({"t": "sample", "request": float("nan")} if sort == "not a number" else {"t": "x" * (MAX_QUEUED + 1)})
    one.send({"t": "sample"})
    one.queue_frame({"t": "sample"})
    assert not one.idle
    assert not one.encode_some()
    here.until(lambda: here.server.connections == [other])


def test_a_target_out_of_descriptors_is_asked_for_one_seldom(desk: Any) -> None:
    here = desk()
    tries: list[float] = []
    accept = here.server._accept
    here.server._accept = lambda now: (tries.append(now), accept(now))[1]
    viewer = socket.socket(socket.AF_UNIX)
    here.viewers.append(viewer)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 8, limits[1]))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        viewer.connect(here.server.path)
        for _ in range(20):
            turn(here.server, 0)
        assert len(tries) == 1
        assert not here.server.connections
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)
    here.until(lambda: bool(here.server.connections))


def replace(fd: int) -> socket.socket:
    """Close `fd` behind its owner's back and put one end of a connection there, with something to be read."""
    near, far = socket.socketpair()
    far.sendall(b"the target's own")
    os.dup2(near.fileno(), fd)
    near.close()
    return far


def untouched(fd: int, far: socket.socket) -> bool:
    """Whether nobody has read, written to or closed what `replace` put at `fd`; ends it."""
    with far, socket.socket(fileno=os.dup(fd)) as near:
        os.close(fd)
        kept = near.recv(100) == b"the target's own"
        near.shutdown(socket.SHUT_WR)
        return kept and far.recv(100) == b""


def test_descriptors_that_have_become_the_targets_are_neither_read_nor_written_nor_closed(desk: Any) -> None:
    here = desk()
    here.viewer()
    server = here.server
    one = server.connections[0]
    ours = [server._sock.fd, server._wake_read.fd, server._wake_write.fd, one.sock.fileno()]
    ends = [replace(fd) for fd in ours]
    here.server.wake()
    for _ in range(3):
        turn(server, 0)
    one.send({"t": "sample"})
    turn(server, 0)
    server.close()
    assert all(map(untouched, ours, ends))


def test_a_wake_after_the_end_writes_to_nobody(desk: Any) -> None:
    server = desk().server
    number = server._wake_write.fd
    server.close()
    reading, writing = os.pipe()
    os.dup2(writing, number)
    server.wake()
    os.close(writing)
    os.close(number)
    assert os.read(reading, 10) == b""
    os.close(reading)
