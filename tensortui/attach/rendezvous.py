"""Where an agent's socket is, seen from here: below the target's own root, under the pid that the target sees."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensortui.attach import identity, procfs
from tensortui.attach.bootstrap import socket_directories
from tensortui.attach.errors import AgentFailedError, GoneError
from tensortui.attach.waiting import poll

CONNECT_SECONDS = 1.0
STALE_SECONDS = 60.0
SWEPT_AT_ONCE = 100
SOCKET_NAME = re.compile(r"[0-9]+-[0-9]+\.sock")


@dataclass(frozen=True)
class Endpoint:
    """A socket on which an agent listens, how it came to be there, and how long that took.

    `path` can be connected to from here. `how` is "connected" (it was there already), "thread" or "pending" (a thread
    was borrowed), "remote_exec" or "listen"; `fresh` says that the agent was put in now.
    """

    pid: int
    path: str
    token: str | None
    fresh: bool
    how: str
    seconds: float


def socket_paths(pid: int) -> list[str]:
    """Where the socket of an agent in process `pid` may be, as paths that can be used here."""
    if sys.platform != "linux":
        try:
            name = f"tensortui-{identity.owner(pid)}/{pid}-0.sock"
        except OSError:
            return []
        return [f"{directory}/{name}" for directory in socket_directories()]
    try:
        name = f"tensortui-{procfs.inner_uid(pid)}/{procfs.inner_pid(pid)}-{procfs.start_time(pid)}.sock"
    except (OSError, KeyError, ValueError):
        return []
    root = f"/proc/{pid}/root"
    if not os.access(root, os.X_OK):  # a process that hides itself: it may still share our file system
        root = ""
    return [f"{root}{directory}/{name}" for directory in socket_directories()]


def find_endpoint(pid: int) -> Endpoint | None:
    """The agent that listens in process `pid` already, or None."""
    try:
        owner = identity.owner(pid)
    except (OSError, KeyError):
        return None
    for path in socket_paths(pid):
        if _is_trusted(path, owner) and _answer(path) == "accepts":
            return Endpoint(pid, path, None, fresh=False, how="connected", seconds=0.0)
    return None


def await_agent(pid: int, report: Callable[[], str], seconds: float) -> Endpoint | None:
    """The agent that was started in process `pid`, once it listens; None after `seconds`.

    Raises AgentFailedError with what `report` says, if that is anything, and GoneError.
    """

    def answer() -> Endpoint | str | None:
        if not identity.alive(pid):
            raise GoneError(pid, "ended meanwhile")
        return find_endpoint(pid) or report()

    answered = poll(answer, seconds)
    if isinstance(answered, str):
        raise AgentFailedError(pid, answered)
    return answered


def sweep(folder: Path) -> None:
    """Remove the sockets that killed processes have left in `folder`, if it is of our own user."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _sweep(folder, handle)
        finally:
            os.close(handle)


def _sweep(folder: Path, handle: int) -> None:
    if not _is_of(os.fstat(handle), os.geteuid()):
        return
    names = [name for name in os.listdir(handle) if SOCKET_NAME.fullmatch(name)]
    for name in names[:SWEPT_AT_ONCE]:
        found = os.stat(name, dir_fd=handle, follow_symlinks=False)
        # the age spares one that is bound and does not listen yet
        old = stat.S_ISSOCK(found.st_mode) and time.time() - found.st_mtime > STALE_SECONDS
        if old and _answer(str(folder / name)) == "refuses":
            # by the handle: in a root that is not ours, the path may lead elsewhere by now
            os.unlink(name, dir_fd=handle)


def _is_trusted(path: str, owner: int) -> bool:
    """Whether what is at `path` is in a directory, no link, of `owner` alone: anybody may make one of any name."""
    try:
        return _is_of(Path(path).parent.lstat(), owner)
    except OSError:
        return False


def _is_of(found: os.stat_result, owner: int) -> bool:
    """Whether it is a directory that only `owner` can use."""
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o077


def _answer(path: str) -> str:
    """What a connection to the socket meets: "accepts", "refuses" (nobody listens any more), "" for anything else."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(path)
    except ConnectionRefusedError:
        return "refuses"
    except OSError:
        return ""
    return "accepts"
