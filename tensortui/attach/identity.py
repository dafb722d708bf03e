"""Whose a process is, what it is called for all time, and whether it lives, on every platform.

The functions raise OSError when the process has gone or is hidden.
"""

from __future__ import annotations

import errno
import os
import sys

from tensortui.attach import procfs


def owner(pid: int) -> int:
    """The effective uid of the process, as we number users."""
    if pid == os.getpid():
        return os.geteuid()
    if sys.platform == "linux":
        return procfs.effective_uid(pid)
    import psutil

    try:
        return int(psutil.Process(pid).uids().effective)
    except psutil.Error as error:
        raise OSError(errno.ESRCH, str(error)) from None


def name(pid: int) -> str:
    """A name that no other process has or will have, in any pid namespace."""
    if sys.platform == "linux":
        return f"{procfs.inner_pid(pid)}-{procfs.start_time(pid)}"
    import psutil

    try:
        return f"{pid}-{int(psutil.Process(pid).create_time())}"
    except psutil.Error as error:
        raise OSError(errno.ESRCH, str(error)) from None


def alive(pid: int) -> bool:
    """Whether the process exists and is more than a zombie."""
    if pid == os.getpid():
        return True
    if sys.platform == "linux":
        return procfs.alive(pid)
    import psutil

    return bool(psutil.pid_exists(pid))
