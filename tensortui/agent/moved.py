"""Which tensors were given other storages, or whose storages other memory, since they were read.

`p.data = p.data.half()` on all parameters changes every total, and nothing tells of it. So with each sample the words
in which torch keeps that are compared, in bulk and by a system call that cannot fault, with what they were when the
tensors were read: a microsecond a tensor (9 ms for 10,000, 93 ms for 100,000), all of it the kernel's. Where that is
too much for one sample they are compared in turn.
"""

import time
from array import array
from typing import Callable, Dict, List, Optional, Set

from tensortui.agent.census import Work
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.read import Facts
from tensortui.agent.tensor_impl import DATA, NBYTES, STORAGE

BATCH = 256  # tensors in one call: a quarter of a millisecond
ENOUGH, MOST = 0.0015, 0.02  # seconds of processor time in one sample; as long as nothing has changed, and else
OLD = 20.0  # seconds since the last comparison of all of them that are said
INNER = NBYTES - DATA + 1  # words of a storage that are compared
EACH = 1 + INNER  # words that are compared for a tensor
CHANGED = "tensors whose storages changed since they were read, and that are still counted as they were: %d"
IN_TURN = "whether tensors were given other storages is looked at in turn: that of some was up to %d s ago"


class Moved:
    """The words as they were, in arrays: a place in them for each tensor that was read and has a storage."""

    def __init__(self, pointer: Optional[int], again: Callable[[int], bool]) -> None:
        """Start with none; `pointer` leads from a Python tensor to the C++ one, None where that is not certain.

        `again` has a tensor read again, told by its number; False where it is gone.
        """
        self._pointer = pointer
        self._memory = Memory() if pointer is not None else None
        self._again = again
        self._at: Dict[int, int] = {}  # by the number of the tensor
        self._numbers = array("q")
        self._places = array("Q")  # address and length: of the pointer to the storage, and in the storage
        self._words = array("Q")
        self._next = 0
        self.waiting: Set[int] = set()  # that have changed and were not read again
        self._begun = self._before = time.monotonic()  # when this round began, and the one before

    def note(self, number: int, address: int, facts: Facts) -> None:
        """Remember what was read of the tensor at `address`, which is in the hand of the caller."""
        self.waiting.discard(number)
        if self._memory is None or not facts.storage_id:
            self.forget(number)
            return
        at = self._at.get(number)
        if at is not None and self._same(at, facts):
            return  # the C++ tensor behind a Python one stays the same: torch exchanges none that has a weak reference
        inner = self._memory.word(address + (self._pointer or 0)) + STORAGE * WORD
        words = array("Q", [facts.storage_id, *self._memory.words(facts.storage_id + DATA * WORD, INNER)])
        if len(words) != EACH:
            words = array("Q", bytes(EACH * WORD))  # it was gone at once: no words are these
        for place, known in ((1, facts.address), (EACH - 1, facts.nbytes)):
            if known is not None:
                words[place] = known
        places = array("Q", [inner, WORD, facts.storage_id + DATA * WORD, INNER * WORD])
        if at is None:
            self._at[number] = len(self._numbers)
            self._numbers.append(number)
            self._places.extend(places)
            self._words.extend(words)
        else:
            self._places[4 * at : 4 * at + 4] = places
            self._words[EACH * at : EACH * at + EACH] = words

    def _same(self, at: int, facts: Facts) -> bool:
        words, first = self._words, EACH * at
        return (
            words[first] == facts.storage_id
            and (facts.address is None or words[first + 1] == facts.address)
            and (facts.nbytes is None or words[first + EACH - 1] == facts.nbytes)
        )

    def forget(self, number: int) -> None:
        """Compare a tensor no longer; the last one takes its place."""
        self.waiting.discard(number)
        at = self._at.pop(number, None)
        if at is None:
            return
        last = self._numbers.pop()
        places, words = self._places[-4:], self._words[-EACH:]
        del self._places[-4:], self._words[-EACH:]
        if last != number:
            self._at[last] = at
            self._numbers[at] = last
            self._places[4 * at : 4 * at + 4] = places
            self._words[EACH * at : EACH * at + EACH] = words

    def all_read(self) -> None:
        """Say that everything was read just now."""
        self._begun = self._before = time.monotonic()

    def compare(self) -> Work:
        """Compare those whose turn it is, and have those read again that have changed; yields between the calls."""
        spent, changed = 0.0, False
        left = len(self._numbers)
        while left > 0 and spent < (MOST if changed else ENOUGH):
            start = time.thread_time()
            if self._next >= len(self._numbers):
                self._next = 0
                self._before, self._begun = self._begun, time.monotonic()
            end = min(self._next + BATCH, len(self._numbers))
            left -= end - self._next
            for number in self._changed(self._next, end):
                changed = True
                if self._again(number):
                    self.waiting.add(number)
            self._next = end
            spent += time.thread_time() - start
            yield
        if left <= 0:
            self.all_read()  # all of them in this very sample

    def _changed(self, start: int, end: int) -> List[int]:
        """Return the numbers of those between two places whose words are no longer what they were."""
        found: List[int] = []
        while start < end and self._memory is not None:
            now = array("Q", bytes(EACH * WORD * (end - start)))
            got = max(self._memory.read(self._places[4 * start : 4 * end], now), 0) // (EACH * WORD)
            then = self._words[EACH * start : EACH * end]
            if got == end - start and now == then:
                break
            for place in range(got):
                part = slice(EACH * place, EACH * place + EACH)
                if now[part] != then[part]:
                    self._words[EACH * (start + place) : EACH * (start + place + 1)] = now[part]  # said once is enough
                    found.append(self._numbers[start + place])
            if start + got < end:  # its memory cannot be read any more
                found.append(self._numbers[start + got])
            start += got + 1
        return found

    def reasons(self) -> List[str]:
        """Return one sentence for each reason why a total may be wrong."""
        age = time.monotonic() - self._before
        found = [CHANGED % len(self.waiting)] if self.waiting else []
        return [*found, IN_TURN % age] if age > OLD and self._numbers else found
