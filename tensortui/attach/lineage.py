"""What a process is to the one that started it, where the two of them tell for certain."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import psutil

from tensortui.attach import procfs

DATA_LOADER = "pt_data_worker"  # the name that torch gives to the main thread of such a worker
START_CODE, START_STACK = 23, 25  # in what procfs.stat returns
# What multiprocessing passes to `python -c`.
SPAWNED, SERVER, TRACKER = (
    f"from multiprocessing.{each} import " for each in ("spawn", "forkserver", "resource_tracker")
)


def of(process: psutil.Process, executable: str, command: Sequence[str]) -> tuple[str, int | None]:
    """The role of `process`, and the pid of the process that it has it for; ("", None) where nothing is certain."""
    try:
        name = process.name()
        above = psutil.Process(process.ppid())
    except (psutil.Error, OSError):
        return "", None
    try:
        related = bool(executable) and above.exe() == executable
        same = related and bool(command) and above.cmdline() == command
    except (psutil.Error, OSError):
        related = same = False
    role = ""
    parent = above.pid if related else None  # else its parent has ended, and it was given another
    code = command[command.index("-c") + 1] if "-c" in command[:-1] else ""
    if code.startswith(TRACKER):
        role = "resource tracker"
    elif code.startswith(SERVER) and same:
        role, parent = "worker", _parent_of(above)
    elif code.startswith(SERVER):
        role = "fork server"
    elif code.startswith(SPAWNED):
        role = "worker"
    elif same and _forked(process.pid, above.pid):
        role = "fork"
    if name == DATA_LOADER:
        role = "DataLoader worker"
    return (role, parent) if role else ("", None)


def _parent_of(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except (psutil.Error, OSError):
        return None


def _forked(child: int, parent: int) -> bool:
    """Whether `child` runs in a copy of the memory of `parent`: a new program is given other addresses."""
    if sys.platform != "linux":
        return False
    try:
        one, other = procfs.stat(child), procfs.stat(parent)
        places = [(int(one[field]), int(other[field])) for field in (START_CODE, START_STACK)]
    except (OSError, ValueError, IndexError):
        return False
    return all(here == there > 1 for here, there in places)  # 0 or 1: hidden from us
