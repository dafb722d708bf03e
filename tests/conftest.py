"""What every test may use: the checkout, the CPythons found, and programs that are started and surely ended."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


def _version_of(command: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2], sys.implementation.name)"
    try:
        run = subprocess.run([*command.split(), "-c", code], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    version, name = run.stdout.split()
    return version if name == "cpython" else ""


@functools.cache
def find_pythons() -> dict[str, str]:
    """A command line for each version found: TENSORTUI_TEST_PYTHONS (colon-separated), this one, pyenv's, PATH's."""
    found: dict[str, str] = {}
    named = [command for command in os.environ.get("TENSORTUI_TEST_PYTHONS", "").split(":") if command]
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    guesses = [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    on_path = [path for version in VERSIONS if (path := shutil.which(f"python{version}"))]
    for command in (*named, sys.executable, *guesses, *on_path):
        known = re.search(r"/(3\.\d+)\.\d+/bin/python$", command)
        version = known[1] if known and command not in named else _version_of(command)
        if version in VERSIONS and version not in found and (not known or _version_of(command) == version):
            found[version] = command
    return found


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Have what tests start heed SIGINT: under nohup, or in the background of a shell, it is ignored and inherited."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture
def pythons() -> dict[str, str]:
    """The command line of each CPython found, by version."""
    return find_pythons()


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    """Each CPython in turn."""
    if request.param not in find_pythons():
        pytest.skip(f"no CPython {request.param} found (name one in TENSORTUI_TEST_PYTHONS)")
    return find_pythons()[request.param]


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
