"""Which tensors the source reads with every sample: those on screen, and the one that counts the steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tensortui.errors import TensortuiError
from tensortui.sources.protocol import Source


class Watching:
    """Tells the source what is watched. A target that does not read may keep this waiting: nothing else waits with it.

    The step counter comes first, since a source reads a limited number of them.
    """

    def __init__(self, source: Source) -> None:
        """Watch nothing yet."""
        self._source = source
        self._shown: frozenset[int] = frozenset()
        self._counter: int | None = None
        self._news = asyncio.Event()

    def show(self, ids: Iterable[int]) -> None:
        """Say what is on screen now."""
        self._shown = frozenset(ids)
        self._news.set()

    def count_by(self, counter: int | None) -> None:
        """Say which tensor counts the steps of the program, if any does."""
        self._counter = counter
        self._news.set()

    @property
    def wanted(self) -> tuple[int, ...]:
        """What the source is to read first."""
        if self._counter is None:
            return tuple(self._shown)
        return (self._counter, *(self._shown - {self._counter}))

    async def follow(self) -> None:
        """Tell the source whenever that is something else. That it has ended is told by its updates."""
        told: tuple[int, ...] = ()
        while True:
            await self._news.wait()
            self._news.clear()
            wanted = self.wanted
            if set(wanted) == set(told):
                continue
            try:
                await self._source.watch(wanted)
                told = wanted
            except (TensortuiError, OSError):
                told = ()
