"""`tensortui holders`: which tensor is meant, what is printed, and searches in a real process."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from tensortui.attach import attach, find_endpoint
from tensortui.attach.waiting import poll
from tensortui.cli import progress
from tensortui.cli.holders import choose, search, text
from tensortui.errors import TensortuiError, UsageError
from tensortui.model import Holders, HolderStep, Process, Sample, Tensor
from tensortui.sources.live import LiveSource

Run = Callable[..., "subprocess.CompletedProcess[str]"]
LEAK = """
import time, torch
class Trainer:
    def __init__(self):
        self.logs = {"val_logits": []}
trainer = Trainer()
for step in range(5):
    trainer.logs["val_logits"].append(torch.full((4, 10), float(step)))
kept = torch.ones(3)
def one_of_two(twin):
    hold(twin + 1)
def hold(twin):
    kept_too = torch.ones(5)
    print("READY", flush=True)
    while True:
        time.sleep(0.05)
one_of_two(torch.ones(2))
"""


def named(tid: int, *names: str) -> Tensor:
    return Tensor(
        tid, None, names, "Tensor", (3,), (1,), 0, "float32", "cpu", "strided", 12, 12, True, "contiguous", (),
        False, True, 0, None, "other",
    )  # fmt: skip


SAMPLE = Sample(
    1, 1e9, Process(7),
    tensors=MappingProxyType({one.id: one for one in (
        named(3, "model.weight", "tied.weight"),
        named(4, "x @ step() train.py:41"),
        named(5, "x @ step() train.py:43 [worker]", "y @ step() train.py:43 [worker]"),
        named(6, "result saved by ExpBackward0"),
        named(7, "result saved by ExpBackward0"),
        named(8, "odd\x1b name"),
        named(9),
    )}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "tid"),
    [("model.weight", 3), ("tied.weight", 3), ("x @ step() train.py:41", 4), ("y", 5), ("9", 9), ("odd\\e name", 8)],
)
def test_a_tensor_is_named_as_it_is_shown(wanted: str, tid: int) -> None:
    assert choose(SAMPLE, wanted).id == tid


@pytest.mark.parametrize("wanted", ["x", "result saved by ExpBackward0"])
def test_several_that_fit_are_listed(wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(SAMPLE, wanted)
    assert caught.value.exit_code == 2
    assert caught.value.cause.startswith(f"2 tensors go by {wanted!r}: ")
    assert "shape (3,)" in caught.value.cause
    assert "tensortui attach 7" in caught.value.next_step


@pytest.mark.parametrize(("wanted", "like"), [("weight", "model.weight"), ("model.wieght", "model.weight"), ("?", "")])
def test_what_is_not_there_is_told_with_what_is_like_it(wanted: str, like: str) -> None:
    with pytest.raises(TensortuiError) as caught:
        choose(SAMPLE, wanted)
    assert (caught.value.exit_code, caught.value.kind) == (1, "gone")
    assert like in caught.value.next_step and "tensortui snapshot 7" in caught.value.next_step


def test_an_id_that_is_not_there_is_told_to_be_short_lived() -> None:
    with pytest.raises(TensortuiError) as caught:
        choose(SAMPLE, "12")
    assert "Ids hold only while one agent stays there." in caught.value.next_step


def test_the_text_has_a_paragraph_for_each_chain_and_nothing_a_terminal_obeys() -> None:
    chain = (HolderStep("global", "trainer"), HolderStep("key", "['a\x1b[2J']"))
    found = Holders(3, (chain, chain[:1]), ("Frames were\nskipped.",), False)
    assert text(found, named(3, "model.weight")) == [
        "model.weight: 2 chains keep it alive",
        "",
        "1. trainer['a\\e[2J']",
        "   variable of a module  trainer",
        "   in a dict             ['a\\e[2J']",
        "   A dict keeps it until it is taken out: trainer.",
        "   del trainer['a\\e[2J']; if the dict grows, drop old entries.",
        "",
        "2. trainer",
        "   variable of a module  trainer",
        "   It is a variable of a module, and stays as long as the program.",
        "   del trainer, or bind it to None.",
        "",
        "not everything was searched: Frames were\\nskipped.",
    ]
    assert text(replace(found, chains=(), reasons=(), complete=True))[0].startswith("tensor 3: no holder was found")


@pytest.fixture
def leak(tmp_path: Path, start_ready: Callable[..., subprocess.Popen[str]]) -> subprocess.Popen[str]:
    program = tmp_path / "leak.py"
    program.write_text(LEAK)
    return start_ready(str(program))


def test_what_holds_an_entry_of_a_list_is_found_in_a_real_process(tensortui: Run, leak: subprocess.Popen[str]) -> None:
    name = "trainer.logs['val_logits'][3]"
    result = tensortui("holders", str(leak.pid), name, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["names"] == [name]
    assert [(step["kind"], step["label"]) for step in found["chains"][0]] == [
        ("global", "trainer"), ("attribute", ".logs"), ("key", "['val_logits']"), ("index", "[3]")
    ]  # fmt: skip
    assert find_endpoint(leak.pid) is None


def test_what_holds_a_variable_is_found_in_a_real_process(tensortui: Run, leak: subprocess.Popen[str]) -> None:
    lines = tensortui("holders", str(leak.pid), "kept_too").stdout.splitlines()
    assert lines[0].startswith("kept_too @ hold() leak.py:") and lines[0].endswith("1 chain keeps it alive")
    assert lines[2].startswith("1. kept_too @ hold() leak.py:")
    assert any("function that is running" in line for line in lines)
    result = tensortui("holders", str(leak.pid), "no_such_name")
    assert (result.returncode, result.stdout) == (1, "")
    assert "has no tensor named 'no_such_name'" in result.stderr


def test_a_search_that_takes_too_long_is_given_up(tensortui: Run, leak: subprocess.Popen[str]) -> None:
    result = tensortui("holders", str(leak.pid), "kept", "--wait", "0.0001")
    assert (result.returncode, result.stdout) == (1, "")
    assert "did not end within 0.0001 s" in result.stderr
    assert find_endpoint(leak.pid) is None


def test_several_of_one_name_are_listed_and_an_id_says_what_it_means_now(
    tensortui: Run, leak: subprocess.Popen[str]
) -> None:
    result = tensortui("holders", str(leak.pid), "twin")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("tensortui: 2 tensors go by 'twin': ")
    tid = result.stderr.split("go by 'twin': ")[1].split()[0]
    result = tensortui("holders", str(leak.pid), tid, "--json", "--limit", "3")
    assert json.loads(result.stdout)["tensor"] == int(tid)
    assert result.stderr.startswith("note: ids hold only while one agent stays, and none was there; ")
    result = tensortui("holders", str(leak.pid), str(1 << 40))
    assert (result.returncode, result.stdout) == (1, "")
    assert "Ids hold only while one agent stays there." in result.stderr


async def test_an_interrupted_search_takes_the_agent_along(
    leak: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, real = asyncio.Event(), LiveSource.holders

    async def holders(self: LiveSource, tid: int, **options: Any) -> Holders:
        begun.set()
        return await real(self, tid, **options)

    monkeypatch.setattr(LiveSource, "holders", holders)
    endpoint = attach(leak.pid)
    task = asyncio.create_task(search(endpoint, "kept"))
    await asyncio.wait_for(begun.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert endpoint.fresh
    assert poll(lambda: find_endpoint(leak.pid) is None, 30)
    assert leak.poll() is None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_how_far_a_search_is_stands_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Waited:
        pid, latest = 7, None

        def held(self) -> str:
            return ""

        async def set_interval(self, seconds: float | None) -> None:
            pass

    terminal, said = Terminal(), [""]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(progress, "AGAIN_SECONDS", 0.001)
    with progress.telling(cast(LiveSource, Waited()), lambda: said[0]):
        while "waiting for process 7, 0 s (Ctrl-C gives up)" not in terminal.getvalue():
            await asyncio.sleep(0)
        said[0] = "looking for what holds it: searching level 3\x1b[2J"
        while "holds it: searching level 3\\e[2J, 0 s" not in terminal.getvalue():
            await asyncio.sleep(0)
    assert terminal.getvalue().endswith("\r\x1b[K")
