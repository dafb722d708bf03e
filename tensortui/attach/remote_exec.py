"""The way CPython 3.14 and later offer themselves: `sys.remote_exec`, for where a thread cannot be borrowed.

It wants the same minor version on both sides and a script file that the target can see, so the target's own
interpreter runs it, in the target's own root and pid namespace where those are not ours. The script runs when the
main thread next runs bytecode.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensortui.attach import procfs
from tensortui.attach.bootstrap import bootstrap_source, socket_directories
from tensortui.attach.errors import AgentFailedError, AttachTimeoutError, GoneError, UnsupportedError
from tensortui.attach.rendezvous import Endpoint, find_endpoint

CALL = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
REMOTE_EXEC_VERSION = (3, 14)


def attach_by_remote_exec(pid: int, timeout: float, budget: float, token: str) -> Endpoint:
    """Have the target run the bootstrap by itself, and return where its agent listens."""
    end = time.monotonic() + timeout
    here, there = _shared_directory(pid)
    script, report = here / "start.py", here / "report"
    try:
        script.write_text(bootstrap_source(budget=budget, token=token, report_path=f"{there}/report"))
        _give(script, pid)
        _call(pid, f"{there}/start.py", timeout)
        endpoint = _await_agent(pid, report, end)
    except AttachTimeoutError:
        # The target may come to run the script later: then it finds it empty. Were it gone, the target would complain.
        script.write_text("")
        raise
    except BaseException:
        shutil.rmtree(here, ignore_errors=True)
        raise
    shutil.rmtree(here, ignore_errors=True)
    return endpoint


def _await_agent(pid: int, report: Path, end: float) -> Endpoint:
    start = time.monotonic()
    while time.monotonic() < end:
        endpoint = find_endpoint(pid)
        if endpoint is not None:
            return endpoint
        if report.exists():
            raise AgentFailedError(pid, report.read_bytes().rstrip(b"\0").decode(errors="replace"))
        if not _alive(pid):
            raise GoneError(pid, "ended meanwhile")
        time.sleep(0.005)
    raise AttachTimeoutError(pid, time.monotonic() - start, gil_held=False)


def _shared_directory(pid: int) -> tuple[Path, str]:
    """Make a directory for the target's user alone: as seen from here, and as the target sees it."""
    root = f"/proc/{pid}/root" if sys.platform == "linux" else ""
    for directory in socket_directories():
        try:
            here = Path(tempfile.mkdtemp(prefix="tensortui-start-", dir=f"{root}{directory}"))
        except OSError:
            continue
        _give(here, pid)
        return here, f"{directory}/{here.name}"
    raise UnsupportedError(pid, "no directory could be written that the process sees too")


def _give(path: Path, pid: int) -> None:
    """Make the target's user the owner: root may, for everyone else it is so already."""
    if os.geteuid() == 0:
        import psutil

        os.chown(path, psutil.Process(pid).uids().effective, -1)


def _alive(pid: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(pid))


def _call(pid: int, script: str, timeout: float) -> None:
    command = [*_enter(pid), str(pid if sys.platform != "linux" else procfs.inner_pid(pid)), script]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise AttachTimeoutError(pid, timeout, gil_held=False) from None
    except OSError as error:
        raise UnsupportedError(pid, f"its interpreter could not be run ({error})") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        raise UnsupportedError(pid, f"sys.remote_exec was refused ({why})")


def _enter(pid: int) -> list[str]:
    """The command line that runs CALL by the target's interpreter, where the target is."""
    import psutil

    command = [psutil.Process(pid).exe(), "-I", "-S", "-c", CALL]
    if sys.platform != "linux" or _same_place(pid):
        return command
    return ["nsenter", f"--target={pid}", "--mount", "--pid", "--root", "--", *command]


def _same_place(pid: int) -> bool:
    try:
        ours, theirs = Path("/proc/self"), Path(f"/proc/{pid}")
        return (theirs / "root").samefile("/") and all(
            (ours / "ns" / kind).readlink() == (theirs / "ns" / kind).readlink() for kind in ("mnt", "pid")
        )
    except OSError:
        return False
