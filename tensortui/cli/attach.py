"""Attach to a running process and look at its tensors, live.

Without PID, choose one of the running Python processes from a list. The process needs nothing installed and goes on
undisturbed: an agent is put into it, which ends itself some time after its last viewer has left. Nothing of it remains.
"""

from __future__ import annotations

import argparse

from tensortui.cli.target import parse_pid, require_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui attach`."""
    parser.add_argument(
        "pid", metavar="PID", nargs="?", help="the process to attach to; without it, choose from a list"
    )
    add_attach_options(parser)


def add_attach_options(parser: argparse.ArgumentParser) -> None:
    """Declare how long attaching may take and what the agent may cost: the same for every command that attaches."""
    parser.add_argument(
        "--timeout", type=float, default=5.0, metavar="S", help="give up attaching after S seconds (default 5)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=1.0,
        metavar="PERCENT",
        help="the part of the process's time that the agent may use (default 1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Attach, and show the viewer until it is quit."""
    if arguments.pid is None:
        require_terminal("tensortui ps")
        return _choose(arguments)
    pid = parse_pid(arguments.pid)
    require_terminal(f"tensortui snapshot {pid} --json")
    from tensortui.attach import attach
    from tensortui.cli.viewer import view

    view(attach(pid, timeout=arguments.timeout, budget=arguments.budget / 100))
    return 0


def _choose(arguments: argparse.Namespace) -> int:
    from tensortui.cli.viewer import choose

    choose(timeout=arguments.timeout, budget=arguments.budget / 100)
    return 0
