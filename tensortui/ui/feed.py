"""What came from the source: every sample is taken in, the newest is what the screens paint."""

from __future__ import annotations

import gc
from collections.abc import Callable

from tensortui.analysis.accounting import Accounts
from tensortui.errors import TensortuiError
from tensortui.model import LIVE, Change, Ended, Sample
from tensortui.sources.protocol import Source

FREEZE_FROM = 20_000  # tensors from which on the viewer's own full collections would be felt


class Feed:
    """The state of one source. The reader marks it dirty; whoever paints calls `take`."""

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        """Read from `source`; `clock` gives seconds since the epoch."""
        self.source = source
        self.accounts = Accounts()
        self.sample: Sample | None = None
        self.ended: Ended | None = None
        self.paused = False
        self.dirty = False
        self._clock = clock
        self._change: Change | None = None  # since the sample last taken
        self._frozen = False

    async def read(self) -> None:
        """Follow the source to its end. Whatever goes wrong becomes the reason of the end, said on the screen."""
        try:
            async for update in self.source.updates():
                if isinstance(update, Ended):
                    self._end(update)
                    return
                self._put(update)
            self._end(Ended("the source gave no more samples", self._clock()))
        except TensortuiError as error:
            self._end(Ended(error.cause, self._clock(), expected=False))
        except (OSError, ValueError) as error:
            self._end(Ended(f"the connection failed: {error}", self._clock(), expected=False))

    def take(self) -> Change | None:
        """What changed since the last call, None for everything; clears the dirty mark."""
        self.dirty = False
        change = self._change
        self._change = Change(since=self.sample.seq) if self.sample is not None else None
        return change

    async def pause(self, on: bool, interval: float) -> None:
        """Stop the samples, or have one each `interval` seconds again."""
        self.paused = on
        self.dirty = True
        await self.source.set_interval(None if on else interval)

    def _end(self, ended: Ended) -> None:
        self.ended = ended
        self.dirty = True

    def _put(self, sample: Sample) -> None:
        before = self.sample
        self.accounts.update(sample)
        if before is None or self._change is None or sample.change.since != before.seq:
            self._change = None
        else:
            self._change = merge(self._change, sample.change)
        self.sample = sample
        self.dirty = True
        if not self._frozen and sample.phase == LIVE and len(sample.tensors) >= FREEZE_FROM:
            # A full collection over these many records takes a tenth of a second, at a moment nobody chose.
            self._frozen = True
            gc.collect()
            gc.freeze()


def merge(first: Change, second: Change) -> Change:
    """The change of two samples in a row."""
    born = first.new - second.gone
    return Change(
        new=born | second.new,
        changed=(first.changed | second.changed) - born - second.new - second.gone,
        gone=first.gone | second.gone,
        storages=first.storages | second.storages,
        since=first.since,
    )
