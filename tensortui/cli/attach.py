"""Attach to a running process and look at its tensors, live.

Without PID, choose one of the running Python processes from a list. The process needs nothing installed and goes on
undisturbed: an agent is put into it, which ends itself some time after its last viewer has left. Nothing of it remains.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tensortui.cli.configuration import add_config_option, thresholds
from tensortui.cli.options import add_attach_options, add_view_options
from tensortui.cli.target import parse_pid, require_terminal

if TYPE_CHECKING:
    from tensortui.analysis.findings import Thresholds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui attach`."""
    parser.add_argument(
        "pid", metavar="PID", nargs="?", help="the process to attach to; without it, choose from a list"
    )
    add_attach_options(parser)
    add_view_options(parser)
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attach, and show the viewer until it is quit."""
    pid = parse_pid(arguments.pid) if arguments.pid is not None else None
    limits = thresholds(arguments.config)
    if pid is None:
        require_terminal("tensortui ps")
        return _choose(arguments, limits)
    require_terminal(f"tensortui snapshot {pid} --json")
    from tensortui.cli.connecting import attached
    from tensortui.cli.viewer import view

    options = {"timeout": arguments.timeout, "budget": arguments.budget}
    view(attached(pid, **options), arguments, limits, **options)
    return 0


def _choose(arguments: argparse.Namespace, limits: Thresholds) -> int:
    from tensortui.cli.viewer import choose

    choose(arguments, limits, timeout=arguments.timeout, budget=arguments.budget)
    return 0
