"""What /proc says about a process. The functions raise OSError when the process has gone or is hidden."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Mapping(NamedTuple):
    """One line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    inode: str
    path: str


class SystemCall(NamedTuple):
    """The system call in which a thread sleeps; `number` is None when the thread runs or cannot be seen."""

    number: int | None
    arguments: tuple[int, ...]
    stack: int | None
    address: int | None


def status(pid: int, tid: int | None = None) -> dict[str, str]:
    """The fields of /proc/PID/status, or of one thread's."""
    path = PROC / str(pid) / "status" if tid is None else PROC / str(pid) / "task" / str(tid) / "status"
    lines = path.read_text(errors="replace").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def stat(pid: int, tid: int | None = None) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state, on (the second may hold anything)."""
    path = PROC / str(pid) / "stat" if tid is None else PROC / str(pid) / "task" / str(tid) / "stat"
    return path.read_bytes().rpartition(b")")[2].decode().split()


def start_time(pid: int) -> int:
    """When the process started, in clock ticks since the machine did: field 22 of /proc/PID/stat."""
    return int(stat(pid)[19])


def state(pid: int, tid: int | None = None) -> str:
    """One letter: R running, S sleeping, D uninterruptible, T stopped, t traced, Z zombie."""
    return stat(pid, tid)[0]


def exists(pid: int) -> bool:
    """Whether there is such a process, whatever /proc shows of it."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def alive(pid: int) -> bool:
    """Whether the process exists and is more than a zombie."""
    try:
        return state(pid) not in "ZX"
    except OSError:
        return False


def inner_pid(pid: int) -> int:
    """The pid that the process itself sees, in its own pid namespace."""
    return int(status(pid).get("NSpid", str(pid)).split()[-1])


def effective_uid(pid: int) -> int:
    """The effective uid of the process, as our own user namespace numbers it."""
    return int(status(pid)["Uid"].split()[1])


def inner_uid(pid: int) -> int:
    """The effective uid that the process itself sees, in its own user namespace."""
    outer = effective_uid(pid)
    for line in (PROC / str(pid) / "uid_map").read_text().splitlines():
        inside, outside, count = (int(word) for word in line.split())
        if outside <= outer < outside + count:
            return inside + outer - outside
    return outer


def threads(pid: int) -> list[int]:
    """The ids of the threads of the process."""
    return [int(entry.name) for entry in (PROC / str(pid) / "task").iterdir()]


def maps(pid: int) -> list[Mapping]:
    """The memory mappings, by address."""
    mappings = []
    for line in (PROC / str(pid) / "maps").read_text(errors="surrogateescape").split("\n"):
        parts = line.split(None, 5)
        if len(parts) >= 5:
            start, end = parts[0].split("-")
            path = parts[5] if len(parts) > 5 else ""
            mappings.append(Mapping(int(start, 16), int(end, 16), parts[1], int(parts[2], 16), parts[4], path))
    return mappings


def system_call(pid: int, tid: int) -> SystemCall:
    """In which system call the thread sleeps now."""
    words = (PROC / str(pid) / "task" / str(tid) / "syscall").read_text().split()
    if len(words) < 9 or words[0].startswith("-"):
        return SystemCall(None, (), None, None)
    arguments = tuple(int(word, 16) for word in words[1:7])
    return SystemCall(int(words[0]), arguments, int(words[-2], 16), int(words[-1], 16))


def environ(pid: int) -> dict[str, str]:
    """The environment the process was started with."""
    text = (PROC / str(pid) / "environ").read_bytes().decode(errors="replace")
    return {key: value for key, _, value in (entry.partition("=") for entry in text.split("\0")) if key}
