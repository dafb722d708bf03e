"""Keeps the census true: the first scan, each sample's small work, the passes of discovery."""

import sys
import time
from itertools import islice, takewhile
from typing import Any, Callable, Dict, Generator, List, Optional

from tensortui.agent import graph, names, nodes, variables
from tensortui.agent.census import Census, Context, Work, is_passing, with_variables
from tensortui.agent.coverage import Coverage
from tensortui.agent.enumerate import NEWEST, Types, Young, absorb, scan_generations
from tensortui.agent.guard import COMPANY, LATER, Alone, Backward, Stillness
from tensortui.agent.poolscan import PoolScanner
from tensortui.agent.readings import Readings
from tensortui.agent.revisit import merged
from tensortui.wire.messages import INPUT, NOT_YET, OTHER

TYPES_EVERY = 5.0
PASS_LIMIT = 0.5  # CPU seconds of one pass: a program may hold more objects than can be looked through
BRIEF = "asked too often to read all anew: versions and names may be up to %d s old"
NEVER = "asked too often to read all: not everything has been read and named yet"
APART = "tensors without a storage of their own, such as sparse ones, are in no total: %d, %d bytes"
LATELY, FEW = 2_000, 8  # tensors made last that are asked whether they have names, and so many without are usual
NAMELESS = "names were last looked for %.0f s ago: %d tensors that came since then have none yet"
TORN = 0.5  # seconds
SPREAD = "what is new was read over %.1f s: tensors that live shorter than that may be missing"
RECENT_SHARE = 1.0  # budgets: what naming the newest may take where that is much
BACKWARD_WAIT, LONGEST_PAUSE = 0.25, 0.032  # seconds
TAKES = 3  # times that the newest are looked for in one sample
DROPPED, DROP_GAP = 500, 0.0005
MOST_NEW = 2_000  # tensors made since the last sample of which it is asked whether one has no name


class Sampler:
    """Everything that needs torch. Its generators are run in slices by the loop, one at a time."""

    def __init__(self, torch: Any, budget: float, clock: Callable[[], float]) -> None:
        """Prepare; nothing of the target is touched before `start` runs."""
        self.torch = torch
        self.census = Census(clock)
        self.types = Types(torch, self.census)
        self.young = Young(self.types, self.census.dead, clock)
        self.readings = Readings(torch, self.census)
        self.tables = (self.readings.storage_table, self.readings.tensors)
        # What is learned by calling torch, or by loading a library, is learned here: it gives up the interpreter lock.
        variables.frame_locals()
        self.scanner = PoolScanner()
        self.coverage = Coverage(self.census, self.scanner, budget, self.types)
        # By pass, of its last run.
        self._pass_reasons: Dict[str, List[str]] = {"names": [names.NOT_YET], "graph": [NOT_YET]}
        self._named_at = 0.0  # when the last pass over the names that has ended began
        self._types_at = 0.0
        self._recent_at = 0.0
        self._recent_due = False  # something was born that was not looked for in containers yet
        self.complete_at = 0.0  # when everything was last read anew, of time.monotonic()
        self.spread = 0.0  # seconds over which the newest of the last sample was read
        self.brief = False  # the last request was answered without that
        self._budget = budget
        self._backward = Backward(sys.modules)
        self._last = 0  # the last tensor that there was at the last look at containers
        self._direct: Dict[int, str] = {}  # what variables themselves held when they were last looked at

    @property
    def progress(self) -> float:
        """How far the first scan is, 0 to 1."""
        return self.readings.progress

    def reasons(self) -> List[str]:
        """Return one sentence for each reason why not everything is known."""
        found = self.coverage.reasons()
        for more in self._pass_reasons.values():
            found += more
        apart = list(self.readings.apart.values())
        if apart:
            found.append(APART % (len(apart), sum(apart)))
        found += self.readings.reasons()
        if self.spread > TORN:
            found.append(SPREAD % self.spread)
        found += names.revisit_of(self.census).reasons()
        found += self._nameless()
        if self.brief:
            found.append(BRIEF % (time.monotonic() - self.complete_at) if self.complete_at else NEVER)
        return found

    def _nameless(self) -> List[str]:
        """Return one sentence where much has come since the names were looked for: a new model, a buffer that fills."""
        if not self._named_at:
            return []
        newest = islice(reversed(self.census.by_id.values()), LATELY)
        new = takewhile(lambda one: one.born > self._named_at, newest)
        count = sum(not (one.names or one.saved or one.cpp_only) for one in new)
        if count <= max(FEW, len(self.census.by_id) // 20):
            return []
        return [NAMELESS % (self.census.clock() - self._named_at, count)]

    # -- enumeration

    def start(self) -> Work:
        """Find everything that lives now: what is born during the scan is young when that is over, or is missed."""
        yield from self.types.refresh()
        self._types_at = self.census.clock()
        self.young.look()
        passed = yield from self._scan_closely()
        self.coverage.scanned(self.young, self.types, passed)
        self.census.first = self.census.last

    def scan(self) -> Work:
        """Note everything of the wanted types: from the pools where that works, else from the collector's lists."""
        if not self.scanner.reason:
            try:
                yield from self.scanner.scan(self.types.kinds, self.young.found, self.census.dead)
                return
            except (OSError, ValueError) as error:
                self.scanner.reason = str(error)
        yield from scan_generations(self.young)

    def drain(self) -> Work:
        """Take in what was born and what died since the last time."""
        now = self.census.clock()
        if self.types.stale or now - self._types_at > TYPES_EVERY:
            self._types_at = now
            yield from self.types.refresh()
        nodes.DEPTHS.forget_dead()
        self.young.look()
        yield from self.readings.bury()
        yield from absorb(self.young, self.census, self.readings.read_newest)
        yield from self.readings.bury()
        self.coverage.check(self.young)

    def take_newest(self) -> Work:
        """Take in what was born a moment ago, and died: where that is little, within the slice in which this begins.

        Where that slice came to its end before, others have run: what a variable held may have gone, and what it holds
        now was not looked for. So it is done again, a few times.
        """
        for left in reversed(range(TAKES)):
            self.young.look(NEWEST)
            yield from absorb(self.young, self.census, self.readings.read_newest)
            yield from self.readings.bury()
            self.coverage.check(self.young)
            if self.young.looked == COMPANY.pieces or not left:
                return
            yield LATER

    def await_backward(self) -> Work:
        """Wait a moment for the end of a backward: in the middle of one, gradients can neither be listed nor named.

        Without this nearly all samples would fall into one: it is when the interpreter lock is free for long.
        """
        end = self.census.clock() + BACKWARD_WAIT
        pause = LATER
        while True:
            yield pause  # what comes next begins with a slice of its own, and may be over with it
            pause = min(2 * pause, LONGEST_PAUSE)
            with Alone():
                running = self._backward.known and self._backward.running(Stillness())
            if not running or self.census.clock() > end:
                return

    def audit(self) -> Work:
        """Scan once more, where tensors may have been missed and the budget allows it."""
        if self.coverage.audit_due(self.young, self.types):
            yield from self._scan_again()

    def complete(self) -> Work:
        """Scan once more for somebody who waits, where as few as one were missed."""
        yield from self.drain()
        if self.coverage.some_missing(self.young):
            yield from self._scan_again()

    def _scan_again(self) -> Work:
        start = self.coverage.cpu()
        passed = yield from self._scan_closely()
        self.coverage.scanned(self.young, self.types, passed, self.coverage.cpu() - start)

    def _scan_closely(self) -> Generator[Any, None, int]:
        """Scan, and look at what is young meanwhile; return how many collections there had been before."""
        passed = self.young.passed
        yield from self.young.keep_up(self.scan())
        self.young.look()
        yield from absorb(self.young, self.census, self.readings.read_newest)
        yield from self.readings.bury()
        return passed

    def compact(self) -> Work:
        """Keep the tables' dictionaries from growing for ever."""
        yield from self.readings.compact()

    def dismantle(self) -> None:
        """Let go of all that is kept, some at a time: at once would hold the interpreter lock for long."""
        kept: List[Dict[Any, Any]] = [table.rows for table in self.tables]
        for one in [*kept, self.readings.unwrapped.by_leaf, *self.census.indexes]:
            while one:
                for _ in range(min(len(one), DROPPED)):
                    one.popitem()
                time.sleep(DROP_GAP)

    # -- discovery

    def run_names(self) -> Work:
        """Find names and roles: modules, optimizers, globals, frames and what hangs below them."""
        yield from self._run("names", names.discover)

    def run_direct(self) -> Work:
        """Name what comes and goes with each step: gradients, and what variables hold now."""
        yield from self._name_new(names.discover_gradients)
        context = self._of_known()
        yield from names.discover_direct(context)
        if context.direct is not None:
            yield from self._apply_direct(context.direct, context.categories)

    def _of_known(self) -> Context:
        """Return what a look within a sample works with: what was born since belongs to the next one."""
        context = Context(self.torch, self.census, [])
        context.track = self.census.find
        return context

    def run_revisit(self) -> Work:
        """Name what lists, deques and dictionaries were given."""
        last, self._last = self._last, self.census.last
        new = range(max(last + 1, self._last - MOST_NEW), self._last + 1)
        stirred = any(number in self.census.by_id and not self.census.by_id[number].names for number in new)
        yield from names.revisit(self._of_known(), self.readings.named, stirred)

    def _apply_direct(self, direct: Dict[int, str], categories: Dict[int, int]) -> Work:
        """Call tensors by the variables that hold them now, and no longer by those that do not."""
        was, self._direct = self._direct, direct
        now = self.census.clock()
        for place, number in enumerate({**was, **direct}):
            if not place % DROPPED:
                yield
            tracked = self.census.by_id.get(number)
            called = direct.get(number, "")
            if tracked is None:
                continue
            tracked.told = now
            if called and called == was.get(number) == tracked.names:
                continue
            found = categories.get(number, OTHER)
            if tracked.found in (OTHER, INPUT) or found < tracked.found:
                tracked.found, found = found, tracked.found
            names_now = with_variables(tracked.names, was.get(number, ""), called)
            if names_now != tracked.names or found != tracked.found:
                tracked.names = names_now
                self.readings.named(tracked)

    def run_recent(self, born: bool, at_once: bool = False) -> Work:
        """Name what was born lately and containers hold: with the sample that finds it, or one soon."""
        now = self.census.clock()
        self._recent_due = self._recent_due or born
        if at_once or (self._recent_due and now >= self._recent_at):
            self._recent_due = False
            spent = yield from self._name_new(names.discover_recent)
            self._recent_at = now + spent / (self._budget * RECENT_SHARE)

    def _name_new(self, discover: Callable[[Context], Work]) -> Generator[Any, None, float]:
        context = self._of_known()
        work = discover(context)
        spent = 0.0
        while True:
            start = time.thread_time()
            try:
                said = next(work)
            except StopIteration:
                break
            spent += time.thread_time() - start
            yield said
        for place, number in enumerate(list(context.names)):
            if place % DROPPED == DROPPED - 1:
                yield
            tracked = self.census.by_id.get(number)
            if tracked is not None and context.names[number] and not tracked.names:
                tracked.names, tracked.told = context.names[number], self.census.clock()
                tracked.found = min(tracked.found, context.categories[number])
                self.readings.named(tracked)
        return spent

    def run_graph(self) -> Work:
        """Find the tensors that the autograd graph saved for backward."""
        yield from self._run("graph", graph.discover)

    def walk_graph(self, roots: Optional[List[int]], limit: int) -> Generator[None, None, Dict[str, Any]]:
        """Return the body of the `graph` message, every tensor in it known to the census."""
        yield from self.drain()
        yield from self.readings.read_fresh()
        body = yield from graph.walk(Context(self.torch, self.census, []), roots, limit)
        return body

    def _run(self, kind: str, discover: Callable[[Context], Generator[None, None, Any]]) -> Work:
        context = Context(self.torch, self.census, [])
        started = self.census.clock()
        work = discover(context)
        spent, complete = 0.0, None
        while spent < PASS_LIMIT:
            start = time.thread_time()
            try:
                said = next(work)
            except StopIteration as end:
                complete = end.value
                break
            spent += time.thread_time() - start
            yield said
        else:
            work.close()
            complete = False
            context.reasons.append("%s: cut short after %g s of work" % (kind, PASS_LIMIT))
        self._pass_reasons[kind] = list(context.reasons)
        if kind == "names" and context.direct is not None:
            merged = {**self._direct, **context.direct}
            self._direct = {number: names for number, names in merged.items() if number in self.census.by_id}
        yield from self._apply(kind, context, started, complete is not False)
        if kind == "names":
            self._named_at = started

    def _apply(self, kind: str, context: Context, started: float, complete: bool) -> Work:
        """Take over what a pass found; what it did not find has no name, if born before the time `complete`.

        Where a sample has looked since the pass began, what it saw of variables and containers stays as it is.
        """
        followed = names.revisit_of(self.census).following(context.direct is not None)
        for tracked in list(self.census.by_id.values()):
            called = context.names.get(tracked.id)
            if called is None and (not complete or tracked.born > started):
                yield
                continue
            if kind == "graph":
                if tracked.saved != (called is not None):
                    tracked.saved = called is not None
                    self.readings.again(tracked)
            else:
                called, found = called or "", context.categories.get(tracked.id, OTHER)
                if not complete:  # the pass was cut: what names it best, or tells its role, may not have been reached
                    found = min(found, tracked.found)
                    if is_passing(called) and not is_passing(tracked.names):
                        called = tracked.names
                if tracked.told > started:
                    called = merged(tracked.names, called, followed)
                    found = min(found, tracked.found)
                if called != tracked.names or found != tracked.found:
                    tracked.names, tracked.found = called, found
                    self.readings.named(tracked)
            yield
