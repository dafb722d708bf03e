"""The agent in a real program: what it tells, what it leaves, and who can hurt it."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tensortui.agent.read import CPP_ONLY
from tensortui.wire.frames import encode
from tensortui.wire.messages import GRADIENT

PROGRAM = """
import gc, os, sys, threading, torch
kept = torch.zeros(5, 3)
before = len(os.listdir("/proc/self/task"))
START_AGENT
print("READY", os.getpid(), flush=True)
for line in sys.stdin:
    exec(line)
    print("DONE", flush=True)
"""
WAIT_FOR_THE_END = """exec('while len(os.listdir("/proc/self/task")) > before: pass')"""
NO_TORCH = PROGRAM.replace(", torch", "").replace("kept = torch.zeros(5, 3)", "")


def say(process: Any, line: str) -> str:
    """Have the program run one line; returns what it printed before DONE."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    printed = ""
    while (text := process.stdout.readline()) != "DONE\n":
        assert text, process.stderr.read()
        printed += text
    return printed.strip()


def test_births_changes_and_deaths_are_told(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    client.refresh()
    kept = client.named("kept")
    assert (kept["shape"], kept["strides"], kept["dtype"], kept["version"]) == ([5, 3], [3, 1], "float32", 0)
    assert client.tables["storages"][kept["storage"]]["bytes"] == 60
    say(process, "kept.add_(1); more = kept[1:]")
    client.refresh(2)
    assert client.named("kept")["id"] == kept["id"]
    assert client.named("kept")["version"] == 1
    assert client.named("more")["storage"] == kept["storage"]
    say(process, "del kept, more; other = torch.zeros(5, 3)")
    client.refresh(3)
    assert kept["id"] not in client.tables["tensors"]
    assert client.named("other")["id"] > kept["id"]
    assert kept["storage"] not in client.tables["storages"]


BUSY = "over = []; worker = threading.Thread(target=lambda: exec('while not over: sum(range(99))', {'over': over}))"


def test_gradients_are_told_of_a_busy_program_before_it_asks_for_them(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    say(process, f"{BUSY}; worker.start()")
    say(process, "leaf = torch.zeros(3, requires_grad=True); (leaf * 2).sum().backward()")
    assert client.refresh()["coverage"]["reasons"] == []
    gradient = client.named("leaf.grad")
    assert (gradient["shape"], gradient["strides"], gradient["dtype"], gradient["category"]) == (
        [3], [1], "float32", GRADIENT
    )  # fmt: skip
    assert (gradient["version"], gradient["is_leaf"], gradient["requires_grad"], gradient["grad_fn"]) == (None,) * 4
    assert gradient["flags"] == CPP_ONLY
    assert client.tables["storages"][gradient["storage"]]["bytes"] == 12
    say(process, "(leaf * 2).sum().backward()")  # one more micro batch: it is added to what is there
    client.refresh(2)
    assert client.named("leaf.grad") == gradient
    client.send({"t": "holders", "request": 3, "tensor": gradient["id"], "limit": None})
    assert client.until("holders", request=3)["chains"] == [[["gradient", "leaf.grad"]]]
    assert (
        say(process, "print(sum(type(one) is torch.Tensor and one.shape == (3,) for one in gc.get_objects()))") == "1"
    )
    say(process, "leaf.grad")  # as an optimizer asks for it: from now on it has a Python object
    assert client.refresh(4)["coverage"]["reasons"] == []
    wrapped = client.named("leaf.grad")
    assert (wrapped["category"], wrapped["flags"], wrapped["storage"]) == (GRADIENT, 0, gradient["storage"])
    assert wrapped["version"] is not None
    assert gradient["id"] not in client.tables["tensors"]
    say(process, "leaf.grad = None; (leaf * 2).sum().backward()")
    client.refresh(5)
    assert client.named("leaf.grad")["id"] > wrapped["id"]
    say(process, "del leaf")
    client.refresh(6)
    assert not [row for row in client.tables["tensors"].values() if row["shape"] == [3]]
    say(process, "over.append(1); worker.join()")


def test_gradients_that_memory_does_not_tell_of_are_missed_aloud(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    say(process, f"{BUSY}; worker.start()")
    say(process, "table = torch.nn.Embedding(9, 3, sparse=True); table(torch.tensor([1])).sum().backward()")
    assert [one for one in client.refresh()["coverage"]["reasons"] if one.endswith("not listed: 1, 20 bytes")]
    say(process, "over.append(1); worker.join()")


def test_what_no_total_counts_is_said(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    say(process, "places = torch.zeros(2, 100, dtype=torch.int64)")
    say(process, "sparse = torch.sparse_coo_tensor(places, torch.ones(100), (9, 9), check_invariants=False)")
    assert client.refresh()["coverage"]["reasons"][0].endswith("are in no total: 1, 2000 bytes")
    say(process, "del sparse")
    assert client.refresh(2)["coverage"]["reasons"] == []


def test_detach_leaves_nothing(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    left = "print(len(gc.callbacks), threading.active_count(), len(os.listdir('/proc/self/task')) - before)"
    client = connect(path)
    client.refresh()
    assert say(process, left) == "0 1 2"
    client.send({"t": "detach"})
    assert client.until("bye")["reason"] == "detached"
    assert client.receive() is None
    say(process, WAIT_FOR_THE_END)
    assert say(process, left) == "0 1 0"
    assert not Path(path).parent.exists()


def test_a_process_without_torch_waits_and_goes_on_by_itself(program: Any, connect: Any) -> None:
    process, path = program(NO_TORCH)
    client = connect(path)
    sample = client.refresh()
    assert (sample["phase"], sample["coverage"]["complete"]) == ("waiting", True)
    assert say(process, "print('torch' in sys.modules)") == "False"
    client.send({"t": "subscribe", "interval": 0.2})
    say(process, "import torch; kept = torch.zeros(4)")
    client.until("sample", phase="live")
    client.refresh(2)
    assert client.named("kept")["shape"] == [4]


def test_the_exit_says_goodbye_with_what_ended_the_program(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM.replace("exec(line)", "raise KeyError(line)"))
    client = connect(path)
    client.refresh()
    process.stdin.write("end\n")
    process.stdin.flush()
    bye = client.until("bye")
    assert (bye["reason"], bye["detail"]) == ("exit", "KeyError")
    assert process.wait(30) == 1
    assert "Exception ignored" not in process.stderr.read()


def test_the_last_viewer_gone_ends_the_agent(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM, idle=0.2)
    connect(path).sock.close()
    say(process, WAIT_FOR_THE_END)
    assert not Path(path).parent.exists()


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", encode({"t": "watch", "ids": [1]}), b"\0" * 8],
    ids=["noise", "http", "no hello", "empty"],
)
def test_a_hostile_peer_is_cut_off_and_nobody_else_notices(program: Any, connect: Any, garbage: bytes) -> None:
    _, path = program(PROGRAM)
    client = connect(path)
    client.refresh()
    hostile = socket.socket(socket.AF_UNIX)
    hostile.settimeout(30)
    hostile.connect(path)
    hostile.sendall(garbage)
    while hostile.recv(4096):
        pass
    client.refresh(2)


def test_another_protocol_is_refused_with_the_reason(program: Any, connect: Any) -> None:
    _, path = program(PROGRAM)
    error = connect(path, protocols=[7, 9]).until("error")
    assert error["kind"] == "version"
    assert error["next_step"]


def test_a_peer_that_never_reads_does_not_hold_up_another(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    say(process, "many = [torch.zeros(1) for _ in range(3000)]")
    lazy, client = connect(path), connect(path)
    for request in range(60):
        lazy.send({"t": "refresh", "request": request})
    client.refresh()
    assert len(client.tables["tensors"]) >= 3001


def test_a_forked_child_does_not_speak(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    client.refresh()
    child = "r = os.fork(); r or (gc.collect(), os._exit(len(gc.callbacks)))"
    code = child + "; print(os.waitstatus_to_exitcode(os.waitpid(r, 0)[1]))"
    assert say(process, code) == "0"
    client.refresh(2)


def test_if_alone_does_not_end_the_agent_under_another_viewer(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    first, second = connect(path), connect(path)
    first.refresh()
    second.refresh()
    first.send({"t": "detach", "if_alone": True, "request": "r"})
    assert first.until("failed", request="r")["cause"] == "Another viewer is connected."
    first.refresh(2)
    process.send_signal(signal.SIGSTOP)  # both are there when it looks again
    second.sock.close()
    first.send({"t": "detach", "if_alone": True, "request": "s"})
    process.send_signal(signal.SIGCONT)
    assert first.until("bye")["reason"] == "detached"


def test_many_small_tensors_get_their_names_and_the_samples_keep_coming(program: Any, connect: Any) -> None:
    many = PROGRAM.replace("kept = torch.zeros(5, 3)", "kept = [torch.zeros(3) for _ in range(15_000)]")
    _, path = program(many, budget=0.01)
    client = connect(path)
    client.send({"t": "subscribe", "interval": 0.5})
    last = ["kept[14999]"]
    while not any(row["names"] == last for row in client.tables["tensors"].values()):
        client.until("sample")
    for _ in range(3):
        client.until("sample")


def test_what_a_step_makes_is_read_before_the_next_step_takes_it_away(program: Any, connect: Any) -> None:
    make = """
kept = [torch.zeros(3) for _ in range(400)]
def make():
    global batch, outputs
    while not over:
        batch = torch.zeros(7)
        outputs = [batch + 1 for _ in range(60)]
        time.sleep(0.3)
over = []
worker = threading.Thread(target=make)
worker.start()"""
    code = PROGRAM.replace("\nkept = torch.zeros(5, 3)", make).replace("gc,", "gc, time,")
    process, path = program(code, budget=0.01)
    client = connect(path)
    client.send({"t": "subscribe", "interval": 0.5})
    while not any(row["names"] == ["batch"] for row in client.tables["tensors"].values()):
        client.until("sample")
    seen = []
    for _ in range(8):
        client.until("sample")
        names = {name for row in client.tables["tensors"].values() for name in row["names"]}
        seen.append({"batch", "outputs[0]", "outputs[59]"} <= names)
    assert sum(seen) >= 5  # a step may end just then
    say(process, "over.append(1); worker.join()")


def test_a_tensor_that_a_variable_holds_at_any_time_is_in_every_answer(program: Any, connect: Any) -> None:
    make = """
def work():
    while not over:
        local = torch.zeros(7)
        for _ in range(2000): pass
over = []
worker = threading.Thread(target=work)
worker.start()"""
    process, path = program(PROGRAM.replace("\nkept = torch.zeros(5, 3)", make))
    client = connect(path)
    for number in range(10):
        client.refresh(number)
        assert [7] in [row["shape"] for row in client.tables["tensors"].values()]
    say(process, "over.append(1); worker.join()")


def test_a_program_that_makes_its_steps_meanwhile_is_told_as_it_is_at_the_end(program: Any, connect: Any) -> None:
    step = """
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def work():
    while True:
        optimizer.zero_grad(); model(torch.ones(2, 64)).sum().backward(); optimizer.step(); time.sleep(0.05)
threading.Thread(target=work, daemon=True).start()
START_AGENT"""
    _, path = program(PROGRAM.replace("\nSTART_AGENT", step).replace("import gc", "import gc, time"))
    client = connect(path)
    told = []
    for request in range(10):
        client.refresh(request)
        names = {name for row in client.tables["tensors"].values() for name in row["names"]}
        told.append({"model.weight.grad", "model.bias.grad"} <= names)
    assert told.count(True) > 5, told
