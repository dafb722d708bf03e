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

Found = Tuple[int, int, "Spot"]  # the deque, what it holds, where. As text: typing keeps what it is given


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
        block, last, left_index, right_index = objects.memory.words(address - WORD + FIRST, 4) or [0] * 4
        for number in range(size // BLOCK + 2):  # what the deque does to them meanwhile is noticed later, or missed
            words = objects.memory.words(block, BLOCK + 2)
            left -= 1
            if not words or left < 0:
                break
            first = left_index if not number else 0  # what was taken out is still there before and behind
            used = words[1 + first : 2 + right_index if block == last else -1]
            for place, word in enumerate(used, 1 + first) if not wanted.isdisjoint(used) else ():
                if word in wanted:
                    found.append((address - WORD, word, Spot(block + place * WORD, block)))
            if block == last:
                break
            block = words[-1]
            if not number % AT_ONCE:
                yield


def _length(objects: Objects, address: int) -> int:
    """Return how many elements the deque at `address` has, 0 where there is none."""
    with Alone():
        things: List[Any] = objects.alive.take([address], objects.kinds)
        return collections.deque.__len__(things[0]) if things and is_deque(things[0]) else 0
