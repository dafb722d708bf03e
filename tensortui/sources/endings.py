"""How a process ended, as far as another process may know: told by a pidfd, /proc, and what was left there."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path

_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, struct pidfd_info of 64 bytes)
_PIDFD_INFO_EXIT = 1 << 3
_INFO = struct.Struct("<QQIIIIIIIIIIIi")  # mask, cgroup, 11 ids, exit code: 64 bytes
_POLL_SECONDS = 1.0


def start_time(pid: int) -> int | None:
    """The start time of a process in clock ticks, which tells it from a later one of the same number."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def exists(pid: int, started: int | None = None) -> bool:
    """Whether the process still runs (a zombie does not)."""
    fields = _stat(pid)
    if fields is not None:
        return fields[0] not in "ZX" and (started is None or int(fields[19]) == started)
    if sys.platform == "linux":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def describe(status: int | None, *, exiting: bool = False) -> str:
    """A wait status in words; None where it is not known. `exiting`: the process had said that it exits."""
    if status is None:
        return "the process exited" if exiting else "the process ended"
    if status & 0x7F:
        number = status & 0x7F
        try:
            name = f" ({signal.Signals(number).name})"
        except ValueError:
            name = ""
        return f"the process was killed by signal {number}{name}"
    return f"the process exited with status {status >> 8 & 0xFF}"


def held(pid: int) -> str:
    """Why a process that lives does nothing, and what to do; "" where the kernel says nothing of the kind."""
    fields = _stat(pid)
    state = fields[0] if fields is not None else ""
    if state == "T":
        return f"stopped (SIGSTOP): kill -CONT {pid}"
    if state == "t":
        return "held by a debugger"
    if state == "D":
        return "in uninterruptible sleep (a disk, NFS or a driver)"
    return ""


class Watch:
    """Keeps an eye on one process. `on_end` is called once, in the event loop, when it has ended."""

    def __init__(self, pid: int) -> None:
        """Remember which process `pid` is now."""
        self.pid = pid
        self._started = start_time(pid)
        self._image = _image(pid)
        self._fd: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._status: int | None = None
        if hasattr(os, "pidfd_open"):
            try:
                self._fd = os.pidfd_open(pid)
            except OSError:
                self._fd = None

    def start(self, on_end: Callable[[], None]) -> None:
        """Begin to watch, in the running event loop."""
        self._loop = loop = asyncio.get_running_loop()
        if self._fd is not None:
            loop.add_reader(self._fd, self._ended, on_end)
        else:
            self._timer = loop.call_later(_POLL_SECONDS, self._poll, on_end)

    def alive(self) -> bool:
        """Whether it still runs."""
        return exists(self.pid, self._started)

    def replaced(self) -> bool:
        """Whether it still runs, but another program in it (exec), as far as the kernel lets us see."""
        now = _image(self.pid)
        return self.alive() and bool(self._image) and bool(now) and now != self._image

    def status(self) -> int | None:
        """Its wait status, once it has ended and where that can be read."""
        if self._status is None and not self.alive():
            self._status = self._read_status()
        return self._status

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._fd is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None

    def _ended(self, on_end: Callable[[], None]) -> None:
        assert self._loop is not None and self._fd is not None
        self._status = self._read_status()  # at once: a zombie may be reaped at any moment
        self._loop.remove_reader(self._fd)
        on_end()

    def _poll(self, on_end: Callable[[], None]) -> None:
        assert self._loop is not None
        if self.alive():
            self._timer = self._loop.call_later(_POLL_SECONDS, self._poll, on_end)
        else:
            on_end()

    def _read_status(self) -> int | None:
        fields = _stat(self.pid)
        if fields and fields[0] == "Z" and (self._started is None or int(fields[19]) == self._started):
            try:
                # Without the right to trace the process the kernel shows 0 here, which is also a clean exit:
                # only a status that says something is believed, or a 0 of a process of our own user.
                status = int(fields[49])
                if status or Path(f"/proc/{self.pid}").stat().st_uid == os.geteuid():
                    return status
            except (IndexError, ValueError, OSError):
                pass
        return self._pidfd_status()

    def _pidfd_status(self) -> int | None:
        """Linux 6.15 and later keep the status behind a pidfd even after the process was reaped."""
        if self._fd is None or sys.platform != "linux":
            return None
        info = bytearray(_INFO.size)
        struct.pack_into("<Q", info, 0, _PIDFD_INFO_EXIT)
        try:
            fcntl.ioctl(self._fd, _PIDFD_GET_INFO, info)
        except OSError:
            return None
        fields = _INFO.unpack(info)
        return fields[-1] if fields[0] & _PIDFD_INFO_EXIT else None


def _image(pid: int) -> list[str]:
    """Where the code and the stack of the program in a process lie; empty where that is not told."""
    fields = (_stat(pid) or [])[23:26]
    return fields if any(field not in ("0", "1") for field in fields) else []


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat behind the command, state first."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None
