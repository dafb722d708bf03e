"""Attach to a running process and look at its tensors, live.

Without PID, choose one of the running Python processes from a list. The process needs nothing installed and goes on
undisturbed: an agent is put into it, which ends itself some time after its last viewer has left. Nothing of it remains.
"""

from __future__ import annotations

import argparse

from tensortui.cli.options import add_attach_options, add_view_options
from tensortui.cli.target import parse_pid, require_terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui attach`."""
    parser.add_argument(
        "pid", metavar="PID", nargs="?", help="the process to attach to; without it, choose from a list"
    )
    add_attach_options(parser)
    add_view_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attach, and show the viewer until it is quit."""
    if arguments.pid is None:
        require_terminal("tensortui ps")
        return _choose(arguments)
    pid = parse_pid(arguments.pid)
    require_terminal(f"tensortui snapshot {pid} --json")
    from tensortui.attach import attach
    from tensortui.cli.viewer import view

    options = {"timeout": arguments.timeout, "budget": arguments.budget}
    view(attach(pid, **options), arguments, **options)
    return 0


def _choose(arguments: argparse.Namespace) -> int:
    from tensortui.cli.viewer import choose

    choose(arguments, timeout=arguments.timeout, budget=arguments.budget)
    return 0
