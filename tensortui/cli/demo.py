"""Start a small real training process and attach to it, to see what there is to see.

The process is ended when the viewer is quit. Other programs to look at: --list.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tensortui.cli.configuration import add_config_option, thresholds
from tensortui.cli.options import add_view_options
from tensortui.cli.program import Program, temporary_folder
from tensortui.cli.target import require_terminal
from tensortui.errors import TensortuiError, UsageError

if TYPE_CHECKING:
    from tensortui.analysis.findings import Thresholds

READY_SECONDS = 120.0
DEFAULT = "train"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui demo`."""
    parser.add_argument("name", metavar="NAME", nargs="?", default=DEFAULT, help=f"which program (default {DEFAULT})")
    add_view_options(parser)
    add_config_option(parser)
    parser.add_argument("--list", action="store_true", help="list the programs and what each is about")


def run(arguments: argparse.Namespace) -> int:
    """Start the demo program, attach to it, show the viewer, end the program."""
    programs = demo_programs()
    if arguments.list:
        for name, program in programs.items():
            print(f"{name:<8} {summary(program)}")
        return 0
    path = programs.get(arguments.name)
    if path is None:
        raise UsageError(f"There is no demo {arguments.name!r}.", "List them: `tensortui demo --list`.")
    limits = thresholds(arguments.config)
    if find_spec("torch") is None:
        raise TensortuiError(
            "The demo trains a model, and PyTorch is not installed here.",
            f"Install it: `{sys.executable} -m pip install torch numpy`.",
            kind="no_torch",
        )
    require_terminal(f"{sys.executable} {path} & tensortui snapshot $! --json")
    print(f"Starting {path}\n{summary(path)}", file=sys.stderr)
    folder = temporary_folder("tensortui-demo-")
    try:
        show(path, folder / f"{arguments.name}.log", arguments, limits)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def show(path: Path, log: Path, arguments: argparse.Namespace, limits: Thresholds) -> None:
    """Attach the viewer to the demo program `path`; where attaching is refused, start it with the agent in it."""
    from tensortui.attach import attach, no_socket_left
    from tensortui.attach.errors import AttachError
    from tensortui.cli.viewer import view

    program = started(path, log, agent=False)
    try:
        try:
            endpoint = attach(program.pid)
        except AttachError as error:
            print(f"{error.cause} Starting it again with the agent in it.", file=sys.stderr)
            program.end()
            program = started(path, log, agent=True)
            endpoint = program.wait_for_agent(READY_SECONDS)
        with no_socket_left(endpoint):
            try:
                view(endpoint, arguments, limits, log=log)
            finally:
                program.end()
    finally:
        program.end()
    print(f"The demo process {program.pid} was ended.", file=sys.stderr)


def started(path: Path, log: Path, *, agent: bool) -> Program:
    """Start the demo program `path` and return it when it says that it is ready."""
    program = Program.start([sys.executable, str(path)], log, agent=agent)
    deadline = time.monotonic() + READY_SECONDS
    try:
        while "READY" not in program.log.read_text("utf-8", "replace"):
            ended = program.ended()
            if ended is not None or time.monotonic() > deadline:
                raise program.failure(ended or "did not get ready")
            time.sleep(0.05)
    except BaseException:
        program.end()
        raise
    return program


def demo_programs() -> dict[str, Path]:
    """Return the demo programs by name: those of the checkout, else those that were installed."""
    checkout = Path(__file__).resolve().parents[2] / "demo"
    installed = Path(sysconfig.get_path("data")) / "share" / "tensortui" / "demo"
    folder = checkout if (checkout / f"{DEFAULT}.py").exists() else installed
    return {path.stem: path for path in sorted(folder.glob("*.py"))}


def summary(path: Path) -> str:
    """Return the first line of the program's docstring."""
    return path.read_text("utf-8").split('"""')[1].partition("\n")[0].strip()
