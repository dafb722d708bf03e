"""Real programs to attach to, under every CPython that is found here."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensortui.attach import Endpoint, attach, errors
from tensortui.wire.frames import Decoder, encode
from tensortui.wire.messages import PROTOCOLS

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 30.0
NOBODY = 65534

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="borrows threads, which is for Linux alone")


def wait_for(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Wait until `condition` holds; its value."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise AssertionError(f"{what} did not come within {PATIENCE:.0f} s")


def settled(pid: int) -> None:
    """Wait until the number of the process's threads stays as it is: an agent that was detached has ended."""
    counts: list[int] = []

    def same() -> bool:
        counts.append(len(os.listdir(f"/proc/{pid}/task")))
        return len(counts) > 20 and len(set(counts[-20:])) == 1

    wait_for(same, "the end of the agent's thread")


@pytest.fixture(name="wait_for")
def wait_for_fixture() -> Callable[..., Any]:
    """wait_for(condition): its value, once it holds."""
    return wait_for


@pytest.fixture
def fails() -> Callable[..., errors.AttachError]:
    """fails(error, pid, **options): attaching raises exactly that error, with what it has to say; the error."""

    def check(error: type[errors.AttachError], pid: int, **options: Any) -> errors.AttachError:
        with pytest.raises(error) as caught:
            attach(pid, **options)
        assert type(caught.value) is error
        assert caught.value.kind == error.kind and caught.value.cause.endswith(".") and caught.value.next_step
        return caught.value

    return check


@pytest.fixture
def child_of() -> Callable[[int], int | None]:
    """child_of(pid): the first child of the process."""

    def find(pid: int) -> int | None:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return int(text.split()[0]) if text else None

    return find


@pytest.fixture
def as_user() -> Callable[..., str]:
    """as_user(uid, function): what `function` returns, as text, in a child that has become that user."""

    def run(uid: int, function: Callable[[], object]) -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgid(uid)
                os.setuid(uid)
                os.write(writing, str(function()).encode())
            except BaseException as error:
                os.write(writing, f"{getattr(error, 'kind', type(error))}: {error}".encode())
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        with open(reading) as file:
            return file.read()

    return run


@pytest.fixture
def everyones_python(pythons: dict[str, str]) -> str:
    """A CPython that every user can run: those in root's home are root's alone."""
    for command in ("/usr/bin/python3", *pythons.values()):
        probe = [*command.split(), "-c", "import sys; sys.exit(sys.version_info < (3, 9))"]
        try:
            if subprocess.run(probe, user=NOBODY, capture_output=True, check=False).returncode == 0:
                return command
        except OSError:
            pass
    pytest.skip("no CPython that another user can run")


def _links(folder: Path) -> Iterator[str]:
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            yield os.readlink(path)


class Program:
    """A running program, and what it says."""

    def __init__(self, process: subprocess.Popen[str], pid: int | None = None) -> None:
        self.process = process
        self.pid = pid or process.pid

    def line(self) -> str:
        """Its next line of output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, line: str = "") -> str:
        """What it answers to a line of input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.line()

    def resident(self) -> int:
        """Its resident memory in KiB."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def files(self) -> list[str]:
        """The files that it has open."""
        return sorted(_links(Path(f"/proc/{self.pid}/fd")))

    def threads(self) -> int:
        """How many threads it has, now that an agent that was detached has ended."""
        settled(self.pid)
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def mappings(self) -> list[str]:
        """The kind of each of its mappings of memory without a name."""
        lines = [line.split() for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines()]
        return [line[1] for line in lines if line[4] == "0" and len(line) == 5]

    def regions(self) -> int:
        """How many pages of code of ours it has."""
        return self.mappings().count("r-xp")

    def finish(self) -> str:
        """Ask it to end; everything it still says. It must end well, and without a word on stderr."""
        settled(self.pid)
        stdin, self.process.stdin = self.process.stdin, None  # open to the end: a thread that reads it must not end
        os.kill(self.pid, 15)
        out, err = self.process.communicate(timeout=PATIENCE)
        if stdin is not None:
            stdin.close()
        assert (self.process.returncode, err) == (0, "")
        return out.strip()


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """The programs where every user can read them, and where a private /tmp does not hide them."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        yield shutil.copytree(PROGRAMS, Path(folder, "programs"))


@pytest.fixture
def start(programs: Path) -> Iterator[Callable[..., Program]]:
    """start(name, *arguments, python, prefix, ready, **popen): run a program of programs/ until it is READY."""
    with contextlib.ExitStack() as stack:

        def run(name: str, *arguments: str, python: str = sys.executable, prefix: Any = (), **options: Any) -> Program:
            ready = options.pop("ready", True)
            command = [*prefix, *python.split(), "-W", "ignore", str(programs / f"{name}.py"), *arguments]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                **options,
            )
            stack.callback(_end, process)
            program = Program(process)
            if ready:
                said = program.line()
                assert said == "READY", said + process.communicate(timeout=5)[1]
            return program

        yield run


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, 9)
    process.communicate()


class Client:
    """A viewer, as small as can be."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._path = endpoint.path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(endpoint.path)
        self._decoder = Decoder()
        self._frames: list[dict[str, Any]] = []
        self.send({"t": "hello", "protocols": list(PROTOCOLS), "viewer": "test", "token": endpoint.token or ""})

    def send(self, header: dict[str, Any]) -> None:
        """One message."""
        self._socket.sendall(encode(header))

    def next(self) -> dict[str, Any]:
        """The next message."""
        while not self._frames:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._frames += [header for header, _ in self._decoder.feed(data)]
        return self._frames.pop(0)

    def detach(self) -> None:
        """End the agent, and wait until its socket is no more."""
        self.send({"t": "detach"})
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.next()
        self._socket.close()
        wait_for(lambda: not os.path.exists(self._path), "the end of the agent's socket")


@pytest.fixture
def greet() -> Callable[[Endpoint], Client]:
    """Say hello to the agent; the client, once the agent has welcomed it."""

    def run(endpoint: Endpoint) -> Client:
        client = Client(endpoint)
        assert client.next()["t"] == "welcome"
        return client

    return run
