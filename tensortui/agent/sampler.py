"""Keeps the census and the two tables true: the first scan, each sample's small work, the passes of discovery."""

import collections
from typing import Any, Callable, Deque, Dict, Generator, Iterable, List, Optional

from tensortui.agent import graph, names
from tensortui.agent.census import Census, Context, Tracked, Work
from tensortui.agent.coverage import Coverage
from tensortui.agent.enumerate import NO_LIMIT, Hook, Types, absorb, scan_generations
from tensortui.agent.poolscan import PoolScanner
from tensortui.agent.read import BASE_ONLY, CPP_ONLY, TensorReader, calibrate_references, references
from tensortui.agent.rows import Table, number
from tensortui.agent.storages import Maps, Size, Storages
from tensortui.wire.messages import ACTIVATION, INPUT, OTHER, SAVED, TENSOR_COLUMNS

OLD_PER_SAMPLE = 200
TYPES_EVERY = 5.0


class Sampler:
    """Everything that needs torch. Its generators are run in slices by the loop, one at a time."""

    def __init__(self, torch: Any, budget: float, clock: Callable[[], float]) -> None:
        """Prepare; nothing of the target is touched before `start` runs."""
        self.torch = torch
        self.census = Census(clock)
        self.types = Types(torch, self.census)
        self.hook = Hook(self.types.wanted, self.census.dead, budget)
        self.tensors = Table("tensors")
        self.storage_table = Table("storages")
        self.maps = Maps()
        self.storages = Storages(self.storage_table, self.maps)
        self.reader = TensorReader(torch, Size(torch).of)
        self.scanner = PoolScanner()
        if self.scanner.reason:
            self.hook.young_limit = NO_LIMIT
        self.coverage = Coverage(self.census, self.scanner, budget)
        self.progress = 0.0
        self.pass_reasons: Dict[str, List[str]] = {}  # by pass, of its last run
        self._types_at = 0.0
        self._ours = calibrate_references()
        self._rotation: List[int] = []
        self._again: Deque[Tracked] = collections.deque()
        self._dictionary = {name: self.tensors.dictionary(name) for name, kind in TENSOR_COLUMNS if kind == "value"}

    # -- enumeration

    def start(self) -> Work:
        """Find everything that lives now; the hook is in place before the scan, so nothing falls between."""
        yield from self.types.refresh()
        self._types_at = self.census.clock()
        self.hook.install()
        yield from self.scan()
        self.progress = 0.2
        self.hook.look_if_small()
        yield from absorb(self.hook, self.census)
        self.coverage.scanned(self.hook, self.types)
        self.progress = 0.3

    def scan(self) -> Work:
        """Note everything of the wanted types: from the pools where that works, else from the collector's lists."""
        if not self.scanner.reason:
            try:
                yield from self.scanner.scan(self.types.kinds, self.hook.found, self.census.dead)
                return
            except (OSError, ValueError) as error:
                self.scanner.reason = str(error)
        self.hook.young_limit = NO_LIMIT
        yield from scan_generations(self.hook)

    def drain(self) -> Work:
        """Take in what was born and what died since the last time."""
        now = self.census.clock()
        if now - self._types_at > TYPES_EVERY:
            self._types_at = now
            yield from self.types.refresh()
        self.hook.look_if_small()
        yield from self._bury()
        yield from absorb(self.hook, self.census)
        yield from self._bury()
        self.coverage.check(self.hook, self.types)

    def audit(self) -> Work:
        """Scan once more, where tensors may have been missed and the budget allows it."""
        if not self.coverage.audit_due(self.hook, self.types):
            return
        start = self.coverage.cpu()
        skipped = self.hook.skipped
        yield from self.scan()
        yield from absorb(self.hook, self.census)
        self.coverage.scanned(self.hook, self.types, skipped, self.coverage.cpu() - start)

    def _bury(self) -> Work:
        while True:
            dead = self.census.bury()
            if dead is None:
                return
            self.tensors.drop(dead.id)
            self.storages.use(None, dead.storage)
            self._view_of(dead, None)
            yield

    def close(self) -> None:
        """Take the hook out of the collector."""
        self.hook.remove()

    # -- reading

    def read_fresh(self) -> Work:
        """Read what was tracked but never read, and what a pass wants to be read again."""
        self.maps.read()
        for queue in (self.census.fresh, self._again):
            while queue:
                self._read(queue.popleft())
                yield

    def read_watched(self, ids: Iterable[int]) -> Work:
        """Read the tensors that a viewer has on its screen, then some two hundred old ones."""
        by_id = self.census.by_id
        for wanted in ids:
            tracked = by_id.get(wanted)
            if tracked is not None:
                self._read(tracked)
                yield
        if not self._rotation:
            self._rotation = list(by_id)
        for wanted in self._rotation[-OLD_PER_SAMPLE:]:
            tracked = by_id.get(wanted)
            if tracked is not None:
                self._read(tracked)
                yield
        del self._rotation[-OLD_PER_SAMPLE:]

    def read_all(self) -> Work:
        """Read every tensor anew."""
        self.maps.read()
        todo = list(self.census.by_id.values())
        self.census.fresh.clear()
        low, total = self.progress, max(len(todo), 1)
        for done, tracked in enumerate(todo):
            self._read(tracked)
            self.progress = low + 0.4 * done / total
            yield
        yield from self.read_fresh()

    def _read(self, tracked: Tracked) -> None:
        held = references(tracked.ref) - self._ours
        tensor = tracked.ref()
        if tensor is None:
            return
        with self.reader.guard():
            facts = self.reader.read(tensor)
        del tensor
        base, facts.base = facts.base, None
        self._view_of(tracked, None if base is None else self.census.track(base))
        del base
        storage = self.storages.find(facts)
        self.storages.use(storage, tracked.storage)
        tracked.storage = storage
        flags = facts.flags
        tracked.cpp_only = False
        if facts.owners is not None and held - (1 if facts.owners else 0) <= 0:
            if tracked.views and tracked.views == facts.owners:
                flags |= BASE_ONLY
            elif tracked.saved and not tracked.names:
                flags |= CPP_ONLY
                tracked.cpp_only = True
        word = self._dictionary
        tracked.category = self._category(tracked, facts.grad_fn is not None)
        tracked.row = (
            tracked.id,
            number(storage),
            word["names"].index(tuple(tracked.names)),
            word["type"].index(facts.type),
            word["shape"].index(facts.shape),
            word["strides"].index(facts.strides),
            number(facts.offset),
            word["dtype"].index(facts.dtype),
            word["device"].index(facts.device),
            word["layout"].index(facts.layout),
            number(facts.bytes),
            flags,
            number(facts.requires_grad),
            number(facts.is_leaf),
            number(facts.version),
            word["grad_fn"].index(facts.grad_fn),
            tracked.category,
        )
        if self.tensors.put(tracked.row):
            tracked.seq = self.tensors.serial

    def _view_of(self, tracked: Tracked, base: Optional[Tracked]) -> None:
        now = None if base is None else base.id
        if now == tracked.base:
            return
        for number_, step in ((tracked.base, -1), (now, 1)):
            one = None if number_ is None else self.census.by_id.get(number_)
            if one is not None:
                one.views += step
                self._again.append(one)
        tracked.base = now

    @staticmethod
    def _category(tracked: Tracked, has_grad_fn: bool) -> int:
        best = min(tracked.found, SAVED) if tracked.saved else tracked.found
        return ACTIVATION if has_grad_fn and best >= INPUT else best

    # -- discovery

    def run_names(self) -> Work:
        """Find names and roles: modules, optimizers, globals, frames and what hangs below them."""
        yield from self._run("names", names.discover)

    def run_graph(self) -> Work:
        """Find the tensors that the autograd graph saved for backward."""
        yield from self._run("graph", graph.discover)

    def walk_graph(self, roots: Optional[List[int]], limit: int) -> Generator[None, None, Dict[str, Any]]:
        """Return the body of the `graph` message, every tensor in it known to the census."""
        yield from self.drain()
        yield from self.read_fresh()
        body = yield from graph.walk(Context(self.torch, self.census, []), roots, limit)
        return body

    def _run(self, kind: str, discover: Callable[[Context], Generator[None, None, Any]]) -> Work:
        context = Context(self.torch, self.census, [])
        complete = yield from discover(context)
        self.pass_reasons[kind] = list(context.reasons)
        yield from self._apply(kind, context, complete is not False)

    def _apply(self, kind: str, context: Context, complete: bool) -> Work:
        nothing: List[str] = []
        for tracked in list(self.census.by_id.values()):
            entry = context.found.get(tracked.id)
            if entry is None and not complete:
                continue
            if kind == "graph":
                if tracked.saved != (entry is not None):
                    tracked.saved = entry is not None
                    self._again.append(tracked)
            else:
                names, found = (nothing, OTHER) if entry is None else (entry[1], entry[2])
                if names != tracked.names or found != tracked.found:
                    tracked.names, tracked.found = names, found
                    self._again.append(tracked)
            yield
