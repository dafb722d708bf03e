"""The way CPython 3.14 and later offer themselves: `sys.remote_exec`, for where a thread cannot be borrowed.

It wants the same minor version on both sides and a script file that the target can see, so the target's own
interpreter runs it, in the target's own root and pid namespace where those are not ours. The script runs when the
main thread next runs bytecode.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tensortui.attach import identity, procfs, rendezvous
from tensortui.attach.bootstrap import bootstrap_source
from tensortui.attach.errors import AgentFailedError, AttachTimeoutError, GoneError, UnsupportedError
from tensortui.attach.handover import Handover
from tensortui.attach.rendezvous import Endpoint

CALL = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
REMOTE_EXEC_VERSION = (3, 14)


def attach_by_remote_exec(pid: int, timeout: float, budget: float, token: str) -> Endpoint:
    """Have the target run the bootstrap by itself, and return where its agent listens. Raises an AttachError."""
    import psutil

    try:
        return _attach(pid, timeout, budget, token)
    except (OSError, psutil.Error) as error:
        if not identity.alive(pid):
            raise GoneError(pid, "ended meanwhile") from None
        raise UnsupportedError(pid, f"sys.remote_exec could not be prepared ({error})") from None


def _attach(pid: int, timeout: float, budget: float, token: str) -> Endpoint:
    end = time.monotonic() + timeout
    handover = Handover(pid)
    try:
        handover.give(bootstrap_source(budget=budget, token=token, report_path=handover.report_path))
        _call(pid, handover.script, timeout)
        handover.forget_others()
        endpoint = _await_agent(pid, handover, end)
    except (AgentFailedError, GoneError, UnsupportedError):  # it has run, or never will
        handover.remove()
        raise
    except BaseException:
        handover.withdraw()
        raise
    handover.remove()
    return endpoint


def _await_agent(pid: int, handover: Handover, end: float) -> Endpoint:
    seconds = max(0.0, end - time.monotonic())
    endpoint = rendezvous.await_agent(pid, handover.report, seconds)
    if endpoint is None:
        raise AttachTimeoutError(pid, seconds, gil_held=False)
    return endpoint


def _call(pid: int, script: str, timeout: float) -> None:
    try:
        done = subprocess.run(
            _command(pid, script),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AttachTimeoutError(pid, timeout, gil_held=False) from None
    except OSError as error:
        raise UnsupportedError(pid, f"its interpreter could not be run ({error})") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        raise UnsupportedError(pid, f"sys.remote_exec was refused ({why})")


def _command(pid: int, script: str) -> list[str]:
    """What runs CALL by the target's interpreter, where the target is, and with no right that the target has not."""
    import psutil

    process = psutil.Process(pid)
    inner = pid if sys.platform != "linux" else procfs.inner_pid(pid)
    command = [process.exe(), "-I", "-S", "-c", CALL, str(inner), script]
    if sys.platform != "linux":
        return command
    here = _same_place(pid)
    enter = [] if here else ["--mount", "--pid", "--root"]
    # elsewhere, a program that only root can write may still load libraries that somebody else has put there
    if os.geteuid() == 0 and not (here and _only_roots(Path(f"/proc/{pid}/exe"))):
        uid = process.uids().effective
        if uid == 0 and not _has_our_rights(pid):
            raise UnsupportedError(pid, "its interpreter would run with rights that the process does not have")
        enter += [f"--setgid={process.gids().effective}", f"--setuid={uid}"]
    return ["nsenter", f"--target={pid}", *enter, "--", *command] if enter else command


def _only_roots(program: Path) -> bool:
    """Whether nobody but root can have written `program`: root runs no program of anybody else's."""
    found = program.stat()
    return found.st_uid == 0 and not found.st_mode & 0o022


def _has_our_rights(pid: int) -> bool:
    """Whether the process holds every capability that we hold, where we hold it."""
    ours, theirs = (int(procfs.status(each)["CapEff"], 16) for each in (os.getpid(), pid))
    return not ours & ~theirs and _same_namespace(pid, "user")


def _same_place(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/root").samefile("/") and all(_same_namespace(pid, kind) for kind in ("mnt", "pid"))
    except OSError:
        return False


def _same_namespace(pid: int, kind: str) -> bool:
    return Path("/proc/self/ns", kind).readlink() == Path(f"/proc/{pid}/ns", kind).readlink()
