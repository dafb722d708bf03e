"""Sorting many keys without holding up the screen: in steps, or by putting back only what moved."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from typing import Any

Steps = Generator[None, None, None]
STEP = 4096  # keys handled between two steps: a few milliseconds


def sort(
    keys: Collection[Any], rank: Mapping[Any, Any], tie: Mapping[Any, str], reverse: bool
) -> Generator[None, None, list[Any]]:
    """Sort by rank, ties by `tie`, so that a row keeps its place whenever its group was last touched."""
    ordered = yield from _runs(list(keys), tie.__getitem__)
    ordered.sort(key=tie.__getitem__)
    yield
    ordered = yield from _runs(ordered, rank.__getitem__, reverse)
    ordered.sort(key=rank.__getitem__, reverse=reverse)
    return ordered


def _runs(keys: list[Any], key: Any = None, reverse: bool = False) -> Generator[None, None, list[Any]]:
    """Runs that are sorted each: merging them takes a small part of what sorting it all takes."""
    out: list[Any] = []
    for at in range(0, len(keys), STEP):
        out += sorted(keys[at : at + STEP], key=key, reverse=reverse)
        yield
    return out


def put_back(
    kept: list[Any], moved: Collection[Any], rank: Mapping[Any, Any], tie: Mapping[Any, str], reverse: bool
) -> list[Any]:
    """The order that `sort` gives `kept` and `moved` together, `kept` being in that order already."""
    placed = sorted(sorted(moved, key=tie.__getitem__), key=rank.__getitem__, reverse=reverse)
    out: list[Any] = []
    done = 0
    for key in placed:
        value, low, high = rank[key], done, len(kept)
        while low < high:
            middle = (low + high) // 2
            other = rank[kept[middle]]
            before = tie[kept[middle]] < tie[key] if other == value else (other < value) != reverse
            low, high = (middle + 1, high) if before else (low, middle)
        out += kept[done:low]
        out.append(key)
        done = low
    return out + kept[done:]
