"""Real programs with known facts: each is started, waits at READY, and is looked at from outside."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tensortui.analysis.document import document, dumps
from tensortui.attach import attach
from tensortui.model import Sample
from tensortui.sources import LiveSource

PROGRAMS = Path(__file__).parent / "programs"


class Case:
    """One running program, and our connection to it once something was asked."""

    def __init__(self, name: str, folder: Path) -> None:
        (path,) = PROGRAMS.glob(f"{name}_*.py")
        self._errors = folder / "stderr"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )
        self._loop = asyncio.new_event_loop()
        self._source: LiveSource | None = None
        line = self._line()
        assert line == f"READY {self.process.pid}", self._errors.read_text()
        self._said_before = self._errors.stat().st_size

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "") -> str:
        """Give the program a line and return its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    async def source(self, interval: float | None = None) -> LiveSource:
        """Return the connection to the program, made on the first call."""
        if self._source is None:
            self._source = await LiveSource.connect(attach(self.process.pid), interval=interval)
        return self._source

    def document(self, *, graph: bool = False) -> dict[str, Any]:
        """Read everything anew and return the document, as a reader of its text gets it."""

        async def read() -> dict[str, Any]:
            source = await self.source()
            # The graph first: the tensors that only it holds are then part of the sample.
            found = await source.graph() if graph else None
            return document(await source.refresh(), found)

        text = dumps(self._loop.run_until_complete(read()))
        assert text.isascii()
        return json.loads(text)

    def follow(self, interval: float, samples: int, until: str) -> None:
        """Take so many samples at `interval` seconds, then read everything until a name begins with `until`."""

        def shows(sample: Sample) -> bool:
            return any(name.startswith(until) for tensor in sample.tensors.values() for name in tensor.names)

        async def take() -> None:
            source = await self.source()
            await source.set_interval(interval)
            taken, seen = 0, False
            async for update in source.updates():
                assert isinstance(update, Sample), update
                taken += 1
                seen = seen or shows(update)
                if taken == samples:
                    break
            while not seen:
                seen = shows(await source.refresh())

        self._loop.run_until_complete(take())

    def close(self) -> tuple[str, str]:
        """Detach, see that the program lives on, end it; returns the rest of its stdout, and what stderr got."""
        if self._source is not None:
            self._loop.run_until_complete(self._source.detach())
        self._loop.close()
        alive = self.process.poll() is None
        self.process.kill()
        out, _ = self.process.communicate()
        with self._errors.open(encoding="utf-8", errors="replace") as errors:
            errors.seek(self._said_before)
            said = errors.read()
        assert alive, "the program ended while it was looked at"
        return out, said


@pytest.fixture
def case(request, tmp_path):
    """The program whose number the test's name begins with: test_07_... runs programs/07_*.py."""
    running = Case(request.node.name.split("_")[1], tmp_path)
    yield running
    if running.process.returncode is None:
        _, said = running.close()
        assert said == ""
