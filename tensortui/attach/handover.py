"""A directory that holds one script for a process to run: it sees it too, and its user owns it.

We may be root and that user may be anybody: once the directory is theirs, nothing in it is opened or changed by its
path, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import tempfile
from pathlib import Path

from tensortui.attach import procfs
from tensortui.attach.bootstrap import socket_directories
from tensortui.attach.errors import UnsupportedError
from tensortui.attach.loader import REPORT_SIZE

SCRIPT, REPORT, NEXT = "start.py", "report", "next.py"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Left to run when the bootstrap must not run any more: a script that is missing would make the process complain.
FAREWELL = """\
try:
    __import__("os").unlink({script!r})
    __import__("os").rmdir({folder!r})
except OSError:
    pass
"""


class Handover:
    """The directory: `here` is its path for us, `there` for the process."""

    def __init__(self, pid: int) -> None:
        """Make it where process `pid` sees it. Raises UnsupportedError when that is nowhere."""
        self._owner = _owner(pid)
        self._key = f"tensortui-start-{_identity(pid)}-"
        self._script = -1
        root = f"/proc/{pid}/root" if sys.platform == "linux" else ""
        for directory in socket_directories():
            try:
                here = tempfile.mkdtemp(prefix=self._key, dir=f"{root}{directory}")
                self._handle = os.open(here, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            self.here = Path(here)
            self.there = f"{directory}/{self.here.name}"
            return
        raise UnsupportedError(pid, "no directory could be written that the process sees too")

    @property
    def script(self) -> str:
        """The script's path for the process."""
        return f"{self.there}/{SCRIPT}"

    @property
    def report_path(self) -> str:
        """Where the script may leave a report, for the process."""
        return f"{self.there}/{REPORT}"

    def give(self, source: str) -> None:
        """Put the script in, and make the process's user the owner of it all."""
        self._script = self._write(SCRIPT, source)
        if self._owner is not None:
            os.fchown(self._handle, self._owner, -1)

    def _write(self, name: str, text: str) -> int:
        handle = os.open(name, NEW, 0o600, dir_fd=self._handle)
        try:
            data = text.encode()
            if os.write(handle, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._owner is not None:
                os.fchown(handle, self._owner, -1)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def report(self) -> str:
        """What the script has reported, empty while there is nothing."""
        try:
            handle = os.open(REPORT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._handle)
        except OSError:
            return ""
        try:
            data = os.read(handle, REPORT_SIZE) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)
        return data.partition(b"\0")[0].decode(errors="replace")

    def forget_others(self) -> None:
        """Remove what earlier tries left for the same process: it has been told of this one, and will not run those."""
        for path in self.here.parent.glob(f"{self._key}*"):
            if path != self.here:
                with contextlib.suppress(OSError):
                    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    _clear(handle, path)

    def withdraw(self) -> None:
        """Leave the process, should it come to run the script, nothing to do but to remove it."""
        with contextlib.suppress(OSError):
            os.close(self._write(NEXT, FAREWELL.format(script=self.script, folder=self.there)))
            os.rename(NEXT, SCRIPT, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        os.ftruncate(self._script, 0)  # for one who has opened it already
        self._close()
        os.close(self._handle)

    def remove(self) -> None:
        """Remove it all."""
        self._close()
        _clear(self._handle, self.here)

    def _close(self) -> None:
        if self._script >= 0:
            os.close(self._script)
            self._script = -1


def _clear(handle: int, path: Path) -> None:
    try:
        for name in (SCRIPT, REPORT, NEXT):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)
    with contextlib.suppress(OSError):
        path.rmdir()


def _owner(pid: int) -> int | None:
    """Whom root gives it to; None for everyone else, to whom process and files belong already."""
    if os.geteuid() != 0:
        return None
    if sys.platform == "linux":
        return int(procfs.status(pid)["Uid"].split()[1])
    import psutil

    return int(psutil.Process(pid).uids().effective)


def _identity(pid: int) -> str:
    """The process, in any pid namespace and for all time."""
    if sys.platform == "linux":
        return f"{procfs.inner_pid(pid)}-{procfs.start_time(pid)}"
    import psutil

    return f"{pid}-{int(psutil.Process(pid).create_time())}"
