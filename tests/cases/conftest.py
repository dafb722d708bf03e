"""Real programs with known facts: each is started, waits at READY, and is looked at from outside."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.document import document, dumps
from tensortui.analysis.findings import Finding, find
from tensortui.analysis.growth import Growth
from tensortui.attach import attach
from tensortui.model import LIVE, Sample
from tensortui.sources import LiveSource

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 40.0  # seconds more for what is to be told: a program may get little of a crowded machine
GROWTH_PARTS = 12  # of the time that a program is followed: growth compares four parts, of whole ones


class Case:
    """One running program, and our connection to it once something was asked."""

    def __init__(self, path: Path, folder: Path, *arguments: str) -> None:
        self._errors = folder / "stderr"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(path), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )
        self._loop = asyncio.new_event_loop()
        self._source: LiveSource | None = None
        assert self._line() == f"READY {self.process.pid}", self._errors.read_text()
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

    def findings(
        self, seconds: float, graph_seconds: float = 0.15, told: Callable[[list[Finding]], object] = lambda _: True
    ) -> list[Finding]:
        """Follow the program for so long, and until `told`, and read its graph again and again; all that is found."""

        async def look() -> list[Finding]:
            source = await self.source()
            found: list[Finding] = []
            growth = Growth(seconds / GROWTH_PARTS)
            await source.set_interval(0.1)

            async def follow() -> None:
                async for update in source.updates():
                    assert isinstance(update, Sample), update
                    if update.phase != LIVE:  # nobody looks before the first scan is over
                        continue
                    growth.update(update)
                    found.extend(find(update, Accounts(update), growth=growth))

            following = asyncio.create_task(follow())
            end = time.monotonic() + seconds
            while time.monotonic() < end or (not told(found) and time.monotonic() < end + PATIENCE):
                graph = await source.graph()
                sample = await source.refresh()
                found.extend(find(sample, Accounts(sample), graph))
                await asyncio.sleep(graph_seconds)
            assert not following.done(), following.result()
            following.cancel()
            return found

        return self._loop.run_until_complete(look())

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
    (path,) = PROGRAMS.glob(f"{request.node.name.split('_')[1]}_*.py")
    yield from run_case(path, tmp_path)


def run_case(path: Path, folder: Path, *arguments: str) -> Iterator[Case]:
    """A program while it is looked at; it is ended then, and must have said nothing on stderr meanwhile."""
    running = Case(path, folder, *arguments)
    yield running
    if running.process.returncode is None:
        _, said = running.close()
        assert said == ""
