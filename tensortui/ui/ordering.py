"""Sorting many keys without holding up the screen: in steps, or by putting back only what moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from itertools import groupby
from typing import Any

Steps = Generator[None, None, None]
STEP = 4096  # keys handled between two steps: a few milliseconds
FEW = STEP // 8  # the same where something is worked out for each

Tie = Callable[[Any], str]  # what decides between keys of one rank; worked out for those alone, and kept nowhere


def sort(keys: Collection[Any], rank: Mapping[Any, Any], tie: Tie, reverse: bool) -> Generator[None, None, list[Any]]:
    """Sort by rank, ties by `tie`, so that a row keeps its place whenever its group was last touched."""
    ordered = yield from _in_runs(list(keys), rank.__getitem__, reverse)
    out: list[Any] = []
    rested = 0
    for _, group in groupby(ordered, rank.__getitem__):
        alike = list(group)
        if len(alike) > FEW:
            ties: dict[Any, str] = {}
            for at in range(0, len(alike), FEW):
                ties.update((key, tie(key)) for key in alike[at : at + FEW])
                yield
            alike = yield from _in_runs(alike, ties.__getitem__)
        elif len(alike) > 1:
            alike.sort(key=tie)
        out += alike
        if len(out) - rested >= FEW:
            rested = len(out)
            yield
    return out


def _in_runs(keys: list[Any], key: Any, reverse: bool = False) -> Generator[None, None, list[Any]]:
    """Sort runs of `keys` first: merging them takes a small part of what sorting it all takes."""
    out: list[Any] = []
    for at in range(0, len(keys), STEP):
        out += sorted(keys[at : at + STEP], key=key, reverse=reverse)
        yield
    out.sort(key=key, reverse=reverse)
    yield
    return out


def put_back(
    kept: list[Any], moved: Collection[Any], rank: Mapping[Any, Any], tie: Tie, reverse: bool
) -> Generator[None, None, list[Any]]:
    """The order that `sort` gives `kept` and `moved` together, `kept` being in that order already."""
    ties = {key: tie(key) for key in moved}
    placed = sorted(sorted(moved, key=ties.__getitem__), key=rank.__getitem__, reverse=reverse)
    yield
    out: list[Any] = []
    done = 0
    for at, key in enumerate(placed, 1):
        value, low, high = rank[key], done, len(kept)
        while low < high:
            middle = (low + high) // 2
            other = rank[kept[middle]]
            before = tie(kept[middle]) < ties[key] if other == value else (other < value) != reverse
            low, high = (middle + 1, high) if before else (low, middle)
        out += kept[done:low]
        out.append(key)
        done = low
        if at % (FEW // 4) == 0:
            yield
    return out + kept[done:]
