"""The viewers' side of the agent: a listening socket, several connections, none of which can block or bloat it."""

import collections
import os
import select
import socket
import stat
import struct
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from tensortui.agent.rows import Batch, Reader
from tensortui.wire.frames import Decoder, WireError, encode
from tensortui.wire.messages import PROTOCOLS, common_protocol

MAX_CONNECTIONS = 16
MAX_REQUEST = 64 << 10  # a viewer's header
LOW_WATER = 256 << 10  # the next frame of a batch is encoded when less than this is waiting
MAX_QUEUED = 4 << 20  # answers waiting beside batches; a viewer that lets more pile up is cut off
HELLO_WITHIN = 5.0
STALLED_AFTER = 30.0
MIN_INTERVAL = 0.1


class Connection:
    """One viewer: what it asked for, what it was told, and the bytes on their way to it."""

    def __init__(self, sock: socket.socket, allowed: bool, now: float) -> None:
        """Take over an accepted, nonblocking socket; `allowed` by its credentials, else it must bring the token."""
        self.sock = sock
        self.allowed = allowed
        self.greeted = False
        self.closing = False
        self.interval: Optional[float] = None
        self.due = float("inf")
        self.watch: List[int] = []
        self.requests: List[Any] = []  # refreshes to be answered by the next full reading
        self.graphs: List[Dict[str, Any]] = []  # graph requests that wait for their turn
        self.readers: Tuple[Reader, ...] = ()
        self.process_told = False
        self._batches: Deque[Any] = collections.deque()  # Batch objects and the ready frame that closes them
        self._decoder = Decoder(MAX_REQUEST, 0)
        self._out = bytearray()
        self._moved = now
        self._since = now

    def receive(self) -> List[Dict[str, Any]]:
        """Return the requests that came; raises WireError or OSError where the connection is of no more use."""
        data = self.sock.recv(MAX_REQUEST)
        if not data:
            raise ConnectionResetError
        return [header for header, _ in self._decoder.feed(data)]

    def send(self, header: Dict[str, Any], payload: bytes = b"") -> None:
        """Queue one frame, behind the batches that are under way where there are any."""
        frame = encode(header, payload)
        if self._batches:
            self._batches.append(frame)
        else:
            self._out += frame
        if len(self._out) > MAX_QUEUED or len(self._batches) > 4096:
            raise WireError("the viewer does not read")

    def queue_batch(self, batches: List[Batch], closing: Dict[str, Any]) -> None:
        """Queue batches of rows, then the message that closes them."""
        self._batches.extend(batches)
        self._batches.append(encode(closing))

    def queue_frame(self, header: Dict[str, Any]) -> None:
        """Queue one frame of a long answer, sent as the peer takes it."""
        self._batches.append(encode(header))

    @property
    def idle(self) -> bool:
        """Whether everything that was to be sent has been taken."""
        return not self._out and not self._batches

    def encode_some(self) -> bool:
        """Encode one more frame if the connection can take it; False where there is nothing to do."""
        if not self._batches or len(self._out) > LOW_WATER:
            return False
        head = self._batches[0]
        frame = head if isinstance(head, bytes) else head.next_frame()
        if frame:
            self._out += frame
        if not frame or head is frame:
            self._batches.popleft()
        return True

    def wants_encoding(self) -> bool:
        """Whether `encode_some` has work now."""
        return bool(self._batches) and len(self._out) <= LOW_WATER

    def flush(self, now: float) -> None:
        """Send what the peer takes now. Raises OSError where it is gone."""
        while self._out:
            try:
                sent = self.sock.send(memoryview(self._out)[: 256 << 10])
            except (BlockingIOError, InterruptedError):
                return
            del self._out[:sent]
            self._moved = now
        self._moved = now

    def overdue(self, now: float) -> bool:
        """Whether the peer has not said hello, or not read, for too long."""
        return (not self.greeted and now - self._since > HELLO_WITHIN) or now - self._moved > STALLED_AFTER


class Server:
    """Accepts viewers, reads their requests, writes their answers; nothing here ever blocks."""

    def __init__(self, candidates: List[str], token: str, handle: Callable[[Connection, Dict[str, Any]], None]) -> None:
        """Listen on the first of `candidates` that can be had; raises OSError when none can."""
        self.connections: List[Connection] = []
        self.path = ""
        self._token = token
        self._handle = handle
        self._sock = self._listen(candidates)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def _listen(self, candidates: List[str]) -> socket.socket:
        error: OSError = OSError("no directory for the socket")
        for path in candidates:
            try:
                directory = os.path.dirname(path)
                try:
                    os.mkdir(directory, 0o700)
                except FileExistsError:
                    pass
                found = os.lstat(directory)
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                    raise PermissionError("%s is not a directory of ours alone" % directory)
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                try:
                    sock.setblocking(False)
                    try:
                        os.unlink(path)  # the name holds our pid and start time: what lies there is dead
                    except FileNotFoundError:
                        pass
                    sock.bind(path)
                    sock.listen(MAX_CONNECTIONS)
                except OSError:
                    sock.close()
                    raise
                self.path = path
                return sock
            except OSError as caught:
                error = caught
        raise error

    def wake(self) -> None:
        """End the current wait of the agent's thread; may be called from any thread."""
        try:
            os.write(self._wake_write, b"x")
        except OSError:
            pass

    def wait(self, timeout: float) -> None:
        """Sleep until something arrives or `timeout` seconds are over, then serve the sockets."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        for one in self.connections:
            poll.register(one.sock, select.POLLIN | (select.POLLOUT if one._out else 0))
        try:
            ready = dict(poll.poll(max(0.0, timeout) * 1000))
        except InterruptedError:
            ready = {}
        now = time.monotonic()
        if self._wake_read in ready:
            try:
                os.read(self._wake_read, 4096)
            except OSError:
                pass
        if self._sock.fileno() in ready:
            self._accept(now)
        for one in list(self.connections):
            self._serve(one, ready.get(one.sock.fileno(), 0), now)

    def _accept(self, now: float) -> None:
        try:
            sock, _ = self._sock.accept()
        except OSError:
            return
        sock.setblocking(False)
        if len(self.connections) >= MAX_CONNECTIONS:
            sock.close()
            return
        self.connections.append(Connection(sock, peer_allowed(sock), now))

    def _serve(self, one: Connection, events: int, now: float) -> None:
        try:
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                for header in one.receive():
                    self._request(one, header)
            one.flush(now)
            if one.overdue(now) or (one.closing and one.idle):
                self.drop(one)
        except (BlockingIOError, InterruptedError):
            pass
        except (WireError, OSError, ValueError, TypeError):
            self.drop(one)

    def _request(self, one: Connection, header: Dict[str, Any]) -> None:
        if one.closing:
            return
        if one.greeted:
            self._handle(one, header)
            return
        kind = cause = ""
        if header["t"] != "hello":
            kind, cause = "protocol", "The first message was not a hello."
        elif not one.allowed and (not self._token or header.get("token") != self._token):
            kind, cause = "permission", "The viewer runs as another user and brought no valid token."
        elif not common_protocol(PROTOCOLS, header.get("protocols") or []):
            kind = "version"
            cause = "The agent speaks protocol %d to %d, the viewer %s." % (*PROTOCOLS, header.get("protocols"))
        if kind:
            one.closing = True
            one.send({"t": "error", "kind": kind, "cause": cause, "next_step": NEXT_STEPS[kind]})
            return
        one.greeted = True
        self._handle(one, header)

    def broadcast(self, header: Dict[str, Any]) -> None:
        """Send one frame to every viewer that has been welcomed."""
        for one in list(self.connections):
            if one.greeted and not one.closing:
                try:
                    one.send(header)
                except WireError:
                    self.drop(one)

    def drop(self, one: Connection) -> None:
        """Close one connection; shut down first, since a forked child may hold a copy."""
        if one in self.connections:
            self.connections.remove(one)
        try:
            one.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        one.sock.close()

    def close(self, seconds: float = 0.2) -> None:
        """Give what is queued a short moment to leave, then close everything and remove the socket file."""
        end = time.monotonic() + seconds
        for one in list(self.connections):
            try:
                while not one.idle and time.monotonic() < end:
                    while one.encode_some():
                        pass
                    one.flush(time.monotonic())
                    if not one.idle:
                        select.select([], [one.sock], [], 0.01)
            except (OSError, ValueError, WireError):
                pass
            self.drop(one)
        self._sock.close()
        try:
            os.unlink(self.path)
        except OSError:
            pass
        try:
            os.rmdir(os.path.dirname(self.path))
        except OSError:
            pass
        os.close(self._wake_read)
        os.close(self._wake_write)

    def abandon(self) -> None:
        """Close our copies of the descriptors in a forked child; the connections stay the parent's."""
        for sock in [self._sock] + [one.sock for one in self.connections]:
            sock.close()
        self.connections.clear()
        os.close(self._wake_read)
        os.close(self._wake_write)


NEXT_STEPS = {
    "protocol": "Use tensortui to talk to the agent.",
    "permission": "Run the viewer as the same user or as root.",
    "version": "Use the version of tensortui that attached first, or detach it and attach again.",
}


def peer_allowed(sock: socket.socket) -> bool:
    """Whether the peer's credentials are enough: the same user, or root."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            size = struct.calcsize("3i")
            _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
            return uid in (0, os.geteuid())
    except OSError:
        pass
    return False
