"""Storages that lie over the same memory: several numpy slices, or DLPack imports, of one block.

Each has an address and a size of its own, so their bytes must not simply be added up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from tensortui.model import Storage
from tensortui.model.strided import union

Span = tuple[int, int, int]  # first address, the one after the last, storage
Cluster = tuple[Span, ...]  # sorted
SMALL = 16  # one in so many storages is new: cheaper to look at all of them in one go


class Beside(NamedTuple):
    """The other storages that one shares bytes with: where each starts, in bytes from its start; and how many bytes."""

    starts: Mapping[int, int]
    bytes: int


def beside(cluster: Cluster, number: int) -> Beside:
    """What lies over the memory of one storage of a cluster."""
    start, end = next(span[:2] for span in cluster if span[2] == number)
    met = [span for span in cluster[: bisect_left(cluster, (end, 0, 0))] if span[1] > start and span[2] != number]
    shared = union((max(first, start), min(last, end)) for first, last, _ in met)
    return Beside({other: first - start for first, _, other in met}, sum(last - first for first, last in shared))


class Overlaps:
    """Where the storages of one device lie. `clusters` are those that share bytes, usually none."""

    def __init__(self) -> None:
        """Start without storages."""
        self.clusters: frozenset[Cluster] = frozenset()
        self._placed: list[Storage] = []  # those that hold memory, sorted by where it starts

    def update(self, gone: Iterable[Storage], new: Iterable[Storage]) -> tuple[frozenset[Cluster], frozenset[Cluster]]:
        """Take storages out, and others in; returns the clusters that are no more, and those that are new."""
        left = {storage.id for storage in gone}
        fresh = [storage for storage in new if storage.address and storage.bytes and storage.backing != "none"]
        placed = [storage for storage in self._placed if storage.id not in left] + fresh
        placed.sort(key=_place)  # one long run in order already, and a short one
        self._placed = placed
        if self.clusters or len(fresh) * SMALL > len(placed) or any(map(self._meets_a_neighbour, fresh)):
            before, self.clusters = self.clusters, frozenset(_clusters(map(_span, placed)))
            return before - self.clusters, self.clusters - before
        return frozenset(), frozenset()

    def _meets_a_neighbour(self, storage: Storage) -> bool:
        # Enough where nothing overlapped before: the first of a cluster's spans meets the one after it.
        at = bisect_left(self._placed, _place(storage), key=_place)
        near = map(_span, self._placed[max(at - 1, 0) : at + 2])
        return any(one[1] > two[0] for one, two in pairwise(near))


def _place(storage: Storage) -> int:
    return storage.address or 0


def _span(storage: Storage) -> Span:
    start = storage.address or 0
    return (start, start + (storage.bytes or 0), storage.id)


def _clusters(spans: Iterable[Span]) -> Iterator[Cluster]:
    together: list[Span] = []
    end = 0
    for span in spans:
        if span[0] >= end and together:
            if len(together) > 1:
                yield tuple(together)
            together = []
        together.append(span)
        end = max(end, span[1])
    if len(together) > 1:
        yield tuple(together)
