"""List the Python processes that can be attached to.

Shown are the processes that have PyTorch loaded; with --all every Python process. Where attaching is not possible, the
reason stands below the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensortui.attach.processes import ProcessInfo

HEADINGS = ("pid", "user", "age", "threads", "rank", "GPU memory", "Python", "torch", "attach", "command")
RIGHT = ("pid", "age", "threads", "GPU memory")
GIVE_WAY = ("threads", "rank", "user", "age", "Python")  # in this order, to the command on a narrow terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui ps`."""
    parser.add_argument("--all", action="store_true", help="every Python process, also those without PyTorch")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Print the processes."""
    everything = processes()
    shown = everything if arguments.all else [each for each in everything if each.torch is not False]
    if arguments.json:
        print(json.dumps([dataclasses.asdict(each) for each in shown], ensure_ascii=True, indent=2))
        return 0
    if shown:
        from tensortui.cli.table import terminal_width

        print("\n".join(lines(shown, terminal_width())))
    else:
        print("No Python process with PyTorch is running." if everything else "No other Python process is running.")
    if len(everything) > len(shown):
        print(f"Python processes without PyTorch: {len(everything) - len(shown)} (`tensortui ps --all`).")
    return 0


def processes() -> list[ProcessInfo]:
    """Return every Python process but this one, with the GPU memory that it uses where a driver knows."""
    from tensortui.attach.processes import list_processes
    from tensortui.gpu.processes import gpu_processes

    used = gpu_processes().used
    return [
        dataclasses.replace(each, gpu_memory=used.get(each.pid), why_not=with_next_step(each))
        for each in list_processes()
    ]


def with_next_step(process: ProcessInfo) -> str:
    """Return why a process cannot be attached to, and what to do about it where that is one command."""
    from tensortui.attach.errors import StoppedError

    return _stopped(process) if process.why_not == StoppedError(process.pid).cause else process.why_not


def _stopped(process: ProcessInfo) -> str:
    from tensortui.attach.errors import StoppedError

    stopped = StoppedError(process.pid)
    return f"{stopped.cause} {stopped.next_step}"


def is_silent(process: ProcessInfo) -> bool:
    """Whether the agent in it cannot answer before the process goes on."""
    return process.agent and process.stopped


def attach_text(process: ProcessInfo) -> str:
    """Return whether a process can be attached to, in a word."""
    if process.agent:
        return "stopped" if process.stopped else "agent"
    return "yes" if process.attachable else "no"


def lines(shown: Sequence[ProcessInfo], width: int) -> list[str]:
    """Return the table of `shown`, and below it why some cannot be attached to."""
    from tensortui.analysis.text import safe
    from tensortui.analysis.units import format_age, format_bytes
    from tensortui.cli.table import fitting

    rows = [
        (
            str(each.pid),
            safe(each.user),
            format_age(each.age),
            "n/a" if each.threads is None else str(each.threads),
            rank_text(each),
            format_bytes(each.gpu_memory, none="-"),
            "n/a" if each.python is None else "{}.{}".format(*each.python),
            {True: "yes", False: "no", None: "n/a"}[each.torch],
            attach_text(each),
            safe(each.title),
        )
        for each in shown
    ]
    reasons = [f"{each.pid} cannot be attached to: {safe(each.why_not)}" for each in shown if not each.attachable]
    reasons += [f"{each.pid} has an agent that does not answer: {_stopped(each)}" for each in shown if is_silent(each)]
    return [*fitting(HEADINGS, rows, width, GIVE_WAY, RIGHT), *reasons]


def rank_text(process: ProcessInfo) -> str:
    """Return the rank in a distributed job, "-" outside one."""
    if process.rank is None:
        return "-"
    return str(process.rank) if process.world_size is None else f"{process.rank}/{process.world_size}"
