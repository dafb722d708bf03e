"""Turns tracked tensors into rows of the two tables: each when it is new, on screen, or its turn has come."""

import struct
from itertools import islice
from typing import Any, Deque, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from tensortui.agent.census import SEPARATOR, Census, Tracked, Work
from tensortui.agent.deepest import Deepest
from tensortui.agent.gradients import GradientPointers
from tensortui.agent.guard import Alone
from tensortui.agent.moved import Moved
from tensortui.agent.owned import UNREAD, Ownership
from tensortui.agent.read import BASE_ONLY, CPP_ONLY, Facts, TensorReader, calibrate_references, references
from tensortui.agent.rows import IS_LEAF, Row, Table, number
from tensortui.agent.storages import Size, Storages
from tensortui.agent.unwrapped import Unwrapped
from tensortui.wire.messages import ACTIVATION, GRADIENT, INPUT, SAVED, TENSOR_COLUMNS

OLD_PER_SAMPLE = 50
NAMES, CATEGORY = ([name for name, _ in TENSOR_COLUMNS].index(one) for one in ("names", "category"))
FULL_STEP = 1000  # tensors between two tellings of the progress


class Readings:
    """Reads tensors and keeps their rows, their storages and who is a view of whom."""

    def __init__(self, torch: Any, census: Census) -> None:
        """Start with empty tables."""
        self.tensors = Table("tensors")
        self.storage_table = Table("storages")
        self.frozen = False  # whether no row may change now: they are compacted, or what changed is taken
        self.apart: Dict[int, int] = {}  # bytes of the tensors that have no storage of their own, as sparse ones
        self.progress = 0.0  # of the last full reading, 0 to 1
        self._census = census
        self._storages = Storages(self.storage_table)
        size = Size(torch)
        self._reader = census.memory["reader"] = TensorReader(torch, size.of)
        self._ownership = census.memory["ownership"] = Ownership(torch)
        self._unread: Set[int] = set()  # those that it is not safe to read
        self.moved = Moved(size.pointer, self._read_again)
        self.deepest = Deepest(self._reader.nodes)
        census.memory["gradients"] = GradientPointers(torch)
        self.unwrapped = census.memory["unwrapped"] = Unwrapped(torch, census, self.tensors, self._put, self._drop)
        self._ours = calibrate_references()
        self._rotation: List[int] = []
        self._again: Dict[int, Tracked] = {}  # by number: a base may be named again by each of its views
        census.memory["again"] = self.again
        self._unpack = struct.Struct("%dq" % len(TENSOR_COLUMNS)).unpack
        self._look_up()

    def _look_up(self) -> None:
        self._words = {name: self.tensors.dictionary(name) for name, kind in TENSOR_COLUMNS if kind == "value"}

    def again(self, tracked: Tracked) -> None:
        """Have a tensor read again: a pass changed what its row says."""
        self._again[tracked.id] = tracked

    def named(self, tracked: Tracked) -> None:
        """Put a new name or role into a tensor's row, for a tenth of what reading it costs; that where it says more."""
        row = self.tensors.rows.get(tracked.id)
        if row is None:
            return  # it is to be read yet
        if self.frozen or tracked.cpp_only or (tracked.saved and not tracked.names):
            self.again(tracked)
            return
        cells = list(self._unpack(row))
        cells[NAMES] = self._words["names"].index(self._called(tracked))
        cells[CATEGORY] = self._category(tracked, cells[IS_LEAF] == 0)
        tracked.row = self.tensors.put(tuple(cells))

    @staticmethod
    def _called(tracked: Tracked) -> Tuple[str, ...]:
        if tracked.cpp_only and tracked.saved_as:
            return (tracked.saved_as,)
        return tuple(tracked.names.split(SEPARATOR)) if tracked.names else ()

    def _read_again(self, number: int) -> bool:
        tracked = self._census.by_id.get(number)
        if tracked is not None and tracked.ref() is not None:
            self._again[number] = tracked
            return True
        return False

    def bury(self) -> Work:
        """Take the dead off the tables."""
        while True:
            dead = self._census.bury()
            if dead is None:
                return
            self._drop(dead)
            self.apart.pop(dead.id, None)
            self._again.pop(dead.id, None)
            self.moved.forget(dead.id)
            self.deepest.forget(dead.id)
            self._unread.discard(dead.id)
            self._view_of(dead, None)
            yield

    def reasons(self) -> List[str]:
        """Return one sentence for each reason why not every tensor has a row, or a true one."""
        found = self.moved.reasons()
        unread = [self._census.by_id[number] for number in self._unread if number in self._census.by_id]
        count = sum(one.row is None and one.found != GRADIENT for one in unread)
        return [*found, UNREAD % count] if count else found

    def compact(self) -> Work:
        """Start a table's dictionaries anew where they have grown far beyond what its rows use."""
        self.frozen = True
        try:
            for table in (self.tensors, self.storage_table):
                if table.bloated():
                    yield from table.compact()
        finally:
            self.frozen = False
            self._look_up()

    def read_fresh(self, most_again: Optional[int] = None) -> Work:
        """Read what was tracked but never read, and `most_again` of what a pass wants to be read again (None: all)."""
        yield from self._storages.settle()
        if self._census.fresh:
            yield from self._read_each(emptied(self._census.fresh))
        if self._again:
            # The newest first: what a variable holds now is gone with the next step, whatever else waits.
            some = list(islice(reversed(self._again), most_again))
            yield from self._read_each(one for one in map(self._take_again, some) if one is not None)

    def read_newest(self) -> None:
        """Read what was tracked last, at once; not while the rows must stay as they are."""
        if not self.frozen:
            self.read(self._census.fresh.pop())

    def _take_again(self, number: int) -> Optional[Tracked]:
        return self._again.pop(number, None)

    def read_watched(self, ids: Iterable[int]) -> Work:
        """Read the tensors that a viewer has on its screen."""
        by_id = self._census.by_id
        yield from self._read_each(by_id[one] for one in ids if one in by_id)

    def read_old(self) -> Work:
        """Read some of those that have been there for long, in turn."""
        if not self._rotation:
            self._rotation = list(self._census.by_id)
        todo = self._rotation[-OLD_PER_SAMPLE:]
        del self._rotation[-OLD_PER_SAMPLE:]
        yield from self.read_watched(todo)

    def read_all(self) -> Work:
        """Read every tensor anew."""
        yield from self._storages.settle()
        todo = list(self._census.by_id.values())
        self._census.fresh.clear()
        for start in range(0, len(todo), FULL_STEP):
            self.progress = start / len(todo)
            yield from self._read_each(iter(todo[start : start + FULL_STEP]))
        self.moved.all_read()
        yield from self.read_fresh()

    def _read_each(self, todo: Iterator[Tracked]) -> Work:
        """Read in pieces in which no other thread runs: none may see a tensor alive because we are looking at it."""
        more = True
        while more:
            more = False
            with Alone() as alone:
                for tracked in todo:
                    self.read(tracked)
                    if alone.over():
                        more = True
                        break
            yield

    def read(self, tracked: Tracked) -> None:
        """Read one tensor. Only `Alone`: nobody may see it alive because we are looking at it."""
        held = references(tracked.ref) - self._ours
        tensor = tracked.ref()
        if tensor is None:
            return
        if not self._ownership.is_safe(tracked.pyid):
            self._unread.add(tracked.id)
            return  # a row that it has from before stays
        self._unread.discard(tracked.id)
        with self._reader.guard():
            facts = self._reader.read(tensor)
        self.moved.note(tracked.id, tracked.pyid, facts)
        self.deepest.note(tracked.id, tracked.pyid, facts.grad_fn is not None)
        del tensor
        base, facts.base = facts.base, None
        self._view_of(tracked, None if base is None else self._census.track(base))
        del base
        tracked.cpp_only = False
        if facts.owners is not None and held - (1 if facts.owners else 0) <= 0:
            if tracked.views and tracked.views == facts.owners:
                facts.flags |= BASE_ONLY
            elif tracked.saved and not tracked.names:
                facts.flags |= CPP_ONLY
                tracked.cpp_only = True
        self._put(tracked, facts)
        if tracked.storage is None and facts.bytes:
            self.apart[tracked.id] = facts.bytes
        else:
            self.apart.pop(tracked.id, None)

    def _put(self, tracked: Tracked, facts: Facts) -> None:
        tracked.storage = self._storages.use(tracked.id, facts, tracked.storage)
        tracked.row = self.tensors.put(self._row(tracked, facts))

    def _drop(self, tracked: Tracked) -> None:
        self.tensors.drop(tracked.id)
        self._storages.leave(tracked.id, tracked.storage)

    def _row(self, tracked: Tracked, facts: Facts) -> Row:
        word = self._words
        return (
            tracked.id,
            number(tracked.storage),
            word["names"].index(self._called(tracked)),
            word["type"].index(facts.type),
            word["shape"].index(facts.shape),
            word["strides"].index(facts.strides),
            number(facts.offset),
            word["dtype"].index(facts.dtype),
            word["device"].index(facts.device),
            word["layout"].index(facts.layout),
            number(facts.bytes),
            facts.flags,
            number(facts.requires_grad),
            number(facts.is_leaf),
            number(facts.version),
            word["grad_fn"].index(facts.grad_fn),
            self._category(tracked, facts.is_leaf is False),
        )

    def _view_of(self, tracked: Tracked, base: Optional[Tracked]) -> None:
        now = None if base is None else base.id
        if now == tracked.base:
            return
        for number_, step in ((tracked.base, -1), (now, 1)):
            one = None if number_ is None else self._census.by_id.get(number_)
            if one is not None:
                one.views += step
                self._again[one.id] = one
        tracked.base = now

    @staticmethod
    def _category(tracked: Tracked, computed: bool) -> int:
        best = min(tracked.found, SAVED) if tracked.saved else tracked.found
        return ACTIVATION if computed and best >= INPUT else best


def emptied(queue: "Deque[Tracked]") -> Iterator[Tracked]:
    """Take the entries out of a queue one by one, those that are added meanwhile too."""
    while queue:
        yield queue.popleft()
