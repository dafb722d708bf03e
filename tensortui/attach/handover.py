"""A directory that holds one script for a process to run: it sees it too, and its user owns it.

We may be root and that user may be anybody: once the directory is theirs, nothing in it is opened or changed by its
path, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from pathlib import PurePosixPath

from tensortui.attach import identity
from tensortui.attach.bootstrap import socket_directories
from tensortui.attach.errors import UnsupportedError
from tensortui.attach.loader import REPORT_SIZE

SCRIPT, REPORT, NEXT = "start.py", "report", "next.py"
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
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
    """The directory: `there` is its path for the process."""

    def __init__(self, pid: int) -> None:
        """Make it where process `pid` sees it. Raises UnsupportedError when that is nowhere."""
        # root gives it away; everyone else owns the process and the files already
        self._owner = identity.owner(pid) if os.geteuid() == 0 else None
        self._key = f"tensortui-start-{identity.name(pid)}-"
        self._name = self._key + secrets.token_hex(8)
        self._script = -1
        for directory in socket_directories():
            try:
                self._parent = _open_directory(pid, directory)
            except OSError:
                continue
            try:
                os.mkdir(self._name, 0o700, dir_fd=self._parent)
                self._handle = os.open(self._name, DIRECTORY | os.O_NOFOLLOW, dir_fd=self._parent)
            except OSError:
                os.close(self._parent)
                continue
            self.there = f"{directory}/{self._name}"
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
        for name in os.listdir(self._parent):  # noqa: PTH208 - by its handle
            if name.startswith(self._key) and name != self._name:
                with contextlib.suppress(OSError):
                    handle = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=self._parent)
                    try:
                        self._clear(name, handle)
                    finally:
                        os.close(handle)

    def withdraw(self) -> None:
        """Leave the process, should it come to run the script, nothing to do but to remove it."""
        try:
            with contextlib.suppress(OSError):
                os.close(self._write(NEXT, FAREWELL.format(script=self.script, folder=self.there)))
                os.rename(NEXT, SCRIPT, src_dir_fd=self._handle, dst_dir_fd=self._handle)
            if self._script >= 0:
                os.ftruncate(self._script, 0)  # for one who has opened it already
        finally:
            self._close()

    def remove(self) -> None:
        """Remove it all."""
        try:
            self._clear(self._name, self._handle)
        finally:
            self._close()

    def _clear(self, name: str, handle: int) -> None:
        for each in (SCRIPT, REPORT, NEXT):
            with contextlib.suppress(OSError):
                os.unlink(each, dir_fd=handle)
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=self._parent)

    def _close(self) -> None:
        for handle in (self._script, self._handle, self._parent):
            if handle >= 0:
                os.close(handle)
        self._script = self._handle = self._parent = -1


def _open_directory(pid: int, path: str) -> int:
    """A handle on the directory that process `pid` sees at `path`.

    No link on the way is followed: an absolute one that somebody else's root holds would lead us into our own.
    """
    if sys.platform != "linux":
        return os.open(path, DIRECTORY)
    handle = os.open(f"/proc/{pid}/root", DIRECTORY)
    try:
        for name in PurePosixPath(path).parts[1:]:
            inner = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
    except BaseException:
        os.close(handle)
        raise
    return handle
