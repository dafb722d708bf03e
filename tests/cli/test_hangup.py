"""A viewer whose terminal goes away, or that is told to end: it ends, and the terminal is as it was."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

WAIT_SECONDS = 30.0
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Viewer:
    """`tensortui attach` in a terminal of its own."""

    def __init__(self, pid: int, *, controlling: bool) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, "-m", "tensortui", "attach", str(pid)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command] if controlling else command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"},
            start_new_session=True,
        )
        os.close(slave)
        self.shown = b""

    def read_until(self, text: bytes) -> None:
        """Take what it draws until `text` is there, or its terminal is closed."""
        end = time.monotonic() + WAIT_SECONDS
        while text not in self.shown:
            assert time.monotonic() < end, self.shown[-2000:]
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 1 << 16)

    def hang_up(self) -> None:
        """Take its terminal away."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        if self.master >= 0:
            os.close(self.master)


@pytest.fixture(params=[True, False], ids=["controlling", "not controlling"])
def viewer(trainer: subprocess.Popen[str], request: pytest.FixtureRequest) -> Iterator[Viewer]:
    started = Viewer(trainer.pid, controlling=request.param)
    yield started
    started.close()
    assert trainer.poll() is None


def test_a_viewer_whose_terminal_goes_away_ends(viewer: Viewer) -> None:
    viewer.read_until(b"model.weight")
    viewer.hang_up()
    assert viewer.process.wait(WAIT_SECONDS) == 128 + signal.SIGHUP


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_viewer_that_is_told_to_end_puts_the_terminal_back(viewer: Viewer, number: signal.Signals) -> None:
    viewer.read_until(b"model.weight")
    viewer.process.send_signal(number)
    viewer.read_until(b"\x1b[?1049l")
    assert viewer.process.wait(WAIT_SECONDS) == 128 + number
    assert b"Traceback" not in viewer.shown
