"""Why the kernel would refuse to let us into a process, in words."""

from __future__ import annotations

import os
from pathlib import Path

from tensortui.attach import procfs
from tensortui.attach.errors import AttachError, GoneError, PermissionDeniedError, TracedError

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
YAMA_WORDS = {
    "1": (
        "kernel.yama.ptrace_scope is 1: only a parent may attach to process {pid}",
        "Use sudo, or give tensortui CAP_SYS_PTRACE, or start the program with `tensortui run prog args...`.",
    ),
    "2": (
        "kernel.yama.ptrace_scope is 2: only root may attach to process {pid}",
        "Use sudo, or start the program with `tensortui run prog args...`.",
    ),
    "3": (
        "kernel.yama.ptrace_scope is 3: nobody may attach to process {pid} until the machine restarts",
        "Start the program with `tensortui run prog args...`.",
    ),
}


def yama_scope() -> str:
    """The value of kernel.yama.ptrace_scope, "0" where there is no such thing."""
    try:
        return YAMA.read_text().strip()
    except OSError:
        return "0"


def may_trace() -> bool:
    """Whether this process holds CAP_SYS_PTRACE."""
    try:
        return bool(int(procfs.status(os.getpid())["CapEff"], 16) >> 19 & 1)
    except (OSError, KeyError, ValueError):
        return os.geteuid() == 0


def may_connect(pid: int) -> bool:
    """Whether an agent in the process would serve us: it serves its own user and root."""
    try:
        return os.geteuid() in (0, procfs.effective_uid(pid))
    except OSError:
        return False


def explain(pid: int) -> AttachError:
    """The error to raise when the kernel has said no to process `pid`."""
    try:
        fields = procfs.status(pid)
    except OSError:
        if not procfs.exists(pid):
            return GoneError(pid)
        return PermissionDeniedError(
            f"Process {pid} belongs to another user, and /proc hides it (hidepid).",
            "Run tensortui as that user, or as root with sudo.",
        )
    if fields.get("TracerPid", "0") != "0":
        return TracedError(pid, int(fields["TracerPid"]))
    uid = int(fields["Uid"].split()[0])
    if os.geteuid() not in (0, uid) and not may_trace():
        return PermissionDeniedError(
            f"Process {pid} belongs to another user (uid {uid}).", "Run tensortui as that user, or as root with sudo."
        )
    scope = yama_scope()
    if scope == "3" or (scope in YAMA_WORDS and not may_trace()):
        cause, step = YAMA_WORDS[scope]
        return PermissionDeniedError(cause.format(pid=pid) + ".", step)
    return PermissionDeniedError(
        f"The kernel refused to let us into process {pid}: a container without SYS_PTRACE, or the process is not "
        "dumpable (setuid, capabilities, PR_SET_DUMPABLE).",
        "In a container add --cap-add=SYS_PTRACE; else use sudo, or start with `tensortui run prog args...`.",
    )
