"""The command line, run as a user runs it: a process with its own streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TRAINER = """
import sys, time
import torch
model = torch.nn.Linear(64, 32)
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(4, 64)).sum().backward()
optimizer.step()
loss = model(torch.ones(4, 64)).sum()
print("READY", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def tensortui() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command without a terminal; return its exit code and both streams."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tensortui", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "COLUMNS": "", **environment},  # the tests' own may be in a terminal of some width
        )

    return run


@pytest.fixture
def trainer(tmp_path: Path, start_ready: Callable[..., subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A process with a model, its optimizer's state, gradients and a graph."""
    program = tmp_path / "trainer.py"
    program.write_text(TRAINER)
    return start_ready(str(program))
