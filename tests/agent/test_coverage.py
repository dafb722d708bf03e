"""What the count of references to the classes of tensors says, and what it does not: in this process and a real one."""

from __future__ import annotations

import gc
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tensortui.agent import coverage
from tensortui.agent.sampler import Sampler

REFERENCES = 200


class Clock:
    """Goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sampler(clock: Clock) -> Sampler:
    return Sampler(torch, 1.0, clock)


def finish(work: Any) -> None:
    for _ in work:
        pass


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """A module that is imported when a test enters it into sys.modules."""
    module = types.ModuleType("of_many_annotations")
    yield module
    sys.modules.pop(module.__name__, None)


def annotate(module: types.ModuleType, name: str = "annotations") -> None:
    vars(module)[name] = [torch.Tensor] * REFERENCES


def test_what_modules_refer_to_is_not_taken_for_tensors(
    sampler: Sampler, clock: Clock, module: types.ModuleType
) -> None:
    finish(sampler.start())
    sys.modules[module.__name__] = module
    annotate(module)
    gc.collect()
    finish(sampler.drain())
    assert sampler.coverage.reasons() == [coverage.IMPORTING]
    clock.now += coverage.IMPORT_SECONDS / 2
    annotate(module, "more")  # an import takes its time
    finish(sampler.drain())
    assert sampler.coverage.reasons() == [coverage.IMPORTING]
    clock.now += coverage.IMPORT_SECONDS
    finish(sampler.drain())
    assert sampler.coverage.reasons() == []


def test_what_an_import_leaves_open_is_looked_for_sooner_and_at_once_for_who_waits(
    sampler: Sampler, clock: Clock, module: types.ModuleType
) -> None:
    finish(sampler.start())
    sampler.coverage.scanned(sampler.young, sampler.types, sampler.young.passed, cost=100.0)
    begun = clock.now
    sys.modules[module.__name__] = module
    annotate(module)
    kept = [torch.zeros(2) for _ in range(30)]
    gc.collect()
    finish(sampler.drain())
    assert sampler.coverage.some_missing(sampler.young)
    clock.now = begun + coverage.IMPORT_SECONDS
    assert not sampler.coverage.audit_due(sampler.young, sampler.types)
    clock.now = begun + 100.0 / coverage.IMPORT_SHARE + 1.0
    assert sampler.coverage.audit_due(sampler.young, sampler.types)
    finish(sampler.audit())
    assert all(sampler.census.find(one) for one in kept)


def test_tensors_that_are_missed_are_told_after_imports_and_while_none_are_new(
    sampler: Sampler, clock: Clock, module: types.ModuleType
) -> None:
    finish(sampler.start())
    sys.modules[module.__name__] = module
    annotate(module)
    gc.collect()
    finish(sampler.drain())
    clock.now += coverage.IMPORT_SECONDS
    finish(sampler.drain())
    kept = [torch.zeros(2) for _ in range(60)]
    gc.collect()
    finish(sampler.drain())
    assert not any(sampler.census.find(one) for one in kept)
    (reason,) = sampler.coverage.reasons()
    assert re.fullmatch("about (5[5-9]|6[0-5]) tensors are alive but not found yet", reason)


def test_what_dies_while_it_is_counted_is_not_missed_later(sampler: Sampler) -> None:
    finish(sampler.start())
    passing = [torch.zeros(2) for _ in range(60)]
    finish(sampler.drain())
    passing.clear()
    sampler.coverage.check(sampler.young)
    gc.collect()
    finish(sampler.drain())
    assert sampler.coverage.reasons() == []


def test_classes_of_tensors_that_join_the_count_are_not_taken_for_tensors(sampler: Sampler) -> None:
    finish(sampler.start())
    kinds = [type(f"Kind{number}", (torch.Tensor,), {}) for number in range(30)]
    tables = [[kind] * 3 for kind in kinds]
    gc.collect()
    sampler.coverage.scanned(sampler.young, sampler.types, sampler.young.passed)  # with what their base is referred to
    finish(sampler.types.refresh())
    finish(sampler.drain())
    assert len(tables) == 30
    assert not [reason for reason in sampler.coverage.reasons() if reason.endswith("not found yet")]


PROGRAM = """
import gc, os, sys, torch
import tensortui.agent.coverage as coverage
coverage.AUDIT_EVERY = 0.5
sys.path.insert(0, FOLDER)
START_AGENT
print("READY", os.getpid(), flush=True)
for line in sys.stdin:
    exec(line)
    print("DONE", flush=True)
"""


def test_an_import_is_not_taken_for_tensors_in_a_real_program(program: Any, connect: Any, tmp_path: Any) -> None:
    names = range(1000)
    text = "".join(f"def f{number}(one: Tensor, two: Tensor) -> Tensor: ...\n" for number in names)
    (tmp_path / "annotated.py").write_text(f"from torch import Tensor\n{text}")
    process, path = program(PROGRAM.replace("FOLDER", repr(str(tmp_path))))
    client = connect(path)
    client.refresh()
    client.send({"t": "subscribe", "interval": 0.1})

    def say(line: str) -> None:
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "DONE\n"

    def told_until(wanted: bool) -> list[str]:
        """What the samples say is missing, until one or none says so."""
        said: list[str] = []
        while True:
            reasons = client.until("sample")["coverage"]["reasons"]
            missing = [reason for reason in reasons if reason.endswith("found yet")]
            said += missing
            if bool(missing) == wanted:
                return said

    say("import annotated; gc.collect()")
    assert told_until(True) == [coverage.IMPORTING]
    assert set(told_until(False)) <= {coverage.IMPORTING}
    say("kept = [torch.zeros(2) for _ in range(200)]; gc.collect()")
    (reason,) = told_until(True)
    assert re.fullmatch("about (19[0-9]|20[0-9]|210) tensors are alive but not found yet", reason)
    told_until(False)
    while sum(row["shape"] == [2] for row in client.tables["tensors"].values()) < 200:
        client.until("sample")  # what was found is read by and by
