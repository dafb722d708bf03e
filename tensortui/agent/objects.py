"""Which object, or which buffer of one, lies around an address of this process's memory."""

import sys
import weakref
from array import array
from typing import Any, List, Optional, Set, Tuple

from tensortui.agent.alive import GC_HEAD, Alive, objects_at
from tensortui.agent.census import Work
from tensortui.agent.containers import HEAP_TYPE, type_flags
from tensortui.agent.memory import WORD, Memory, pairs
from tensortui.agent.poolscan import ALIGNMENT, HEADER, LARGEST, POOL, PRE_HEADER, valid

BACK = 1 << 20  # bytes before an address in which the object or the buffer that it lies in begins
STEP = 8 << 10
PAGE = 4096
MOST_PAGES = 4096  # before an address in which a buffer with a mapping of its own begins
AT_ONCE = 64
CHUNK_HEAD = 16  # of a block of malloc: the size of the block before, its own size
MOST_SIZE = 1 << 40
NEXT = 4  # blocks behind one that must look like blocks
LIKELY = 3  # buffers that one address may be in
IN_USE, MAPPED, FLAGS = 1, 2, 7
VALUES_HEADS = (8, 16, 24, 32)  # bytes before the attribute values of an instance in their buffer, by their number
SUBCLASSES = type.__dict__["__subclasses__"]
GENERATOR = 40  # words of a generator in which its variables begin
TAG = 1  # 3.12 marks the pointer to the values of an instance


class Place:
    """Where a word was found: objects that it may be in, and buffers, as (start, size), that it may be in."""

    __slots__ = ("buffers", "objects", "plain")

    def __init__(self) -> None:
        """Nothing known."""
        self.objects: List[int] = []
        self.plain: List[int] = []  # objects that the collector does not know: that they live is not certain
        self.buffers: List[Tuple[int, int]] = []


class Objects:
    """Finds the objects around addresses. `kinds` has the address of every type there is."""

    def __init__(self, memory: Memory) -> None:
        """Learn where a suspended generator has its variables."""
        self.memory = memory
        self.alive = Alive(memory)
        self.kinds: Set[int] = set()
        self._static: Set[int] = set()  # of these, those that never go
        self.generator_slots = _learn_generator(memory)

    def learn_types(self) -> Work:
        """Note all types; yields between pieces."""
        todo = [weakref.ref(object)]
        while todo:
            kind = todo.pop()()
            if kind is not None and id(kind) not in self.kinds:
                self.kinds.add(id(kind))
                if not type_flags(kind) & HEAP_TYPE:
                    self._static.add(id(kind))
                todo.extend(map(weakref.ref, SUBCLASSES(kind)))
            del kind
            if not len(todo) % 16:
                yield

    def kind_of(self, address: int) -> Optional[type]:
        """Return the type of an object that is likely to live at `address`; the caller is `Alone`."""
        kind = self.memory.word(address + WORD)
        found: Any = None
        if kind in self._static:
            found = objects_at([kind])[0]
        else:
            found = next(iter(self.alive.take([kind], self.kinds)), None)
        return found if found is not None and issubclass(type(found), type) else None

    def around(self, address: int, place: Place) -> Work:
        """Fill in `place` for one address."""
        header = array("I", bytes(HEADER))
        pool = address & -POOL
        if self.memory.read(array("Q", [pool, HEADER]), header) == HEADER and valid(header[9], header[11]):
            size = (header[9] + 1) * ALIGNMENT
            if address >= pool + HEADER:
                self._in_block(pool + HEADER + (address - pool - HEADER) // size * size, size, place)
                return
        yield from self._before(address, place)
        if not place.buffers:
            yield from self._mapped(address, place)

    def _in_block(self, start: int, size: int, place: Place) -> None:
        place.buffers.append((start, size))
        words = self.memory.words(start, min(size // WORD, 6))
        for before in (0, GC_HEAD, GC_HEAD + PRE_HEADER):
            at = before // WORD
            if len(words) > at + 1 and words[at + 1] in self.kinds and 0 < words[at] < 1 << 40:
                tracked = before and words[at - 2]  # a link of the collector's list: a dictionary may have none
                (place.objects if tracked else place.plain).append(start + before)

    def _before(self, address: int, place: Place) -> Work:
        """Go back to where an object or a block of malloc begins that reaches to `address`."""
        end = address & -16
        for high in range(end, end - BACK, -STEP):
            yield
            low = high - STEP
            words = array("Q", bytes(STEP + 2 * CHUNK_HEAD))  # with the head of the block that begins at `high`
            if self.memory.read(array("Q", [low - CHUNK_HEAD, len(words) * WORD]), words) != len(words) * WORD:
                return
            kinds = self.kinds
            known = [number for number, word in enumerate(words) if word in kinds]
            place.objects += [
                low - CHUNK_HEAD + (number - 1) * WORD
                for number in reversed(known)
                if number
                and low <= low - CHUNK_HEAD + (number - 1) * WORD <= address
                and 0 < words[number - 1] < 1 << 40
            ]
            for number in range(len(words) - 3, 0, -2):  # the sizes, one in two words
                head = low - CHUNK_HEAD + (number - 1) * WORD
                size = words[number] & ~FLAGS
                reaches = (
                    LARGEST < size < MOST_SIZE and not size % 16 and head + CHUNK_HEAD <= address < head + size + WORD
                )
                if reaches and self._is_chunk(head, size, words[number] & MAPPED):
                    place.buffers.append((head + CHUNK_HEAD, size - WORD))
                    if len(place.buffers) == LIKELY:
                        return
            if place.buffers:
                return

    def _is_chunk(self, head: int, size: int, mapped: int) -> bool:
        """Whether a block of malloc of this size is likely to begin at `head`: those behind it fit."""
        if mapped:
            return not head % PAGE and not size % PAGE
        at, length = head, size
        for _ in range(NEXT):
            at += length
            behind = self.memory.words(at + WORD, 1)
            if not behind:
                return True  # it was the last
            length = behind[0] & ~FLAGS
            if (at == head + size and not behind[0] & IN_USE) or not 32 <= length < MOST_SIZE or length % 16:
                return False
        return True

    def _mapped(self, address: int, place: Place) -> Work:
        """Look for a block with a mapping of its own, page by page."""
        last = address & -PAGE
        for high in range(last, max(last - MOST_PAGES * PAGE, PAGE), -AT_ONCE * PAGE):
            yield
            pages = [high - number * PAGE for number in range(AT_ONCE)]
            sizes = array("Q", bytes(WORD * AT_ONCE))
            got = max(self.memory.read(pairs([page + WORD for page in pages], WORD), sizes), 0) // WORD
            for page, word in zip(pages[:got], sizes):
                size = word & ~FLAGS
                if word & FLAGS == MAPPED and not size % PAGE and page + CHUNK_HEAD <= address < page + size:
                    place.buffers.append((page + CHUNK_HEAD, size - CHUNK_HEAD))
                    return
            if got < AT_ONCE:
                return


def pointers_to(memory: Memory, start: int, size: int) -> List[int]:
    """Return the words by which the owner of a buffer may know it."""
    found = [start]
    if (3, 11) <= sys.version_info < (3, 13) and size <= LARGEST:
        head = memory.words(start, VALUES_HEADS[-1] // WORD)
        for length in VALUES_HEADS if head else ():
            if head[length // WORD - 1] >> 56 == length:  # the byte before the values says how long their head is
                found.append(start + length)
                if sys.version_info >= (3, 12):
                    found.append(start + length - TAG)  # as the instance itself knows it, which a dictionary does not
    return found


def _learn_generator(memory: Memory) -> Optional[int]:
    """Return the offset of the first variable of a suspended generator in it; None where it is not in there."""

    def suspended(mark: Any) -> Any:
        yield mark

    mark = object()
    generator = suspended(mark)
    for place, word in enumerate(memory.words_up_to(id(generator), GENERATOR)):
        if word & ~1 == id(mark):
            return place * WORD
    return None
