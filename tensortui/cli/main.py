"""The `tensortui` command: finds the subcommand, runs it, and turns what goes wrong into one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import NoReturn

from tensortui.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, TensortuiError, UsageError
from tensortui.version import VERSION

COMMANDS = ("attach", "run", "ps", "snapshot", "diff", "holders", "demo", "detach")
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
DESCRIPTION = "Attach to a running PyTorch process and see its tensors, storages and memory, live, in the terminal."
EPILOG = """\
To start:  tensortui demo            a small training process to look at
           tensortui attach          choose one of the running PyTorch processes

Exit codes: 0 fine, 1 failed, 2 usage or an unreadable file, 130 interrupted; of `run` the program's own, once it ended.
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are those of every other failure: one line, then what to do."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong as a UsageError."""
        raise UsageError(message, f"See `{self.prog} --help`.")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command's module adds its own arguments."""
    parser = Parser(
        prog="tensortui", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"tensortui {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name in COMMANDS:
        module = import_module(f"tensortui.cli.{name}")
        summary, _, details = (module.__doc__ or "").partition("\n")
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary}\n{details}".strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (sys.argv's by default) and return the exit code."""
    _have_streams()
    _end_in_order()
    try:
        parser = build_parser()
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help(sys.stderr)
            return EXIT_USAGE
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except TensortuiError as error:
        return _report(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left. Python would complain once more when it closes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_ERRORS:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _report(TensortuiError(f"The output could not be written: {error.strerror}.", "Send it elsewhere."))


def _have_streams() -> None:
    """Give the standard streams that are closed to /dev/null: else files of ours would come to lie in their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
        elif number and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # what it cannot show is shown as an escape


def _end_in_order() -> None:
    """Let SIGTERM and SIGHUP end us like any other end: agents that we brought leave, programs that we started end."""

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, leave)


def _report(error: TensortuiError) -> int:
    from tensortui.analysis.text import safe

    print(f"tensortui: {safe(error.cause)}", file=sys.stderr)
    if error.next_step:
        print(safe(error.next_step), file=sys.stderr)
    return error.exit_code
