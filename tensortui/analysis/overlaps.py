"""Storages that lie over the same memory: several numpy slices, or DLPack imports, of one block.

Each has an address and a size of its own, so their bytes must not simply be added up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tensortui.model import Storage

Span = tuple[int, int, int]  # first address, the one after the last, storage


class Overlaps:
    """Where the storages of one device lie. `clusters` are those that share bytes, usually none."""

    def __init__(self) -> None:
        """Start without storages."""
        self.clusters: tuple[tuple[Span, ...], ...] = ()
        self._spans: list[Span] = []  # sorted

    def update(self, gone: Iterable[Storage], new: Iterable[Storage]) -> None:
        """Take storages out, and others in."""
        left = {span for storage in gone if (span := _span(storage))}
        fresh = [span for storage in new if (span := _span(storage))]
        spans = [span for span in self._spans if span not in left] if left else self._spans
        spans += fresh
        spans.sort()  # one long run in order already, and a short one
        self._spans = spans
        if self.clusters or any(map(self._meets_a_neighbour, fresh)):
            self.clusters = tuple(_clusters(spans))

    def _meets_a_neighbour(self, span: Span) -> bool:
        # Enough where nothing overlapped before: the first of a cluster's spans meets the one after it.
        at = bisect_left(self._spans, span)
        near = self._spans[max(at - 1, 0) : at + 2]
        return any(one[1] > two[0] for one, two in pairwise(near))


def _span(storage: Storage) -> Span | None:
    if not storage.address or not storage.bytes or storage.backing == "none":
        return None
    return (storage.address, storage.address + storage.bytes, storage.id)


def _clusters(spans: Sequence[Span]) -> Iterable[tuple[Span, ...]]:
    first, end = 0, 0
    for at, span in enumerate(spans):
        if span[0] >= end:
            if at - first > 1:
                yield tuple(spans[first:at])
            first = at
        end = max(end, span[1])
    if len(spans) - first > 1:
        yield tuple(spans[first:])
