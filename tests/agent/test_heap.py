"""The search through the memory, in this process: its steps, as the loop would run them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tensortui.agent.guard import APART
from tensortui.agent.heap import Heap
from tensortui.agent.memory import Memory


def test_no_file_is_touched_in_a_step_that_keeps_the_interpreter_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    said: Any = None
    calls: list[tuple[str, Any]] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def watched(*args: Any) -> Any:
            calls.append((name, said))
            return real(*args)

        monkeypatch.setattr(os, name, watched)

    for name in ("open", "read", "pread", "readlink", "close"):
        watch(name)
    heap = Heap(Memory(), [])
    for step in heap.survey():
        said = step
    assert heap.size
    assert {name for name, _ in calls} == {"open", "read", "pread", "readlink", "close"}
    assert {said for _, said in calls} == {APART}
    assert said is not APART  # what comes after the survey allocates
