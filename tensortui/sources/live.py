"""Samples from the agent in a live process, over its unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tensortui.errors import TensortuiError
from tensortui.model import Change, Ended, Graph, Holders, Process, Sample
from tensortui.sources import endings, messages
from tensortui.sources.holders import decode
from tensortui.sources.tables import Tables, clean_text
from tensortui.version import VERSION
from tensortui.wire.frames import Decoder, Header, WireError, encode
from tensortui.wire.messages import PROTOCOLS, ROOTS_LIMIT, WATCH_LIMIT

READ_SIZE = 256 << 10
MAX_PATH = 107  # what sockaddr_un holds
GRAPH_LIMIT = 10_000  # nodes: a longer walk is not safe in the target
DETACH_SECONDS = 5.0
_LAST_WORDS = 1.0  # seconds an ended process has to become readable as such
OTHERS = "List the processes that can be attached to: `tensortui ps`."


class ConnectionFailedError(TensortuiError):
    """The agent cannot be reached, or does not speak our protocol."""

    kind = "connection"


class EndpointLike(Protocol):
    """What a connection needs to know; `attach` returns it."""

    @property
    def pid(self) -> int:
        """The process as this side numbers it."""
        ...

    @property
    def path(self) -> str:
        """The agent's socket."""
        ...

    @property
    def token(self) -> str | None:
        """What opens it for another user."""
        ...


class LiveSource:
    """One viewer's connection to an agent. See `protocol.Source`; make one with `connect`.

    Samples are taken from the socket as they come, whether or not anyone reads `updates`: only the newest is kept, with
    the changes of those it replaced.
    """

    def __init__(self, endpoint: EndpointLike, sock: socket.socket) -> None:
        """Take over a connected socket; `connect` is the way in."""
        self.endpoint = endpoint
        self.pid = endpoint.pid
        self.title = f"pid {endpoint.pid}"
        self.missing: dict[str, str] = {}
        self.welcome: Header = {}
        self.latest: Sample | None = None
        self.ended: Ended | None = None
        self._sock = sock
        self._decoder = Decoder()
        self._tables = Tables()
        self._process = Process(endpoint.pid)
        self._watch = endings.Watch(endpoint.pid)
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._graphs: dict[str, messages.GraphParts] = {}
        self._progress: dict[str, Callable[[str], None]] = {}
        self._giving_up: set[asyncio.Task[None]] = set()
        self._change: Change | None = None
        self._news = asyncio.Event()
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._bye: Ended | None = None
        self._exit: Ended | None = None  # the bye of a process that is exiting: not its end yet

    @classmethod
    async def connect(cls, endpoint: EndpointLike, *, interval: float | None = 1.0, timeout: float = 5.0) -> LiveSource:
        """Connect to the agent, agree on a protocol, and subscribe at `interval` seconds (None: paused)."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await asyncio.wait_for(_connect(sock, endpoint.path), timeout)
        except (OSError, TimeoutError, asyncio.TimeoutError) as error:
            sock.close()
            if not endings.exists(endpoint.pid):
                raise ConnectionFailedError(f"Process {endpoint.pid} has ended.", OTHERS, kind="ended") from None
            raise ConnectionFailedError(
                f"The agent in process {endpoint.pid} does not answer: {error or 'timed out'}.", "Attach again."
            ) from None
        self = cls(endpoint, sock)
        self._watch.start(self._process_ended)
        self._reader = asyncio.create_task(self._read(), name=f"live source of {endpoint.pid}")
        try:
            await self._send({"t": "hello", "protocols": list(PROTOCOLS), "viewer": VERSION, "token": endpoint.token})
            await asyncio.wait_for(asyncio.shield(self._greeted), timeout)
            await self.set_interval(interval)
        except (TimeoutError, asyncio.TimeoutError):
            await self.close()
            raise ConnectionFailedError(
                f"The agent in process {endpoint.pid} did not answer within {timeout:g} s.",
                f"The process is {why}."
                if (why := endings.held(endpoint.pid))
                else "The process may hold the interpreter lock in a long call, or be very busy; try again later.",
            ) from None
        except BaseException:
            await self.close()
            raise
        return self

    async def updates(self) -> AsyncIterator[Sample | Ended]:
        """Yield each sample as it comes, last an `Ended`; unread ones are replaced, their changes merged.

        Of a process that is exiting that is told first, and how it ended once it has.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            sample, change = self.latest, self._change
            if sample is not None and change is not None:
                self._change = None
                yield sample if change is sample.change else replace(sample, change=change)
            if (ended := self.ended) is not None and self._change is None:
                yield ended
                if ended is not self._exit:
                    return

    async def set_interval(self, seconds: float | None) -> None:
        """Ask for a sample every `seconds`; None pauses."""
        await self._send({"t": "subscribe", "interval": seconds})

    async def watch(self, tensor_ids: Iterable[int]) -> None:
        """Have these tensors read first in each sample; beyond the limit of the protocol the rest is left out."""
        await self._send({"t": "watch", "ids": list(itertools.islice(tensor_ids, WATCH_LIMIT))})

    async def refresh(self) -> Sample:
        """Read every tensor anew and return the sample that says so."""
        sample = await self._ask({"t": "refresh"})
        assert isinstance(sample, Sample)
        return sample

    async def graph(self, roots: Iterable[int] | None = None) -> Graph:
        """The autograd graph behind `roots` (None: behind every tensor that has a grad_fn).

        Beyond the limit of the protocol the rest of them is left out, and the graph says so.
        """
        wanted = None if roots is None else list(roots)
        asked = wanted if wanted is None else wanted[:ROOTS_LIMIT]
        graph = await self._ask({"t": "graph", "roots": asked, "limit": GRAPH_LIMIT})
        assert isinstance(graph, Graph)
        if wanted is not None and len(wanted) > ROOTS_LIMIT:
            reason = f"The graph was read behind {ROOTS_LIMIT:,} of {len(wanted):,} tensors."
            graph = replace(graph, cut=True, reasons=(*graph.reasons, reason))
        return graph

    async def holders(
        self, tensor_id: int, *, limit: int = 8, progress: Callable[[str], None] | None = None
    ) -> Holders:
        """What keeps a tensor alive, `limit` chains at most. Whoever cancels it ends the search in the target."""
        request = self._name()
        if progress is not None:
            self._progress[request] = progress
        try:
            found = await self._ask({"t": "holders", "tensor": tensor_id, "limit": limit}, request)
        except asyncio.CancelledError:
            task = asyncio.create_task(self._give_up(request))
            self._giving_up.add(task)
            task.add_done_callback(self._giving_up.discard)
            raise
        finally:
            self._progress.pop(request, None)
        assert isinstance(found, Holders)
        return found

    def held(self) -> str:
        """What holds the process up, as the kernel says it: a stop signal, a debugger, a device."""
        return endings.held(self.pid) if self.ended is None else ""

    async def close(self) -> None:
        """Leave; the target goes on."""
        self._end(Ended("closed", time.time()))
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._writer is not None:
            await asyncio.wait([self._writer])
        if self._giving_up:
            await asyncio.wait(self._giving_up)
        self._watch.close()
        self._sock.close()

    async def detach(self, *, if_alone: bool = False) -> bool:
        """End the agent, wait until it has said so, then close. With `if_alone` it stays for another viewer.

        Returns whether the agent has left, or was gone already.
        """
        if self.ended is None:
            # answered by its end, or by a refusal where it stays
            with contextlib.suppress(TensortuiError, asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._ask({"t": "detach", "if_alone": if_alone}), DETACH_SECONDS)
        left = self._bye is not None or self.ended is not None
        await self.close()
        return left

    # What goes out

    def _name(self) -> str:
        return f"{os.getpid():x}-{next(self._numbers)}"

    async def _give_up(self, request: str) -> None:
        with contextlib.suppress(TensortuiError):  # with the connection the search has ended
            await self._send({"t": "cancel", "request": request})

    async def _ask(self, header: Header, request: str = "") -> Any:
        request = request or self._name()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request] = future
        try:
            await self._send({**header, "request": request})
            return await future
        finally:
            self._waiting.pop(request, None)
            self._graphs.pop(request, None)

    async def _send(self, header: Header) -> None:
        frame = encode(header)
        await self._sending.acquire()
        if self.ended is not None:
            self._sending.release()
            raise self._over()
        # A frame that has begun is sent to its end, also where whoever asked for it is cancelled meanwhile: half of
        # one would spoil all that follow. Those that wait for their turn have sent nothing and just go.
        self._writer = writer = asyncio.create_task(asyncio.get_running_loop().sock_sendall(self._sock, frame))
        writer.add_done_callback(self._sent)
        try:
            await asyncio.shield(writer)
        except OSError:
            raise self._over() from None
        except asyncio.CancelledError:
            if writer.cancelled():  # the connection ended
                raise self._over() from None
            raise

    def _sent(self, writer: asyncio.Task[None]) -> None:
        self._writer = None
        self._sending.release()
        if not writer.cancelled():
            writer.exception()  # whoever waits gets it; nobody may be waiting

    def _over(self) -> TensortuiError:
        reason = self.ended.reason if self.ended is not None else "the agent closed the connection"
        return ConnectionFailedError(
            f"Process {self.pid} gives no more samples: {reason}.",
            "Attach again." if endings.exists(self.pid) else OTHERS,
            kind="ended",
        )

    # What comes in

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(0)  # a read that finds data gives nobody else a turn
                data = await loop.sock_recv(self._sock, READ_SIZE)
                if not data:
                    break
                for header, payload in self._decoder.feed(data):
                    self._handle(header, payload)
        except WireError as error:
            self._end(Ended(f"the agent sent something that is not our protocol ({error})", time.time(), False))
            return
        except OSError:
            pass
        except Exception as error:  # a bug of ours must not leave the screen waiting for ever
            self._end(Ended(f"internal error: {error!r}", time.time(), False))
            return
        for _ in range(20):  # the socket goes before the process is seen to be gone
            if self._bye is not None and self._exit is None:
                break
            if not self._watch.alive():
                self._finish()
                return
            await asyncio.sleep(_LAST_WORDS / 20)
        why = "the process runs another program now" if self._watch.replaced() else "the process goes on"
        self._end(self._bye or Ended(f"the agent closed the connection; {why}", time.time(), False))

    def _handle(self, header: Header, payload: bytes) -> None:
        kind = header["t"]
        if kind == "rows":
            self._tables.rows(header, payload)
        elif kind == "gone":
            self._tables.gone(header, payload)
        elif kind == "reset":
            self._tables.reset()
        elif kind == "sample":
            self._sample(header)
        elif kind == "graph":
            self._graph(header)
        elif kind == "holders":
            self._answer(header.get("request"), decode(header))
        elif kind == "progress":
            self._tell(header)
        elif kind == "failed":
            self._answer(header.get("request"), messages.failure(header))
        elif kind == "welcome":
            self._welcome(header)
        elif kind == "error":
            error = messages.failure(header)
            self._end(Ended(error.cause.rstrip("."), time.time(), False), error)
        elif kind == "bye":
            self._bye = messages.farewell(header)
            self._exit = self._bye if header.get("reason") == "exit" else None

    def _welcome(self, header: Header) -> None:
        protocol = header.get("protocol")
        if not isinstance(protocol, int) or not PROTOCOLS[0] <= protocol <= PROTOCOLS[1]:
            raise WireError(f"the agent chose protocol {protocol!r}")
        self.welcome = header
        self._learn_process(header.get("process"))
        if not self._greeted.done():
            self._greeted.set_result(None)

    def _learn_process(self, value: Any) -> None:
        if isinstance(value, dict):
            self._process = messages.process(value, self.pid)
            self.title = messages.title(self._process)

    def _sample(self, header: Header) -> None:
        self._learn_process(header.get("process"))
        sample = messages.sample(header, self._process, self._tables.take())
        change = sample.change
        self._change = change if self._change is None else self._change.then(change)
        self.latest = sample
        self._news.set()
        requests = header.get("request")
        for request in requests if isinstance(requests, list) else [requests]:
            self._answer(request, sample)

    def _graph(self, header: Header) -> None:
        request = header.get("request")
        if not isinstance(request, str) or request not in self._waiting:
            return
        parts = self._graphs.setdefault(request, messages.GraphParts())
        parts.add(header)
        if not header.get("more"):
            self._answer(request, parts.graph())

    def _tell(self, header: Header) -> None:
        request, text = header.get("request"), clean_text(header.get("text"))
        progress = self._progress.get(request) if isinstance(request, str) else None
        if progress is not None and text:
            progress(text)

    def _answer(self, request: Any, value: Any) -> None:
        future = self._waiting.get(request) if isinstance(request, str) else None
        if future is not None and not future.done():
            if isinstance(value, TensortuiError):
                future.set_exception(value)
            else:
                future.set_result(value)

    # How it ends

    def _process_ended(self) -> None:
        # What it sent last is still to be read; a forked child may keep the socket open, so there is a limit.
        asyncio.get_running_loop().call_later(_LAST_WORDS, self._finish)

    def _finish(self) -> None:
        status, exiting = self._watch.status(), self._exit is not None
        reason = endings.describe(status, exiting=exiting)
        self._end(Ended(reason, time.time(), status == 0 or (status is None and exiting)))

    def _end(self, ended: Ended, error: TensortuiError | None = None) -> None:
        if self.ended is not None and self.ended is not self._exit:
            return
        self.ended = ended
        if self._writer is not None:
            self._writer.cancel()  # nobody may be reading any more
        error = error or self._over()
        for future in (self._greeted, *self._waiting.values()):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits gets it; nobody may be waiting
        self._news.set()


async def _connect(sock: socket.socket, path: str) -> None:
    loop = asyncio.get_running_loop()
    if len(os.fsencode(path)) <= MAX_PATH:
        await loop.sock_connect(sock, path)
        return
    # A path that does not fit the address is reached through a descriptor of its directory.
    where = Path(path)
    folder = os.open(where.parent, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        await loop.sock_connect(sock, f"/proc/self/fd/{folder}/{where.name}")
    finally:
        os.close(folder)
