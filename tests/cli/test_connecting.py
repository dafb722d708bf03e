"""Connecting to an agent that is just about to leave."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tensortui.attach import Endpoint, attach, attaching, find_endpoint
from tensortui.attach.inject import Injection
from tensortui.attach.waiting import poll
from tensortui.cli.connecting import attached, connect
from tensortui.sources.live import ConnectionFailedError


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[str]:
    """The socket of an agent that is ending: it takes a connection, and closes it without a word."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen(8)

        def serve() -> None:
            try:
                while True:
                    server.accept()[0].close()
            except OSError:
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(tmp_path / "socket")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def test_an_agent_that_leaves_is_replaced(trainer: subprocess.Popen[str], leaving: str) -> None:
    there = replace(attach(trainer.pid), path=leaving, fresh=False)
    source, endpoint = await connect(there, interval=None)
    assert endpoint.path != leaving
    assert (await source.refresh()).tensors
    await source.detach()


@pytest.mark.skipif(sys.platform != "linux", reason="borrows threads, which is for Linux alone")
def test_who_interrupts_attaching_when_it_is_too_late_to_cancel_leaves_no_agent(
    trainer: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = attaching._await_agent

    def interrupted(pid: int, injection: Injection, timeout: float) -> Endpoint:
        endpoint = real(pid, injection, timeout)
        os.kill(os.getpid(), signal.SIGINT)
        assert injection._stop.wait(30)
        return endpoint

    monkeypatch.setattr(attaching, "_await_agent", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attached(trainer.pid)
    assert poll(lambda: find_endpoint(trainer.pid) is None, 30)
    assert trainer.poll() is None


async def test_an_agent_that_we_brought_is_not_brought_again(trainer: subprocess.Popen[str], leaving: str) -> None:
    brought = attach(trainer.pid)
    assert brought.fresh
    with pytest.raises(ConnectionFailedError):
        await connect(replace(brought, path=leaving), interval=None)
    source, _ = await connect(brought, interval=None)
    await source.detach()
