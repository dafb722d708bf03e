"""The viewers' side of the agent: a listening socket, several connections, none of which can block or bloat it.

What is called in the loop outside of a piece of work (`wait`, and what it calls) allocates next to nothing that the
collector counts: neither iterators nor generators, and no `memoryview`. See `loop`.
"""

import _thread
import collections
import os
import select
import socket
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from tensortui.agent.descriptors import HeldSocket
from tensortui.agent.guard import Alone
from tensortui.agent.listening import listen, peer_allowed, remove
from tensortui.agent.requests import checked
from tensortui.agent.rows import Batch, Reader
from tensortui.wire.frames import Decoder, WireError, encode
from tensortui.wire.messages import PROTOCOLS, common_protocol

MAX_CONNECTIONS = 16
MAX_REQUEST = 64 << 10  # a viewer's header
MAX_BRACKETS = 64
READ_SIZE = 16 << 10  # what is taken from a viewer in one go
READ_SHARE = 4.0  # budgets that reading what all the viewers ask may cost
DEAF = 1.0  # seconds for which nobody is let in where the target has no descriptor to spare
MOST_SENT = 256 << 10  # in one go
LOW_WATER = 256 << 10  # the next frame of a batch is encoded when less than this is waiting
MAX_QUEUED = 4 << 20  # answers waiting beside batches; a viewer that lets more pile up is cut off
MAX_FRAMES = 4096  # the same, behind batches
HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP  # the former on Linux alone
NONBLOCK = getattr(socket, "SOCK_NONBLOCK", 0)
HELLO_WITHIN = 5.0
STALLED_AFTER = 30.0
MIN_INTERVAL = 0.1


class Connection:
    """One viewer: what it asked for, what it was told, and the bytes on their way to it."""

    def __init__(self, sock: socket.socket, allowed: bool, now: float) -> None:
        """Take over an accepted, nonblocking socket; `allowed` by its credentials, else it must bring the token."""
        self.held = HeldSocket(sock)
        self.sock = sock
        self.allowed = allowed
        self.greeted = False
        self.closing = False
        self.broken = False  # something could not be sent: the server drops it at its next turn
        self.quiet_until = 0.0  # it is not read before: what it asked has cost that much
        self.interval: Optional[float] = None
        self.due = float("inf")
        self.watch: List[int] = []
        self.requests: List[Any] = []  # refreshes to be answered by the next full reading
        self.graphs: List[Dict[str, Any]] = []  # graph requests that wait for their turn
        self.searches: List[Dict[str, Any]] = []  # for the holders of a tensor, the same
        self.readers: Tuple[Reader, ...] = ()
        self.process_told = False
        self._batches: Deque[Any] = collections.deque()  # Batch objects and the ready frame that closes them
        self._decoder = Decoder(MAX_REQUEST, 0, MAX_BRACKETS)
        self._out = bytearray()
        self._moved = now
        self._since = now

    def receive(self) -> bytes:
        """Return what came; raises OSError where the connection is of no more use."""
        if not self.held.ours:
            raise ConnectionResetError
        data = self.sock.recv(READ_SIZE)
        if not data:
            raise ConnectionResetError
        return data

    def decode(self, data: bytes) -> List[Dict[str, Any]]:
        """Return the requests that `data` ends; raises WireError where it is nothing that a viewer sends."""
        return [header for header, _ in self._decoder.feed(data)]

    def send(self, header: Dict[str, Any], payload: bytes = b"") -> None:
        """Queue one frame, behind the batches that are under way where there are any."""
        frame = self._frame(header, payload)
        if self._batches:
            self._batches.append(frame)
        else:
            self._out += frame
        if len(self._out) > MAX_QUEUED or len(self._batches) > MAX_FRAMES:
            self.give_up()  # the viewer does not read

    def queue_batch(self, batches: List[Batch], closing: Dict[str, Any]) -> None:
        """Queue batches of rows, then the message that closes them."""
        self._batches.extend(batches)
        self._batches.append(self._frame(closing))

    def queue_frame(self, header: Dict[str, Any]) -> None:
        """Queue one frame of a long answer, sent as the peer takes it."""
        self._batches.append(self._frame(header))

    def give_up(self) -> None:
        """Send no more; nothing that is sent to one viewer may ever raise where another's work is done."""
        self.broken = True
        self._out.clear()
        self._batches.clear()

    def _frame(self, header: Dict[str, Any], payload: bytes = b"") -> bytes:
        try:
            return encode(header, payload)
        except Exception:
            self.give_up()
            return b""

    @property
    def idle(self) -> bool:
        """Whether everything that was to be sent has been taken, and more may be."""
        return not self.broken and not self._out and not self._batches

    def encode_some(self) -> bool:
        """Encode one more frame if the connection can take it; False where there is nothing to do."""
        if not self.wants_encoding():
            return False
        head = self._batches[0]
        try:
            frame = head if isinstance(head, bytes) else head.next_frame()
        except Exception:
            self.give_up()
            return False
        if frame:
            self._out += frame
        if not frame or head is frame:
            self._batches.popleft()
        return True

    def wants_encoding(self) -> bool:
        """Whether `encode_some` has work now."""
        return not self.broken and bool(self._batches) and len(self._out) <= LOW_WATER

    def flush(self, now: float) -> None:
        """Send what the peer takes now. Raises OSError where it is gone."""
        while self._out:
            if not self.held.ours:
                raise ConnectionResetError
            try:
                sent = self.sock.send(self._out if len(self._out) <= MOST_SENT else self._out[:MOST_SENT])
            except (BlockingIOError, InterruptedError):
                return
            del self._out[:sent]
            self._moved = now
        self._moved = now

    def hung_up(self) -> bool:
        """Whether the peer has closed its end, even if what it sent before was not read yet."""
        if not self.held.ours:
            return True
        poll = select.poll()
        poll.register(self.held.fd, HUNG_UP)
        return bool(poll.poll(0))

    def overdue(self, now: float) -> bool:
        """Whether the peer has not said hello, or not read, for too long."""
        return (not self.greeted and now - self._since > HELLO_WITHIN) or now - self._moved > STALLED_AFTER


class Server:
    """Accepts viewers, reads their requests, writes their answers; nothing here ever blocks.

    `handle` gets each request, checked. Whatever is raised while a viewer is served ends its connection and no other.
    """

    def __init__(
        self,
        candidates: List[str],
        token: str,
        handle: Callable[[Connection, Dict[str, Any]], None],
        budget: float = 0.01,
    ) -> None:
        """Listen on the first of `candidates` that can be had; raises OSError when none can."""
        self.connections: List[Connection] = []
        self._token = token
        self._handle = handle
        self._share = max(budget, 0.0001) * READ_SHARE
        sock, self.path = listen(candidates, MAX_CONNECTIONS)
        self._sock = HeldSocket(sock)
        self._deaf_until = 0.0
        try:
            self._wake_read, self._wake_write = map(HeldSocket, socket.socketpair())
        except OSError:
            self._sock.close()
            remove(self.path)
            raise
        self._wake_read.sock.setblocking(False)
        self._wake_write.sock.setblocking(False)
        self._asleep = False  # whether nothing can wake us any more: the target has put something else in that place
        self._wake_lock = _thread.allocate_lock()
        self._piece = Alone()
        self._events: Dict[int, int] = {}  # what the last wait brought, by descriptor
        self.plan(0.0)

    def wake(self) -> None:
        """End the current wait of the agent's thread; may be called from any thread."""
        with self._wake_lock:  # or the number could become another's just before it is written to
            if self._wake_write.ours:
                try:
                    self._wake_write.sock.send(b"x")
                except OSError:
                    pass

    def plan(self, timeout: float) -> None:
        """Prepare the next wait, for `timeout` seconds at most."""
        now = time.monotonic()
        self._poll = poll = select.poll()
        pauses = [max(timeout, 0.0)]
        if self._deaf_until > now:
            pauses.append(self._deaf_until - now)
        elif self._sock.fd >= 0:
            poll.register(self._sock.fd, select.POLLIN)
        if self._wake_read.fd >= 0 and not self._asleep:
            poll.register(self._wake_read.fd, select.POLLIN)
        for one in self.connections:
            paused = one.quiet_until > now
            if paused:
                pauses.append(one.quiet_until - now)
            if one.broken:
                pauses.append(0.0)
            events = (0 if paused else select.POLLIN) | (select.POLLOUT if one._out else 0)
            if events:  # else not even the end of the connection is to wake us
                poll.register(one.sock, events)
        self._pause = 1000.0 * min(pauses)

    def wait(self) -> None:
        """Sleep until something arrives or the time that was planned is over, then serve the sockets."""
        self._events.clear()
        try:
            ready = self._poll.poll(self._pause)
        except InterruptedError:
            ready = []
        place = len(ready)
        while place:
            place -= 1
            self._events[ready[place][0]] = ready[place][1]
        now = time.monotonic()
        if self._wake_read.fd in self._events:
            self._asleep = not self._wake_read.ours
            if not self._asleep:
                try:
                    self._wake_read.sock.recv(4096)
                except OSError:
                    pass
        if self._sock.fd in self._events:
            self._deaf_until = self._accept(now)
        place = len(self.connections)
        while place:  # from the end: one of them may be dropped
            place -= 1
            one = self.connections[place]
            self._serve(one, self._events.get(one.sock.fileno(), 0), now)

    def _accept(self, now: float) -> float:
        """Let one viewer in; return until when no other is, so that no number of them costs too much."""
        start = time.thread_time()
        try:
            if not self._sock.ours:
                return float("inf")
            fd, _ = self._sock.sock._accept()  # type: ignore[attr-defined]  # `accept` makes an object of it
        except (BlockingIOError, InterruptedError, ConnectionError):
            return now
        except OSError:  # the target has no descriptor left, or no memory
            return now + DEAF
        inside = False
        try:
            os.set_blocking(fd, False)
            if self._sock.numbered and NONBLOCK:  # else what follows gives up the lock
                self._piece.begin()
            inside = self._let_in(fd, now)
        except Exception:
            pass
        finally:
            self._piece.end()
        if not inside:
            try:
                os.close(fd)
            except OSError:  # the target has closed all that it does not know
                pass
        return now + (time.thread_time() - start) / self._share

    def _let_in(self, fd: int, now: float) -> bool:
        """Make a viewer of what was accepted; False where there are too many, or that fails."""
        if len(self.connections) >= MAX_CONNECTIONS:
            return False
        # One that is said to be nonblocking makes no system call for that, whatever timeout the target has set for all.
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | NONBLOCK, 0, fd)
        try:
            if not NONBLOCK:
                sock.setblocking(False)
            self.connections.append(Connection(sock, peer_allowed(sock), now))
        except Exception:
            sock.detach()
            return False
        return True

    def _serve(self, one: Connection, events: int, now: float) -> None:
        """The one place where a viewer is read, written to, and dropped for whatever comes of it."""
        try:
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL) and one.quiet_until <= now:
                self._read(one, now)
            one.flush(now)
            if one.broken or one.overdue(now) or (one.closing and one.idle):
                self.drop(one)
        except (BlockingIOError, InterruptedError):
            pass
        except Exception:
            self.drop(one)
            self._deaf_until = max(self._deaf_until, one.quiet_until)  # whoever comes again and again waits too

    def _read(self, one: Connection, now: float) -> None:
        start = time.thread_time()
        try:
            data = one.receive()
            self._piece.begin()
            for header in one.decode(data):
                self._request(one, header)
        finally:
            self._piece.end()
            cost = time.thread_time() - start
            one.quiet_until = now + cost * len(self.connections) / self._share

    def _request(self, one: Connection, header: Dict[str, Any]) -> None:
        if one.closing:
            return
        header = checked(header)
        if one.greeted:
            if header["t"] == "hello":
                raise WireError("a second hello")
            self._handle(one, header)
            return
        kind = cause = ""
        if header["t"] != "hello":
            kind, cause = "protocol", "The first message was not a hello."
        elif not one.allowed and (not self._token or header["token"] != self._token):
            kind, cause = "permission", "The viewer runs as another user and brought no valid token."
        elif not common_protocol(PROTOCOLS, header["protocols"]):
            kind = "version"
            cause = "The agent speaks protocol %d to %d, the viewer %s." % (*PROTOCOLS, header["protocols"])
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
                one.send(header)

    def drop(self, one: Connection) -> None:
        """Close one connection."""
        if one in self.connections:
            self.connections.remove(one)
        shut(one.held)

    def stop_listening(self) -> None:
        """Let nobody connect any more: who asks from now on is to find no agent."""
        shut(self._sock)
        remove(self.path)

    def close(self, seconds: float = 0.2) -> None:
        """Give what is queued a short moment to leave, then close everything and remove the socket file."""
        self.stop_listening()
        end = time.monotonic() + seconds
        for one in list(self.connections):
            try:
                while not one.idle and not one.broken and time.monotonic() < end:
                    while one.encode_some():
                        pass
                    one.flush(time.monotonic())
                    if not one.idle:
                        poll = select.poll()
                        poll.register(one.sock, select.POLLOUT)
                        poll.poll(10)
            except Exception:
                pass
            self.drop(one)
        with self._wake_lock:
            self._wake_write.close()
        self._wake_read.close()


def shut(held: HeldSocket) -> None:
    """Close a socket; it is shut down first, since a forked child may hold a copy."""
    try:
        if held.ours:
            held.sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    held.close()


NEXT_STEPS = {
    "protocol": "Use tensortui to talk to the agent.",
    "permission": "Run the viewer as the same user or as root.",
    "version": "Use the version of tensortui that attached first, or detach it and attach again.",
}
