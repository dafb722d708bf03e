"""Where an agent's socket is, seen from here: below the target's own root, under the pid that the target sees."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tensortui.attach import procfs
from tensortui.attach.bootstrap import socket_directories

CONNECT_SECONDS = 1.0
STALE_SECONDS = 60.0
SWEPT_AT_ONCE = 100


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
        folder = f"tensortui-{os.geteuid()}"
        return [f"{directory}/{folder}/{pid}-0.sock" for directory in socket_directories()]
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
        owner = int(procfs.status(pid)["Uid"].split()[1]) if sys.platform == "linux" else os.geteuid()
    except (OSError, KeyError):
        return None
    for path in socket_paths(pid):
        if _trusted(Path(path).parent, owner) and _answer(path) == "accepts":
            return Endpoint(pid, path, None, fresh=False, how="connected", seconds=0.0)
    return None


def sweep(folder: Path) -> None:
    """Remove the sockets that killed processes have left in `folder`, if it is of our own user."""
    with contextlib.suppress(OSError):
        if not _trusted(folder, os.geteuid()):  # root keeps its hands off: another could put anything in its place
            return
        for path in list(folder.glob("*-*.sock"))[:SWEPT_AT_ONCE]:
            found = path.lstat()
            # the age spares one that is bound and does not listen yet
            old = stat.S_ISSOCK(found.st_mode) and time.time() - found.st_mtime > STALE_SECONDS
            if old and _answer(str(path)) == "refuses":
                path.unlink(missing_ok=True)


def _trusted(folder: Path, owner: int) -> bool:
    """Whether `folder` is a directory, no link, that only `owner` can use: anybody may make one of any name in /tmp."""
    try:
        found = folder.lstat()
    except OSError:
        return False
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
