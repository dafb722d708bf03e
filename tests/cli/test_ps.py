"""`tensortui ps` on real processes, and its table on made ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable

from tensortui.attach.processes import ProcessInfo
from tensortui.cli.ps import lines

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def process(**changes: object) -> ProcessInfo:
    fields: dict[str, object] = {
        "pid": 41,
        "command": "/opt/venv/bin/python train.py --size large",
        "age": 90.0,
        "threads": 3,
        "user": "ada",
        "python": (3, 11),
        "torch": True,
        "rank": None,
        "local_rank": None,
        "world_size": None,
        "attachable": True,
        "why_not": "",
        "agent": False,
        "gpu_memory": None,
    }
    return ProcessInfo(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_training_process_is_listed(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    result = tensortui("ps")
    assert (result.returncode, result.stderr) == (0, "")
    line = next(line for line in result.stdout.splitlines() if line.split()[0] == str(trainer.pid))
    assert line.endswith("trainer.py")
    assert " yes " in line


def test_json_has_the_same(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    listed = {each["pid"]: each for each in json.loads(tensortui("ps", "--json").stdout)}
    mine = listed[trainer.pid]
    assert (mine["torch"], mine["attachable"], mine["agent"], mine["why_not"]) == (True, True, False, "")


def test_a_process_without_torch_is_listed_with_all(
    tensortui: Run, start_ready: Callable[..., subprocess.Popen[str]]
) -> None:
    plain = start_ready("-c", "print('READY', flush=True); input()", stdin=subprocess.PIPE)
    pids = [each["pid"] for each in json.loads(tensortui("ps", "--json").stdout)]
    every = [each["pid"] for each in json.loads(tensortui("ps", "--all", "--json").stdout)]
    assert plain.pid not in pids
    assert plain.pid in every


def test_the_columns_are_aligned_and_the_command_is_cut() -> None:
    rows = lines([process(), process(pid=1234567, user="grace", rank=3, world_size=8, gpu_memory=3 << 30)], 94)
    assert rows == [
        "    pid  user    age  threads  rank  GPU memory  Python  torch  attach  command",
        "     41  ada    90 s        3  -              -  3.11    yes    yes     python train.py --s...",
        "1234567  grace  90 s        3  3/8     3.00 GiB  3.11    yes    yes     python train.py --s...",
    ]


def test_a_narrow_terminal_keeps_the_command_and_is_never_overrun() -> None:
    long = process(command="python -c " + "x = 1; " * 200)
    for room in (60, 70, 80, 94, 120):
        rows = lines([long, process(pid=1234567, user="grace", gpu_memory=3 << 30)], room)
        assert max(map(len, rows)) <= room
        assert "python -c" in rows[1]
    assert lines([long], 80)[0].split()[:3] == ["pid", "user", "age"]  # threads and rank gave way


def test_a_worker_says_whose_it_is() -> None:
    row = lines([process(role="DataLoader worker", parent=40)], 200)[1]
    assert row.endswith(" DataLoader worker of 40: python train.py --size large")


def test_what_a_terminal_could_obey_is_made_visible() -> None:
    rows = lines([process(command="python \x1b]0;title\x07\u202e.py")], 200)
    assert rows[1].endswith("python \\e]0;title\\x07\\u202e.py")


def test_why_one_cannot_be_attached_to_is_said() -> None:
    rows = lines([process(attachable=False, why_not="It is stopped.")], 100)
    assert rows[1].split()[9] == "no"
    assert rows[2] == "41 cannot be attached to: It is stopped."


def test_what_is_not_known_is_not_a_number() -> None:
    row = lines([process(threads=None, python=None, torch=None)], 200)[1]
    assert row.split()[4:9] == ["n/a", "-", "-", "n/a", "n/a"]


def test_a_process_that_is_stopped_says_how_it_goes_on(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    trainer.send_signal(signal.SIGSTOP)
    os.waitpid(trainer.pid, os.WUNTRACED)
    (reason,) = [line for line in tensortui("ps").stdout.splitlines() if line.startswith(f"{trainer.pid} cannot")]
    assert reason.endswith(f"is stopped (SIGSTOP or Ctrl-Z). Continue it first: `kill -CONT {trainer.pid}`.")


def test_an_agent_in_a_process_that_is_stopped_is_said_not_to_answer() -> None:
    rows = lines([process(agent=True), process(agent=True, stopped=True)], 100)
    assert [row.split()[9] for row in rows[1:3]] == ["agent", "stopped"]
    assert rows[3:] == [
        "41 has an agent that does not answer: Process 41 is stopped (SIGSTOP or Ctrl-Z). "
        "Continue it first: `kill -CONT 41`."
    ]
