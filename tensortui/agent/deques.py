"""Deques that hold something. Their blocks know each other, and only the outer two are known to the deque itself."""

import collections
from typing import Any, List, Set, Tuple

from tensortui.agent.census import Work
from tensortui.agent.guard import Alone
from tensortui.agent.heap import Heap, Hit
from tensortui.agent.links import Spot, is_deque
from tensortui.agent.memory import WORD
from tensortui.agent.objects import Objects

BLOCK = 64  # elements
FIRST = 3 * WORD  # where a deque has its first block
MOST_BLOCKS = 200_000  # of all deques together
AT_ONCE = 20  # blocks between two pieces

Found = Tuple[int, int, Spot]  # the deque, what it holds, where


def search_deques(heap: Heap, objects: Objects, wanted: Set[int], found: List[Found]) -> Work:
    """Append where deques hold the objects at the addresses `wanted` to `found`; yields between pieces."""
    hits: List[Hit] = []
    yield from heap.search([id(collections.deque)], hits, True)
    left = MOST_BLOCKS
    for address, _ in hits:
        size = _length(objects, address - WORD)
        yield
        if not size:
            continue
        block = objects.memory.word(address - WORD + FIRST)
        for number in range(size // BLOCK + 2):  # what the deque does to them meanwhile is noticed later, or missed
            words = objects.memory.words(block, BLOCK + 2)
            left -= 1
            if not words or left < 0:
                break
            for place, word in enumerate(words[1:-1], 1) if not wanted.isdisjoint(words[1:-1]) else ():
                if word in wanted:
                    found.append((address - WORD, word, Spot(block + place * WORD, block)))
            block = words[-1]
            if not number % AT_ONCE:
                yield


def _length(objects: Objects, address: int) -> int:
    """Return how many elements the deque at `address` has, 0 where there is none."""
    with Alone():
        things: List[Any] = objects.alive.take([address], objects.kinds)
        return collections.deque.__len__(things[0]) if things and is_deque(things[0]) else 0
