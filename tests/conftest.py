"""What every test may use: the checkout, and programs that are started and surely ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Have what tests start heed SIGINT: under nohup, or in the background of a shell, it is ignored and inherited."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start processes that are ended and reaped with the test, whatever happens."""
    started: list[subprocess.Popen[str]] = []

    def start_process(*command: str, **options: object) -> subprocess.Popen[str]:
        defaults: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process: subprocess.Popen[str] = subprocess.Popen(list(command), **{**defaults, **options})  # type: ignore[call-overload]
        started.append(process)
        return process

    yield start_process
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def start_ready(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.Popen[str]]:
    """Start a Python program and return when it has printed READY."""

    def start_program(*arguments: str, **options: object) -> subprocess.Popen[str]:
        process = start(sys.executable, *arguments, stderr=subprocess.DEVNULL, **options)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("READY"), f"the program said {line!r} in place of READY"
        return process

    return start_program
