"""`tensortui run`: the program must not notice, and the agent must be there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tensortui.cli.program import Program, command_line
from tensortui.errors import TensortuiError, UsageError

Run = Callable[..., "subprocess.CompletedProcess[str]"]

REPORT = """
import json, multiprocessing, os, sys, threading

def state():
    return {
        "argv": sys.argv,
        "path": sys.path,
        "variable": os.environ.get("PYTHONPATH"),
        "name": __name__,
        "main thread": threading.current_thread() is threading.main_thread(),
        "ours": [name for name in sys.modules if "tensortui" in name or "sitecustomize" in name],
    }

def child(queue):
    queue.put(state())

if __name__ == "__main__":
    import __main__
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    spawned = queue.get()
    process.join()
    print(json.dumps({"own": state(), "child": spawned, "file": __main__.__file__, "globals": sorted(globals())}))
    print("to stderr", file=sys.stderr)
    sys.exit(7)
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "report.py").write_text(REPORT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("program", [["report.py"], ["-m", "report"]])
@pytest.mark.parametrize("path", [None, "", os.pathsep.join(["extra", "/nowhere"])])
def test_a_program_runs_as_python_would_run_it(
    report: Path, program: list[str], path: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    words = [*program, "--help", "a b", "-m"]
    plain = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)
    ours = subprocess.run(
        [sys.executable, "-m", "tensortui", "run", "--no-viewer", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert json.loads(ours.stdout) == json.loads(plain.stdout)
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr) == (7, "to stderr\n")


def test_the_environments_own_sitecustomize_still_runs(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (report / "extra").mkdir()
    (report / "extra" / "sitecustomize.py").write_text("import sys\nsys.customized = __file__\n")
    (report / "ask.py").write_text("import sys, sitecustomize\nprint(sys.customized, sitecustomize.__file__)\n")
    monkeypatch.setenv("PYTHONPATH", str(report / "extra"))
    result = subprocess.run(
        [sys.executable, "-m", "tensortui", "run", "--no-viewer", "ask.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    own = str(report / "extra" / "sitecustomize.py")
    assert (result.stdout, result.stderr) == (f"{own} {own}\n", "")


def test_no_directory_is_left(report: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    subprocess.run(
        [sys.executable, "-m", "tensortui", "run", "--no-viewer", "-m", "this"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert list(folder.iterdir()) == []


def test_the_agent_waits_in_the_program(
    tensortui: Run, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch, time\nkept = torch.ones(1000)\nprint('READY', flush=True)\ntime.sleep(60)\n")
    process = start(sys.executable, "-m", "tensortui", "run", "--no-viewer", str(program))
    assert process.stdout is not None
    assert process.stdout.readline() == "READY\n"
    documents = [json.loads(tensortui("snapshot", str(process.pid), "--json").stdout) for _ in range(2)]
    for document in documents:
        assert document["process"]["command"][1:] == [str(program)]
        assert [each["shape"] for each in document["tensors"] if "kept" in each["names"]] == [[1000]]
    detached = tensortui("detach", str(process.pid))
    assert (detached.returncode, detached.stdout) == (0, f"The agent has left process {process.pid}.\n")
    again = tensortui("detach", str(process.pid))
    said = f"There is no agent in process {process.pid}: nothing is to be done.\n"
    assert (again.returncode, again.stdout, again.stderr) == (0, said, "")
    assert process.poll() is None


def test_signals_and_their_exit_status_are_the_programs_own(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text("import time\nprint('READY', flush=True)\ntime.sleep(60)\n")
    process = start(sys.executable, "-m", "tensortui", "run", "--no-viewer", str(program))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_program_with_a_log_has_its_output_there_and_an_agent(tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    source.write_text("import sys, time\nprint('out', flush=True)\nprint('err', file=sys.stderr)\ntime.sleep(60)\n")
    log = tmp_path / "logs" / "program.log"
    program = Program.start(command_line(sys.executable, False, str(source), []), log, agent=True)
    try:
        endpoint = program.wait_for_agent(30)
        assert (endpoint.pid, program.ended()) == (program.pid, None)
        assert os.getsid(program.pid) == program.pid, "it can outlive the terminal"
        assert log.stat().st_mode & 0o077 == 0, "the log is the user's alone"
    finally:
        program.end()
    assert log.read_text() == "out\nerr\n"
    assert program.ended() == "was killed by signal 15"


def test_a_program_that_fails_at_once_is_told_with_its_output(tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    source.write_text("raise SystemExit('no data here')")
    program = Program.start(command_line(sys.executable, False, str(source), []), tmp_path / "log", agent=True)
    program.process.wait(30)
    error = program.failure(program.ended() or "")
    assert error.cause == "The program exited with status 1 before the viewer could open."
    assert error.next_step.endswith(", and ends with: no data here")


def test_where_no_temporary_file_can_be_written_it_is_said(tmp_path: Path) -> None:
    code = "import sys, tempfile\ntempfile._candidate_tempdir_list = lambda: ['/nowhere']\n"
    code += f"from tensortui.cli.main import main\nsys.exit(main(['run', '--no-viewer', {__file__!r}]))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    first, second = result.stderr.splitlines()
    assert first.startswith("tensortui: A temporary file cannot be written: ")
    assert "TMPDIR" in second


@pytest.fixture
def no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that may be executed, and that the kernel cannot; whatever is made meanwhile lies beside it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = tmp_path / "python"
    program.write_text("no program")
    program.chmod(0o755)
    return program


def test_an_interpreter_that_cannot_be_run_is_said_and_nothing_is_left(tensortui: Run, no_python: Path) -> None:
    result = tensortui("run", "--no-viewer", "--python", str(no_python), __file__)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tensortui: {no_python} cannot be run: Exec format error.\n")
    with pytest.raises(UsageError, match="cannot be run"):
        Program.start([str(no_python)], no_python.parent / "log", agent=True)
    assert sorted(path.name for path in no_python.parent.iterdir()) == ["log", "python"]


def test_a_program_that_is_no_python_leaves_nothing(no_python: Path) -> None:
    program = Program.start(["/bin/true"], no_python.parent / "log", agent=True)
    with pytest.raises(TensortuiError, match="exited with status 0 before the viewer could open"):
        program.wait_for_agent(30)
    assert sorted(path.name for path in no_python.parent.iterdir()) == ["log", "python"]
