"""Nothing is said of programs that are as they should be, and the demos that leak are told. Each is a real process."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .conftest import PROGRAMS, run_case

HEALTHY = PROGRAMS / "healthy"
DEMO = Path(__file__).parents[2] / "demo"
SECONDS = 3.0
ARGUMENTS = {"checkpointed": [["reentrant"], ["plain"]]}
NAMES = sorted(path.stem for path in HEALTHY.glob("*.py") if path.stem != "running")
PROGRAMS_TO_RUN = [(name, arguments) for name in NAMES for arguments in ARGUMENTS.get(name, [[]])]


def complaints(findings):
    return Counter((one.severity, one.kind, one.title) for one in findings if one.severity != "note")


@pytest.fixture
def program(request, tmp_path):
    path, arguments = request.param
    yield from run_case(path, tmp_path, *arguments)


@pytest.mark.parametrize(
    "program",
    [(HEALTHY / f"{name}.py", arguments) for name, arguments in PROGRAMS_TO_RUN],
    indirect=True,
    ids=["-".join([name, *arguments]) for name, arguments in PROGRAMS_TO_RUN],
)
def test_nothing_is_wrong_with(program):
    found = program.findings(SECONDS)
    assert complaints(found) == {}
    assert not [one for one in found if one.kind == "internal"]


@pytest.mark.parametrize("program", [(HEALTHY / "gan.py", [])], indirect=True, ids=["gan"])
def test_a_snapshot_of_the_command_line_says_the_same(program):
    command = [sys.executable, "-m", "tensortui", "snapshot", str(program.process.pid), "--json", "--graph"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    document = json.loads(done.stdout)
    assert [one for one in document["findings"] if one["severity"] != "note"] == []
    assert document["tensors"]


@pytest.mark.parametrize(
    ("program", "seconds", "told"),
    [
        ((DEMO / "leak.py", []), 10.0, [("warning", "growth", "history['logits'][*] grows: ")]),
        (
            (DEMO / "train.py", ["--pause", "0.02"]),
            6.0,
            [
                ("warning", "growth", "trainer.outputs[*] grows: "),
                ("warning", "retained-storage", "keeps 16.00 MiB alive for 16.00 KiB"),
            ],
        ),
        ((DEMO / "views.py", []), 2.0, [("warning", "retained-storage", "keeps 64.00 MiB alive for 16.00 KiB")]),
    ],
    indirect=["program"],
    ids=["leak", "train", "views"],
)
def test_the_demo_is_told_what_it_shows_and_nothing_else(program, seconds, told):
    def matches(found):
        return {one: [each for each in told if one[:2] == each[:2] and each[2] in one[2]] for one in complaints(found)}

    def heard(found):
        return {each for matched in matches(found).values() for each in matched}

    found = program.findings(seconds, told=lambda found: heard(found) == set(told))
    assert [one for one, matched in matches(found).items() if not matched] == []
    assert heard(found) == set(told)


@pytest.mark.parametrize("program", [(PROGRAMS / "running_loss.py", [])], indirect=True, ids=["running-loss"])
def test_a_sum_that_keeps_each_graph_is_told_though_it_holds_next_to_nothing(program):
    grows = ("warning", "growth", "the graph behind total @ main() running_loss.py grows: ")

    def heard(found):
        return [one for one in complaints(found) if one[:2] == grows[:2] and one[2].startswith(grows[2])]

    found = program.findings(6.0, told=heard)
    assert heard(found)
    assert [one for one in complaints(found) if "total" not in one[2]] == []
