"""The process that a command is about, and whether there is a terminal to show it on."""

from __future__ import annotations

import os
import re
import sys

from tensortui.errors import UsageError

LARGEST_PID = (1 << 31) - 1
LIST = "List the processes that can be attached to: `tensortui ps`."


def parse_pid(text: str) -> int:
    """Return the process id that `text` says. Raises UsageError with what is wrong about it."""
    if not re.fullmatch(r"-?[0-9]{1,100}", text):  # int() would take more, "1_0" and other digits too
        raise UsageError(f"{text!r} is not a process id.", LIST)
    pid = int(text)
    if not 0 < pid <= LARGEST_PID:
        raise UsageError(f"{pid} cannot be a process id.", LIST)
    if pid == os.getpid():
        raise UsageError(f"{pid} is this very command.", LIST)
    return pid


def require_terminal(instead: str) -> None:
    """Raise UsageError unless a screen can be drawn; `instead` is the command that does without."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The viewer needs a terminal.", f"Without one, use `{instead}`.")
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(
            f"This terminal (TERM={os.environ.get('TERM', '')}) cannot draw the viewer.", f"Use `{instead}`."
        )
