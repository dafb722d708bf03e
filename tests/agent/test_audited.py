"""Audit hooks of the program: they are noticed without being called."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

CODE = """
import sys
from tensortui.agent.process import audited
called = []
before = audited()
sys.addaudithook(lambda event, arguments: called.append(event))
called.clear()
after = audited()
print(before, after, called)
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the question is always refused there")
def test_hooks_are_noticed_and_none_is_called() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.stdout == "False True []\n", done.stderr


PROGRAM = """
import os, sys, torch
model = torch.nn.Linear(2, 2)
START_AGENT
print("READY", os.getpid(), flush=True)
for line in sys.stdin:
    sys.addaudithook(lambda event, arguments: None)
    print("DONE", flush=True)
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the question is always refused there")
def test_the_viewer_is_told(program: Any, connect: Any) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    assert client.refresh(1)["coverage"]["reasons"] == []
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "DONE\n"
    reasons = client.refresh(2)["coverage"]["reasons"]
    assert ["audit hooks" in one for one in reasons] == [True]
