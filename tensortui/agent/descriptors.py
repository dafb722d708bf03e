"""File descriptors of ours, told from what the target may open under the same number once ours is closed.

A forked child that closes everything it inherited and opens files of its own, as a daemon does, gets our numbers.
"""

import os
import socket
import sys

SO_COOKIE = 57  # of Linux: `socket` does not name it


class Held:
    """One descriptor of ours; `close` leaves it alone where it has become somebody else's."""

    __slots__ = ("_what", "fd")

    def __init__(self, fd: int = -1) -> None:
        """Remember what `fd` is now, if there is one yet."""
        self.fd = -1
        self._what: object = None
        if fd >= 0:
            self.take(fd)

    def take(self, fd: int) -> None:
        """Remember what `fd` is now. It may be opened where none of these should be made, for the collector counts."""
        self.fd = fd
        self._what = _identity(fd)

    @property
    def ours(self) -> bool:
        """Whether the number still stands for what it did in the beginning."""
        try:
            return self.fd >= 0 and _identity(self.fd) == self._what
        except OSError:
            return False

    def close(self) -> None:
        """Close it where it is ours. From the first moment on, nobody finds the number here any more."""
        ours, fd, self.fd = self.ours, self.fd, -1
        if ours:
            os.close(fd)


class HeldSocket(Held):
    """The same for a socket, whose object would close the number at its own end.

    Linux gives each socket a number of its own, which is asked for without giving up the interpreter lock and comes
    without a container that the collector would count, as the result of fstat is one.
    """

    __slots__ = ("_cookie", "sock")

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`; that gives up the lock only where sockets have no such number: see `numbered`."""
        self.sock = sock
        try:
            self._cookie = sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8) if sys.platform == "linux" else b""
        except OSError:
            self._cookie = b""
        if self._cookie:
            self.fd = sock.fileno()
        else:
            super().__init__(sock.fileno())

    @property
    def numbered(self) -> bool:
        """Whether the system tells its sockets apart by a number."""
        return bool(self._cookie)

    @property
    def ours(self) -> bool:
        """Whether the number still stands for this socket."""
        if not self._cookie:
            return super().ours
        try:
            return self.fd >= 0 and self.sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8) == self._cookie
        except OSError:
            return False

    def close(self) -> None:
        """Close it where it is ours, else only forget it."""
        ours, self.fd = self.ours, -1
        if ours:
            self.sock.close()
        else:
            self.sock.detach()


def _identity(fd: int) -> object:
    """Return what tells `fd` from others: what Linux says it leads to, for that makes nothing the collector counts."""
    try:
        return os.readlink("/proc/self/fd/%d" % fd)
    except OSError:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino
