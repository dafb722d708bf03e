"""What an agent cannot remove itself when its process is killed: its socket."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from tensortui.attach import procfs
from tensortui.attach.rendezvous import Endpoint, socket_paths


@contextlib.contextmanager
def no_socket_left(endpoint: Endpoint) -> Iterator[None]:
    """Remove the socket of `endpoint` on leaving, if the process that made it has gone by then.

    Its name is that of the process and of the time at which that started, so nobody else's is ever removed; and only
    a directory of our own user is touched. It is held open meanwhile: the way to it may end with the process.
    """
    if sys.platform != "linux" or endpoint.path not in socket_paths(endpoint.pid):
        yield
        return
    path = Path(endpoint.path)
    try:
        started = procfs.start_time(endpoint.pid)
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if _has_gone(endpoint.pid, started) and os.fstat(handle).st_uid == os.geteuid():
                _remove(handle, path.name)
        os.close(handle)


def _has_gone(pid: int, started: int) -> bool:
    try:
        return procfs.start_time(pid) != started or not procfs.alive(pid)
    except OSError:
        return True


def _remove(folder: int, name: str) -> None:
    """Remove the socket, and its directory unless another agent has its own there."""
    if stat.S_ISSOCK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
    place = Path(f"/proc/self/fd/{folder}").readlink()
    parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.rmdir(place.name, dir_fd=parent)
    finally:
        os.close(parent)
