"""How the agent starts in a process, and how it ends there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tensortui.agent import main

HANDLER = """
import atexit, gc, os, sys, torch
class Handler:
    __hash__ = None
    def __call__(self):
        pass
    def __eq__(self, other):
        raise RuntimeError("not to be compared")
atexit.register(Handler())
before = len(os.listdir("/proc/self/task"))
START_AGENT
print("READY", flush=True)
sys.stdin.readline()
while len(os.listdir("/proc/self/task")) > before: pass
print("ALONE", flush=True)
"""


@pytest.fixture
def agent_options(tmp_path: Path) -> dict[str, Any]:
    return {"path": [str(tmp_path / "agent" / "a.sock")], "token": "", "budget": 0.5, "version": "t"}


def test_an_exit_handler_that_cannot_be_compared_holds_up_no_exit(program: Any, connect: Any) -> None:
    process, path = program(HANDLER)
    process.stdin.write("\n")
    process.stdin.flush()
    client = connect(path)
    client.send({"t": "detach"})
    client.until("bye")
    assert process.stdout.readline() == "ALONE\n"
    assert process.wait(30) == 0
    assert process.stderr.read() == ""


def test_the_exit_waits_for_no_agent_that_is_over(
    monkeypatch: pytest.MonkeyPatch, agent_options: dict[str, Any]
) -> None:
    registered = []
    monkeypatch.setattr(main.atexit, "register", registered.append)

    def fail(handler: Any) -> None:
        raise RuntimeError("not to be compared")

    monkeypatch.setattr(main.atexit, "unregister", fail)
    main.start({**agent_options, "idle_exit": 0.0})
    asked = []
    monkeypatch.setattr(main.Agent, "stop", lambda *all_: asked.append(all_))
    registered[0]()
    assert asked == []


def test_a_python_without_the_interpreter_lock_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, agent_options: dict[str, Any]
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(OSError, match=r"^this Python runs without the global interpreter lock, .*$"):
        main.start({**agent_options, "idle_exit": 0.0})
    assert not Path(agent_options["path"][0]).parent.exists()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True)
    main.start({**agent_options, "idle_exit": 0.0})


def test_the_type_that_ended_the_program_is_told_without_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loud(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise AssertionError("not to be run")

    class UnhappyError(Exception, metaclass=Loud):
        pass

    monkeypatch.setattr(sys, "last_type", UnhappyError, raising=False)
    assert main.exit_detail() == "UnhappyError"


AGAIN = """
import gc, os, socket, sys, time
from tensortui.attach.bootstrap import bootstrap_source
from tensortui.wire.frames import encode
text = bootstrap_source()
path = "/tmp/tensortui-%d/%d-%s.sock" % (os.geteuid(), os.getpid(), open("/proc/self/stat").read().split()[21])
def come_and_go():
    exec(text, {"__name__": "somewhere"})
    viewer = socket.socket(socket.AF_UNIX)
    while viewer.connect_ex(path):
        time.sleep(0.002)
    viewer.sendall(encode({"t": "hello", "protocols": [1, 1]}) + encode({"t": "detach"}))
    while viewer.recv(65536):
        pass
    viewer.close()
    while len(os.listdir("/proc/self/task")) > 1:
        time.sleep(0.001)
counts = []
for times in (5, 5):
    for _ in range(times):
        come_and_go()
    gc.collect()
    counts.append(len(gc.get_objects()))
print(counts[1] - counts[0])
"""


def test_agents_that_come_and_go_leave_no_object_behind(start: Any, root: Path) -> None:
    """None of theirs may get into a cache of the standard library: `Tuple[Own, int]` in a module puts `Own` there."""
    process = start(sys.executable, "-c", AGAIN, cwd=root)
    printed, errors = process.communicate(timeout=60)
    assert errors == ""
    assert int(printed) < 25
