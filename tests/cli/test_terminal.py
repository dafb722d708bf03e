"""The viewer in a real terminal of 80 by 24, driven by keys."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tensortui.attach.rendezvous import socket_paths

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

WAIT_SECONDS = 60.0


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout

    def start(self, command: str, width: int = 80, height: int = 24, **environment: str) -> None:
        variables = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), *variables, f"{command}; echo code $?; cat")

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def wait_for(self, pattern: str) -> str:
        """Return the screen when `pattern` is on it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            screen = self.screen()
            if re.search(pattern, screen, re.MULTILINE):
                return screen
            assert time.monotonic() < deadline, f"{pattern!r} did not come; the screen:\n{screen}"
            time.sleep(0.1)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    window = Terminal(tmp_path)
    yield window
    subprocess.run(["tmux", "-S", str(tmp_path / "tmux"), "kill-server"], capture_output=True, check=False)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_the_demo_shows_its_tensors_and_ends_with_the_viewer(terminal: Terminal, root: Path) -> None:
    terminal.start(f"{sys.executable} -m tensortui demo")
    screen = terminal.wait_for(r"trainer\.sample")
    assert "1 Tensors" in screen
    assert "4096, 1024" in screen or "(4, 1024)" in screen
    pid = int(re.search(r"pid (\d+)", screen)[1])  # type: ignore[index]
    assert os.path.samefile(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1], root / "demo" / "train.py")
    (socket,) = [path for path in map(Path, socket_paths(pid)) if path.exists()]
    socket = Path(str(socket).removeprefix(f"/proc/{pid}/root"))
    assert socket.exists()
    terminal.press("q")
    terminal.wait_for(f"The demo process {pid} was ended\\.")
    terminal.wait_for(r"^code 0$")
    assert not is_running(pid)
    assert not socket.exists()


def test_a_demo_whose_terminal_goes_away_ends_too(terminal: Terminal) -> None:
    terminal.start(f"exec {sys.executable} -m tensortui demo")
    pid = int(re.search(r"pid (\d+)", terminal.wait_for(r"pid \d+"))[1])  # type: ignore[index]
    terminal.tmux("kill-server")
    deadline = time.monotonic() + WAIT_SECONDS
    while is_running(pid):
        assert time.monotonic() < deadline, "the demo process goes on without its viewer"
        time.sleep(0.1)


def test_attach_looks_at_a_running_process_and_leaves_it_running(
    terminal: Terminal, trainer: subprocess.Popen[str]
) -> None:
    terminal.start(f"{sys.executable} -m tensortui attach {trainer.pid}", width=120, height=30)
    terminal.wait_for(r"model\.weight")
    terminal.press("f", "name~outputs", "Enter")  # without a pause: none of it may run as a command
    terminal.wait_for(r"filter name~outputs .* 0 of \d+ shown")
    terminal.wait_for("no tensor passes this filter: esc clears it")
    trainer.send_signal(signal.SIGSTOP)
    terminal.wait_for(rf"stopped \(SIGSTOP\): kill -CONT {trainer.pid}")
    trainer.send_signal(signal.SIGCONT)
    terminal.wait_for("live")
    terminal.press("q")
    terminal.wait_for(r"^code 0$")
    assert trainer.poll() is None


PICKER = """
import sys
from tensortui.cli import main, ps
every = ps.processes
ps.processes = lambda: [each for each in every() if each.pid == int(sys.argv[1])]
sys.exit(main.main(["attach"]))
"""


def test_the_picker_lists_the_process_and_attaches_to_it(
    terminal: Terminal, trainer: subprocess.Popen[str], tmp_path: Path
) -> None:
    (tmp_path / "picker.py").write_text(PICKER)  # only this one is listed: no test enters what others run here
    terminal.start(f"{sys.executable} {tmp_path / 'picker.py'} {trainer.pid}", width=120, height=30)
    terminal.wait_for(rf"^ *{trainer.pid} .*ready")
    terminal.press("Enter")
    terminal.wait_for(r"model\.weight")
    assert f"pid {trainer.pid}" in terminal.screen()
    terminal.press("q")
    terminal.wait_for(r"^code 0$")
    assert trainer.poll() is None


def test_run_leaves_the_program_running_and_says_where(terminal: Terminal, tmp_path: Path, root: Path) -> None:
    log = tmp_path / "views.log"
    terminal.start(f"{sys.executable} -m tensortui run --log {log} {root / 'demo' / 'views.py'}", width=160, height=30)
    terminal.wait_for("kept by")
    terminal.press("q")
    screen = terminal.wait_for(r"^code 0$")
    pid = int(re.search(r"goes on as process (\d+)", screen)[1])  # type: ignore[index]
    try:
        assert is_running(pid)
        assert str(log) in screen
        assert f"READY {pid}" in log.read_text()
    finally:
        os.kill(pid, 15)


def test_run_says_once_what_became_of_a_program_that_fails(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise SystemExit('no data here')")
    terminal.start(f"{sys.executable} -m tensortui run --log {tmp_path / 'log'} {tmp_path / 'program.py'}", width=200)
    screen = terminal.wait_for(r"^code 1$")
    assert screen.count("exited with status 1") == 1
    assert re.search("Its output is in .*, and ends with: no data here$", screen, re.MULTILINE)


def test_ps_cuts_a_command_that_is_a_whole_program(
    terminal: Terminal, start_ready: Callable[..., subprocess.Popen[str]]
) -> None:
    program = "import time\nprint('READY', flush=True)\n" + "name = 'a long line of a program'\n" * 40
    pid = start_ready("-c", f"{program}time.sleep(60)").pid
    terminal.start(f"{sys.executable} -m tensortui ps --all", height=200)
    screen = terminal.wait_for("code 0")
    (line,) = [line for line in screen.splitlines() if re.match(rf" *{pid} ", line)]
    assert re.search(r"python\S* -c import.*\.\.\.$", line) and len(line) <= 80
    assert "a long line" not in screen


def test_with_no_color_no_colour_is_sent(terminal: Terminal, trainer: subprocess.Popen[str], tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    terminal.start("sh", width=120, height=30, NO_COLOR="1")
    terminal.tmux("pipe-pane", f"cat > {sent}")
    terminal.press(f"{sys.executable} -m tensortui attach {trainer.pid}", "Enter")
    for pattern, key in (
        ("model.weight", "i"), ("what it is", "?"), ("help: ", "Escape"), ("what it is", "c"),
        ("show or hide", "Escape"), (r"requires_grad|what it is *$", "C-p"), ("a command, or a part", "Escape"),
        ("what it is *$", "6"), ("enter go to the tensor", "q"), (r"^[^ ]*[$#] *$", "exit"),
    ):  # fmt: skip
        terminal.wait_for(pattern)
        terminal.press(key)
    codes = re.findall(r"\x1b\[([\d;:]*)m", sent.read_text("utf-8", "replace"))
    styles = {int(code or 0) for each in codes for code in re.split("[;:]", each)}
    assert styles <= {0, 1, 2, 3, 4, 7, 22, 23, 24, 27}, "something else than weight, underline and reverse"
    assert {1, 7} <= styles


@pytest.mark.parametrize(("end", "code"), [("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_run_ends_with_the_status_of_the_program(terminal: Terminal, tmp_path: Path, end: str, code: int) -> None:
    program, go = tmp_path / "program.py", tmp_path / "go"
    program.write_text(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n{end}")
    terminal.start(f"{sys.executable} -m tensortui run --log {tmp_path / 'log'} {program}", width=120)
    terminal.wait_for("has not imported torch yet")
    go.touch()
    terminal.wait_for("ended")
    terminal.press("q")
    terminal.wait_for(rf"^code {code}$")


def test_run_of_a_program_that_ends_at_once_is_no_failure_of_its_own(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise SystemExit(4)")
    terminal.start(f"{sys.executable} -m tensortui run --log {tmp_path / 'log'} {tmp_path / 'program.py'}", width=120)
    assert "exited with status 4 before the viewer could open" in terminal.wait_for(r"^code 4$")


@pytest.mark.parametrize("term", ["dumb"])
def test_a_terminal_that_cannot_draw_gets_a_hint(terminal: Terminal, term: str) -> None:
    terminal.start(f"TERM={term} {sys.executable} -m tensortui attach 4321", width=120)
    screen = terminal.wait_for(r"^code 2$")
    assert "tensortui snapshot 4321 --json" in screen


def test_a_demo_without_torch_says_what_to_install(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None\nfrom tensortui.cli.main import main\nsys.exit(main(['demo']))"
    process = start(sys.executable, "-c", code)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.splitlines()[0] == "tensortui: The demo trains a model, and PyTorch is not installed here."
    assert "-m pip install torch" in errors.splitlines()[1]
