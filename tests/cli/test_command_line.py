"""Help, usage errors and exit codes of every command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tensortui.attach import attach
from tensortui.cli.main import COMMANDS
from tensortui.version import VERSION

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_goes_to_stdout_and_answers_at_once(tensortui: Run, command: str) -> None:
    started = time.monotonic()
    result = tensortui(*command.split(), "--help")
    print(f"tensortui {command} --help: {time.monotonic() - started:.3f} s")
    assert result.returncode == 0
    assert result.stdout.startswith(f"usage: tensortui {command}".strip())
    assert result.stderr == ""


def test_help_names_every_command(tensortui: Run) -> None:
    lines = [line.split()[0] for line in tensortui("--help").stdout.splitlines() if line.startswith("    ")]
    assert [name for name in COMMANDS if name not in lines] == []


def test_help_loads_neither_textual_nor_asyncio_nor_psutil() -> None:
    code = (
        "import sys\n"
        "from tensortui.cli.main import build_parser\n"
        "build_parser().format_help()\n"
        "print([name for name in ('textual', 'rich', 'asyncio', 'psutil', 'torch', 'msgspec') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_version(tensortui: Run) -> None:
    assert tensortui("--version").stdout == f"tensortui {VERSION}\n"


def test_without_a_command_the_help_comes_on_stderr(tensortui: Run) -> None:
    result = tensortui()
    assert (result.returncode, result.stdout) == (2, "")
    assert "commands:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["snapshot"], "PID"),
        (["frobnicate"], "invalid choice"),
        (["run"], "the following arguments are required: PROG"),
        (["snapshot", "1", "--wait", "0"], "'0' is not a number of seconds above 0"),
        (["holders", "1"], "the following arguments are required: TENSOR"),
        (["holders", "1", "x", "--limit", "0"], "'0' is not a number of chains from 1 to 64"),
        (["holders", "1", "x", "--limit", "many"], "'many' is not a number of chains"),
        (["snapshot", "train.py"], "'train.py' is not a process id."),
        (["snapshot", "1_0"], "'1_0' is not a process id."),
        (["snapshot", "٣"], "is not a process id."),
        (["snapshot", "0"], "0 cannot be a process id."),
        (["snapshot", "-5"], "-5 cannot be a process id."),
        (["snapshot", "9" * 30], "cannot be a process id."),
        (["detach", "x\x1b[31m"], "is not a process id."),
        (["attach", "0"], "0 cannot be a process id."),
        (["attach"], "needs a terminal"),
        (["attach", "1"], "needs a terminal"),
        (["run", "-m", "json.tool"], "needs a terminal"),
        (["run", "no/such/file.py"], "There is no program"),
        (["run", "--python", "no-such-python", __file__], "There is no interpreter"),
        (["demo", "nothing"], "There is no demo 'nothing'."),
        (["demo"], "needs a terminal"),
    ],
)
def test_usage_errors_are_a_cause_and_a_next_step(tensortui: Run, arguments: list[str], cause: str) -> None:
    result = tensortui(*arguments)
    first, *rest = result.stderr.splitlines()
    assert (result.returncode, result.stdout) == (2, "")
    assert first.startswith("tensortui: ")
    assert cause in first
    assert "ARGS" not in first
    assert len(rest) == 1
    assert "`" in rest[0] or rest[0].startswith("Give"), "the next step says what to type"
    assert "\x1b" not in result.stderr


def test_attach_without_a_terminal_names_what_works_there(tensortui: Run) -> None:
    assert "`tensortui snapshot 4321 --json`" in tensortui("attach", "4321").stderr


@pytest.mark.parametrize("command", ["snapshot", "detach"])
def test_a_process_that_is_gone_is_a_failure(
    tensortui: Run, command: str, start: Callable[..., subprocess.Popen[str]]
) -> None:
    gone = start("true")
    gone.wait()
    result = tensortui(command, str(gone.pid))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"tensortui: Process {gone.pid} does not exist.\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_what_is_in_another_users_process_is_not_claimed_to_be_nothing(trainer: subprocess.Popen[str]) -> None:
    attach(trainer.pid)
    # all of it is loaded before the change of user, who may not be able to read it
    code = "import asyncio, os, sys, tensortui.analysis.text, tensortui.attach\nfrom tensortui.cli import main\n"
    code += f"main.build_parser()\nos.setuid(54321)\nsys.exit(main.main(['detach', '{trainer.pid}']))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert result.stderr.startswith(f"tensortui: Process {trainer.pid} belongs to another user (uid 0).\n")


def test_an_interrupt_ends_with_130(start: Callable[..., subprocess.Popen[str]]) -> None:
    code = "import signal, sys, tensortui.cli.ps as ps\nfrom tensortui.cli.main import main\n"
    code += "ps.lines = lambda *_: signal.raise_signal(signal.SIGINT)\nps.print = ps.lines\nsys.exit(main(['ps']))"
    process = start(sys.executable, "-c", code)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")


def test_a_reader_that_leaves_is_no_error(trainer: subprocess.Popen[str]) -> None:
    command = f"{sys.executable} -m tensortui snapshot {trainer.pid} --json | head -c 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (result.stdout, result.stderr) == ("{", "")


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0)])
def test_streams_that_are_closed_are_no_error(closed: str, code: int) -> None:
    command = f"{sys.executable} -m tensortui ps --all {closed}"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (code, "")


def test_an_error_never_goes_to_stdout() -> None:
    command = f"{sys.executable} -m tensortui snapshot x 2>&-"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")


@pytest.mark.parametrize("stream", ["<", ">"])
def test_a_viewer_without_streams_needs_a_terminal(stream: str) -> None:
    command = f"{sys.executable} -m tensortui attach 1 {stream}&-"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr.splitlines()[0]) == (2, "tensortui: The viewer needs a terminal.")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("what", ["ps --all", "snapshot PID --json", "snapshot PID"])
def test_a_full_disk_is_said(trainer: subprocess.Popen[str], what: str) -> None:
    command = f"{sys.executable} -m tensortui {what.replace('PID', str(trainer.pid))} > /dev/full"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr.splitlines()) == (
        1,
        ["tensortui: The output could not be written: No space left on device.", "Send it elsewhere."],
    )


def test_ctrl_c_while_the_command_is_being_loaded_is_quiet() -> None:
    """The finder stands for an import in which the signal comes."""
    code = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "tensortui.cli.main": raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from tensortui.__main__ import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
