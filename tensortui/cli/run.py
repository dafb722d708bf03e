"""Start a Python program with the agent in it, and look at its tensors.

The program runs as `python PROG ARGS...` (or `python -m MODULE ARGS...`) would run it, but it gets no input: its stdin
is empty, for the keys are the viewer's. Its output goes to a log file, and the viewer opens. Quitting the viewer leaves
the program running, and says its pid and log.

The exit status is that of the program, 128 and its number for a signal that killed it; 0 while the program goes on.

With --no-viewer the program keeps this terminal, its input, its signals and its exit status, and the agent waits for
viewers: open one elsewhere with `tensortui attach PID`. This way works where attaching to a running process is not
allowed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tensortui.cli.configuration import add_config_option, thresholds
from tensortui.cli.options import add_budget_option, add_view_options
from tensortui.cli.program import Program, command_line, replace_this_process
from tensortui.cli.target import require_terminal
from tensortui.errors import TensortuiError

AGENT_SECONDS = 15.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui run`."""
    parser.add_argument("--no-viewer", action="store_true", help="only start the program; the agent waits for viewers")
    parser.add_argument("--python", metavar="EXE", default=sys.executable, help="the interpreter (default: this one)")
    parser.add_argument(
        "--log", metavar="FILE", type=Path, help="where the program's output goes while the viewer is open"
    )
    add_budget_option(parser)
    add_view_options(parser)
    add_config_option(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="PROG is a module, as in python -m")
    parser.add_argument("program", metavar="PROG", help="a Python file, or with -m a module")
    rest = parser.add_argument(
        "arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="the program's own arguments"
    )
    rest.required = False  # there may be none; argparse would name it among what is missing


def run(arguments: argparse.Namespace) -> int:
    """Start the program; then show the viewer, or get out of its way."""
    command = command_line(arguments.python, arguments.module, arguments.program, arguments.arguments)
    if arguments.no_viewer:
        replace_this_process(command, budget=arguments.budget)
    limits = thresholds(arguments.config)
    require_terminal("tensortui run --no-viewer PROG ARGS...")
    log = arguments.log or default_log(arguments.program)
    program = Program.start(command, log, agent=True, budget=arguments.budget)
    from tensortui.cli.viewer import view

    try:
        endpoint = program.wait_for_agent(AGENT_SECONDS)
    except TensortuiError as error:  # which says what has become of the program
        if (status := program.status()) is not None:
            error.exit_code = status
        raise
    except BaseException:
        tell(program)
        raise
    try:
        view(endpoint, arguments, limits, log=program.log)
    finally:
        tell(program)
    return program.status() or 0


def default_log(program: str) -> Path:
    """Where the output of `program` goes when no file was named: the user's folder for logs."""
    import platformdirs

    name = f"{Path(program).stem}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    return Path(platformdirs.user_log_dir("tensortui", appauthor=False)) / name


def tell(program: Program) -> None:
    """Say on stderr what has become of the program, now that the viewer is gone."""
    ended = program.ended()
    if ended is None:
        print(f"tensortui: the program goes on as process {program.pid}; its output: {program.log}", file=sys.stderr)
        print(f"Look again: `tensortui attach {program.pid}`. End it: `kill {program.pid}`.", file=sys.stderr)
    else:
        print(f"tensortui: the program {ended}; its output: {program.log}", file=sys.stderr)
