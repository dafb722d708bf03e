"""An agent's side of a socket, as scripted by a test: real sockets, real frames."""

import asyncio
import contextlib
import os
from array import array
from dataclasses import dataclass

import pytest

from tensortui.wire.frames import Decoder, encode

WELCOME = {
    "t": "welcome",
    "protocol": 1,
    "version": "0.1.0",
    "pid": 7,
    "process": {"pid": 7, "command": ["python", "train.py"], "python": "3.12.1", "torch": "2.13.0", "rank": 0},
    "budget": 0.01,
}


@dataclass(frozen=True)
class Endpoint:
    pid: int
    path: str
    token: str | None = "secret"


class Peer:
    """One connection as the agent sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._decoder = Decoder()
        self._headers: list[dict] = []

    async def send(self, header: dict, payload: bytes = b"") -> None:
        await self.send_bytes(encode(header, payload))

    async def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> dict:
        while not self._headers:
            data = await self.reader.read(65536)
            if not data:
                return {"t": "EOF"}
            self._headers += [header for header, _ in self._decoder.feed(data)]
        return self._headers.pop(0)

    async def expect(self, kind: str) -> dict:
        header = await self.receive()
        assert header["t"] == kind, header
        return header

    async def welcome(self) -> None:
        await self.expect("hello")
        await self.send(WELCOME)
        await self.expect("subscribe")

    async def storages(self, *sizes: tuple[int, int]) -> None:
        """Send (id, bytes) as storages."""
        cells = [cell for number, size in sizes for cell in (number, 0, number << 12, size, 0)]
        header = {"t": "rows", "table": "storages", "n": len(sizes), "values": {"device": ["cpu"]}}
        await self.send(header, array("q", cells).tobytes())

    async def gone(self, *ids: int) -> None:
        await self.send({"t": "gone", "table": "storages", "n": len(ids)}, array("q", ids).tobytes())

    async def sample(self, **more: object) -> None:
        await self.send({"t": "sample", "seq": 1, "taken_at": 1000.0, "phase": "live", **more})

    async def hang_up(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.fixture
async def agent(tmp_path):
    """Start a server whose connections run the given coroutine; returns the endpoint. A failure in it is a failure."""
    servers = []
    tasks: list[asyncio.Task] = []

    async def start(script, *, pid=None, path=None):
        where = str(path or tmp_path / "agent.sock")

        async def connected(reader, writer):
            tasks.append(asyncio.current_task())
            try:
                await script(Peer(reader, writer))
                await reader.read()
            finally:
                writer.close()

        folder, name = os.path.split(where)
        here = os.getcwd()
        os.chdir(folder)  # the path may be longer than an address
        try:
            servers.append(await asyncio.start_unix_server(connected, name))
        finally:
            os.chdir(here)
        return Endpoint(pid or os.getpid(), where)

    yield start
    for server in servers:
        server.close()
    for task in tasks:
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(task, 5)
