"""`tensortui snapshot` on a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tensortui.attach import attach, find_endpoint
from tensortui.attach.waiting import poll
from tensortui.cli.progress import words
from tensortui.cli.snapshot import read
from tensortui.cli.summary import distinct_names, findings, graph_lines
from tensortui.model import Graph, Process, Sample
from tensortui.sources.live import LiveSource

Run = Callable[..., "subprocess.CompletedProcess[str]"]
LOSSES = """
import time, torch
model = torch.nn.Linear(64, 32)
losses = [model(torch.ones(4, 64)).sum() for _ in range(6)]
print("READY", flush=True)
while True:
    time.sleep(0.05)
"""


def test_the_document_is_all_that_goes_to_stdout(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    result = tensortui("snapshot", str(trainer.pid), "--json")
    document = json.loads(result.stdout)
    assert (result.returncode, result.stderr) == (0, "")
    assert document["schema"] == 1
    assert document["process"]["pid"] == trainer.pid
    assert "graph" not in document
    weight = next(tensor for tensor in document["tensors"] if "model.weight" in tensor["names"])
    assert (weight["shape"], weight["category"], weight["bytes"]) == ([32, 64], "parameter", 8192)
    assert document["totals"]["by_category"]["optimizer"] == 2 * (8192 + 128) + 2 * 4


def test_the_graph_comes_when_it_is_asked_for(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    document = json.loads(tensortui("snapshot", str(trainer.pid), "--json", "--graph").stdout)
    names = {node["name"] for node in document["graph"]["nodes"]}
    assert {"SumBackward0", "AddmmBackward0", "AccumulateGrad"} <= names
    saved = {one["tensor"] for node in document["graph"]["nodes"] for one in node["saved"]} - {None}
    assert saved
    assert saved <= {tensor["id"] for tensor in document["tensors"]}


def test_without_json_it_is_a_summary(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    lines = tensortui("snapshot", str(trainer.pid)).stdout.splitlines()
    assert lines[0].startswith(f"process {trainer.pid}  ")
    assert any(line.startswith("by category") and "parameter 8.12 KiB" in line for line in lines)
    assert any(line.endswith("model.weight") and "parameter" in line for line in lines)
    assert "findings     none, in the sample; --graph looks through the graph too" in lines
    assert f"             growth needs watching: tensortui attach {trainer.pid}" in lines
    assert not any(line.startswith("graph ") for line in lines)


def test_the_summary_tells_of_the_graph_when_it_is_asked_for(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    result = tensortui("snapshot", str(trainer.pid), "--graph")
    assert (result.returncode, result.stderr) == (0, "")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("graph ")]
    assert line == "graph        5 nodes, 1 saved tensor on 1 storage, 1.00 KiB; the graph alone keeps 1.00 KiB"
    assert "findings     none, in the sample and its graph" in result.stdout.splitlines()


CARRIED = """
import time, torch
state = torch.ones((), requires_grad=True)
for _ in range(12_000):
    state = state * 1.0
print("READY", flush=True)
while True:
    time.sleep(0.05)
"""


def test_of_a_graph_that_was_read_in_part_the_summary_says_so(
    tensortui: Run, start_ready: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = tmp_path / "carried.py"
    program.write_text(CARRIED)
    lines = tensortui("snapshot", str(start_ready(str(program)).pid), "--graph").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("graph ")]
    assert line.startswith("graph        read in part: 10,000 nodes, of at least 12,000 in a row, ")
    assert "; what was read alone keeps " in line
    (line,) = [line for line in lines if line.startswith("findings ")]
    assert line.startswith("findings     graph read in part: 10,000 nodes; ")


def test_what_was_not_read_is_not_counted() -> None:
    sample = Sample(1, 1000.0, Process(7), storages={}, tensors={})
    unread = Graph((), (), True, ("because",))
    assert graph_lines(sample, unread) == [
        "graph        not read: what it saved and keeps is not known",
        "             not all of it: because",
    ]
    document = {"findings": [], "graph": {"nodes": [], "cut": True}, "process": {"pid": 1}}
    assert findings(document, 100)[0] == "findings     graph not read; none in the sample"


def test_the_summary_tells_of_findings_that_need_the_graph(
    tensortui: Run, start_ready: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = tmp_path / "losses.py"
    program.write_text(LOSSES)
    pid = str(start_ready(str(program)).pid)
    found = "             warning: losses holds 6 losses with their graphs: "
    assert found in tensortui("snapshot", pid, "--graph").stdout
    assert found not in tensortui("snapshot", pid).stdout


def test_the_summary_says_a_name_once_and_what_autograd_saved_last() -> None:
    names = ["mat2 saved by AddmmBackward0", "fc.weight", "mat2 saved by AddmmBackward0", "tied"]
    assert distinct_names(names) == ["fc.weight", "tied", "2 x mat2 saved by AddmmBackward0"]


def test_nothing_is_left_in_the_process(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    tasks = Path(f"/proc/{trainer.pid}/task")
    before = len(list(tasks.iterdir()))
    assert tensortui("snapshot", str(trainer.pid), "--json").returncode == 0
    assert find_endpoint(trainer.pid) is None
    assert len(list(tasks.iterdir())) == before
    assert trainer.poll() is None


async def test_the_agent_stays_for_another_viewer(trainer: subprocess.Popen[str]) -> None:
    endpoint = attach(trainer.pid)
    other = await LiveSource.connect(endpoint, interval=None)
    assert (await read(endpoint, graph=False))[0].process.pid == trainer.pid
    assert endpoint.fresh
    assert find_endpoint(trainer.pid) is not None
    assert (await other.refresh()).tensors
    assert await other.detach(if_alone=True)  # the first has hung up
    # the agent says goodbye a moment before its socket goes
    assert poll(lambda: find_endpoint(trainer.pid) is None, 30)


def test_it_can_be_repeated(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    first, second = (json.loads(tensortui("snapshot", str(trainer.pid), "--json").stdout) for _ in range(2))
    assert first["totals"] == second["totals"]


def test_what_takes_too_long_is_given_up(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    result = tensortui("snapshot", str(trainer.pid), "--json", "--wait", "0.0001")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"tensortui: Process {trainer.pid} was not read within 0.0001 s.\n")
    assert "--wait" in result.stderr
    assert find_endpoint(trainer.pid) is None


def test_the_agent_of_a_process_that_is_stopped_has_not_left(tensortui: Run, trainer: subprocess.Popen[str]) -> None:
    attach(trainer.pid)
    stop(trainer)
    result = tensortui("snapshot", str(trainer.pid), "--json")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"kill -CONT {trainer.pid}" in result.stderr
    detached = tensortui("detach", str(trainer.pid))
    assert detached.returncode == 1 and "has left" not in detached.stdout
    assert f"stopped (SIGSTOP): kill -CONT {trainer.pid}" in detached.stderr
    trainer.send_signal(signal.SIGCONT)
    assert tensortui("detach", str(trainer.pid)).returncode == 0


async def test_what_is_waited_for_is_said_with_its_progress(trainer: subprocess.Popen[str]) -> None:
    source = await LiveSource.connect(attach(trainer.pid))
    assert words(source) in (f"waiting for process {trainer.pid}", "looking for tensors: 0%")
    sample = await source.refresh()
    assert words(source) == f"reading {len(sample.tensors)} tensors"
    for phase, said in (("scanning", "looking for tensors: 40%"), ("waiting", "has not imported torch yet")):
        source.latest = replace(sample, phase=phase, progress=0.4)
        assert said in words(source)
    stop(trainer)
    assert words(source) == f"process {trainer.pid} is stopped (SIGSTOP): kill -CONT {trainer.pid}"
    trainer.send_signal(signal.SIGCONT)
    assert await source.detach()


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
