"""The socket on which viewers find the agent, and who may come in without a token."""

import os
import socket
import stat
import struct
from typing import List, Tuple


def listen(candidates: List[str], backlog: int) -> Tuple[socket.socket, str]:
    """Return a socket that listens on the first of `candidates` that can be had, and which; OSError when none can."""
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
                sock.listen(backlog)
            except OSError:
                sock.close()
                raise
            return sock, path
        except OSError as caught:
            error = caught
    raise error


def remove(path: str) -> None:
    """Remove the socket's file, and its directory unless another agent has its own there."""
    for undo, what in ((os.unlink, path), (os.rmdir, os.path.dirname(path))):
        try:
            undo(what)
        except OSError:
            pass


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
