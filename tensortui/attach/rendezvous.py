"""Where an agent's socket is, seen from here: below the target's own root, under the pid that the target sees."""

from __future__ import annotations

import os
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from tensortui.attach import procfs
from tensortui.attach.bootstrap import socket_directories

CONNECT_SECONDS = 1.0


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


def listening(path: str) -> bool:
    """Whether an agent accepts connections on `path`, in a directory that only its user (or root) can write to."""
    try:
        folder = Path(path).parent.lstat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_mode & 0o077:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(path)
    except OSError:
        return False
    return True


def find_endpoint(pid: int) -> Endpoint | None:
    """The agent that listens in process `pid` already, or None."""
    for path in socket_paths(pid):
        if listening(path):
            return Endpoint(pid, path, None, fresh=False, how="connected", seconds=0.0)
    return None
