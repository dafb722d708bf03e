"""The Python processes of this machine, for `tensortui ps` and the picker."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from dataclasses import dataclass
from pathlib import PurePosixPath

import psutil

from tensortui.attach import lineage, permissions, procfs
from tensortui.attach.errors import NOT_HERE, AttachError
from tensortui.attach.remote_exec import REMOTE_EXEC_VERSION
from tensortui.attach.rendezvous import find_endpoint
from tensortui.attach.target import check_state

LEAST_VERSION = (3, 9)
NAME = re.compile(r"python[\d.]*t?$")
VERSION = re.compile(r"(?:^|/)(?:lib)?python(\d)\.(\d+)")
TORCH = "libtorch_python."
MOST_DIGITS = 9


@dataclass(frozen=True)
class ProcessInfo:
    """A Python process. None stands for what could not be seen.

    `why_not` says why it cannot be attached to, empty when it can; `agent` tells that an agent listens in it already,
    and `stopped` that a signal keeps all of it from running, so that such an agent does not answer.
    `role` says what it is to process `parent` where that is certain, "DataLoader worker" for example, else it is empty.
    `gpu_memory` is in bytes, and for others to fill in.
    """

    pid: int
    command: str
    age: float
    threads: int | None
    user: str
    python: tuple[int, int] | None
    torch: bool | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    attachable: bool
    why_not: str
    agent: bool
    stopped: bool = False
    gpu_memory: int | None = None
    role: str = ""
    parent: int | None = None

    @property
    def title(self) -> str:
        """Its role, if it has one, and its command line without the interpreter's folder: what follows says more."""
        program, space, arguments = self.command.partition(" ")
        command = program.rpartition("/")[2] + space + arguments
        if not self.role:
            return command
        return f"{self.role} of {self.parent}: {command}" if self.parent is not None else f"{self.role}: {command}"


def list_processes() -> list[ProcessInfo]:
    """Every Python process but this one: those with torch first, then those that serve no other, the youngest first."""
    found = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            info = _describe(process)
        except (psutil.Error, OSError):
            continue
        if info is not None:
            found.append(info)
    return sorted(found, key=lambda info: (not info.torch, bool(info.role), info.age))


def describe(pid: int) -> ProcessInfo | None:
    """One process, or None when it is not Python or has gone."""
    try:
        return _describe(psutil.Process(pid))
    except (psutil.Error, OSError):
        return None


def _describe(process: psutil.Process) -> ProcessInfo | None:
    pid = process.pid
    images = _images(pid)
    with process.oneshot():
        status = process.status()
        if status == psutil.STATUS_ZOMBIE:
            return None
        executable = _executable(process)
        python = python_version(executable, images)
        if python is None and not NAME.match(PurePosixPath(executable or process.name()).name):
            return None
        agent = find_endpoint(pid) is not None
        why_not = "" if agent else _why_not(pid, python)
        variables = _environ(pid)
        command = _command(process)
        role, parent = lineage.of(process, executable, command)
        return ProcessInfo(
            pid=pid,
            command=" ".join(command) or process.name(),
            age=max(0.0, time.time() - process.create_time()),
            threads=process.num_threads(),
            user=process.username(),
            python=python,
            torch=None if images is None else any(TORCH in path for path in images),
            rank=_number(variables.get("RANK")),
            local_rank=_number(variables.get("LOCAL_RANK")),
            world_size=_number(variables.get("WORLD_SIZE")),
            attachable=not why_not,
            why_not=why_not,
            agent=agent,
            stopped=status == psutil.STATUS_STOPPED,
            role=role,
            parent=parent,
        )


def python_version(executable: str, images: set[str] | None) -> tuple[int, int] | None:
    """The Python that the process runs, from the names of its program and libraries; None when they do not say."""
    name = PurePosixPath(executable).name
    loaded = sorted(images or ())
    runtime = [path for path in loaded if PurePosixPath(path).name.startswith("libpython")]
    extensions = [path for path in loaded if "/lib-dynload/" in path]
    if not runtime and not extensions and not NAME.match(name):
        return None
    for path in (name, *runtime, *extensions, *loaded):
        match = VERSION.search(path)
        if match:
            return int(match[1]), int(match[2])
    return None


def _why_not(pid: int, python: tuple[int, int] | None) -> str:
    if python is not None and python < LEAST_VERSION:
        return f"Python {python[0]}.{python[1]} is older than 3.9"
    entered = sys.platform == "linux" and platform.machine() == "x86_64"
    if not entered and (python is None or python < REMOTE_EXEC_VERSION):
        return NOT_HERE
    if sys.platform != "linux":
        return "" if os.geteuid() == 0 else "needs root (sudo) on this platform"
    try:
        check_state(pid)
        # opening it for writing asks the kernel the very question that ptrace would
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC))
    except AttachError as error:
        return error.cause
    except OSError:
        return permissions.explain(pid).cause
    return ""


def _images(pid: int) -> set[str] | None:
    """The files that are mapped; None where that cannot be seen."""
    if sys.platform != "linux":
        return None
    try:
        return {mapping.path for mapping in procfs.maps(pid) if mapping.path.startswith("/")}
    except OSError:
        return None


def _environ(pid: int) -> dict[str, str]:
    try:
        return procfs.environ(pid)
    except OSError:
        return {}


def _executable(process: psutil.Process) -> str:
    try:
        return str(process.exe())
    except psutil.Error:
        return ""


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _number(text: str | None) -> int | None:
    """A rank or a number of ranks; the environment of a process may hold anything."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
