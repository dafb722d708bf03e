"""A real program with the agent in it, and a plain client that speaks wire to it."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
import types
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensortui.agent import walk
from tensortui.wire.frames import Decoder, encode
from tensortui.wire.messages import COLUMNS, NONE

START = """
import _thread, sys
sys.path.insert(0, {root!r})
import tensortui.agent.main as agent_main
_thread.start_new_thread(
    agent_main.start,
    ({{"path": [{path!r}], "token": "secret", "budget": {budget}, "version": "t", "idle_exit": {idle}}},),
)
"""


class Client:
    """One connection; keeps the tables that it was told."""

    def __init__(self, path: str, **hello: Any) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.sock.connect(path)
                break
            except OSError:
                assert time.monotonic() < deadline, "the agent did not come up"
                time.sleep(0.02)
        self._decoder = Decoder()
        self._frames: list[tuple[dict[str, Any], bytes]] = []
        self.values: dict[tuple[str, str], list[Any]] = {}
        self.tables: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in COLUMNS}
        self.send({"t": "hello", "protocols": [1, 1], "viewer": "test", "token": None, **hello})

    def send(self, header: dict[str, Any]) -> None:
        self.sock.sendall(encode(header))

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """The next frame, None at the end."""
        while not self._frames:
            data = self.sock.recv(1 << 16)
            if not data:
                return None
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Apply what comes until a message of `kind` with `fields`."""
        while True:
            frame = self.receive()
            assert frame is not None, f"the agent ended before {kind}"
            header, payload = frame
            self._apply(header, payload)
            if header["t"] == kind and all(header.get(name) == value for name, value in fields.items()):
                return header

    def refresh(self, request: int = 1) -> dict[str, Any]:
        self.send({"t": "refresh", "request": request})
        return self.until("sample", request=request)

    def _apply(self, header: dict[str, Any], payload: bytes) -> None:
        numbers = array("q", payload)
        if header["t"] == "reset":
            self.values.clear()
            for table in self.tables.values():
                table.clear()
        elif header["t"] == "gone":
            for number in numbers:
                self.tables[header["table"]].pop(number, None)
        elif header["t"] == "rows":
            columns = COLUMNS[header["table"]]
            for column, more in header["values"].items():
                self.values.setdefault((header["table"], column), []).extend(more)
            for start in range(0, len(numbers), len(columns)):
                row = {}
                for (name, kind), cell in zip(columns, numbers[start : start + len(columns)], strict=True):
                    word = self.values.get((header["table"], name), []) if kind == "value" else []
                    row[name] = None if cell == NONE else word[cell] if kind == "value" else cell
                self.tables[header["table"]][row["id"]] = row

    def named(self, name: str) -> dict[str, Any]:
        """The row of the tensor that has `name`."""
        found = [row for row in self.tables["tensors"].values() if name in row["names"]]
        assert len(found) == 1, f"{len(found)} tensors are named {name}"
        return found[0]


@pytest.fixture
def program(
    start: Callable[..., subprocess.Popen[str]], root: Path, tmp_path: Path
) -> Callable[..., tuple[subprocess.Popen[str], str]]:
    """Start `code` with the agent in its process; returns the process, after its READY, and the socket's path."""

    def run(
        code: str, *, python: str = sys.executable, budget: float = 0.5, idle: float = 30.0, ready: bool = True
    ) -> tuple[subprocess.Popen[str], str]:
        path = str(tmp_path / "agent" / "a.sock")
        text = code.replace("START_AGENT", START.format(root=str(root), path=path, budget=budget, idle=idle))
        process = start(python, "-c", text, stdin=subprocess.PIPE)
        if ready:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("READY"), process.stderr.read() if process.stderr else line
        return process, path

    return run


@pytest.fixture
def connect() -> type[Client]:
    return Client


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class that runs discovery on this very process, without the agent's loop.

    This process holds whatever the tests of a whole run need: a pass must not be cut because of that.
    """
    for limit in ("MAX_SECONDS", "MAX_ENTRIES", "MAX_PASS"):
        monkeypatch.setattr(walk, limit, 10**8)
    spec = importlib.util.spec_from_file_location("in_process", Path(__file__).with_name("in_process.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Agent


@pytest.fixture
def module() -> Iterator[Any]:
    """A module of the program's own, into which a test puts what it likes."""
    module: Any = types.ModuleType("program")
    module.__file__ = "/somewhere/program.py"
    sys.modules["program"] = module
    yield module
    del sys.modules["program"]
