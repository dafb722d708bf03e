"""Find the tensors, modules and optimizers of the target: one scan, then what is young, with each sample."""

import collections
import gc
import sys
import weakref
from itertools import chain, compress, repeat, tee
from typing import Any, Callable, Deque, Dict, Iterator, List, Sequence, Set

from tensortui.agent.census import Census, Keyed, Work, has_base
from tensortui.agent.containers import HEAP_TYPE, is_wrapper, type_flags
from tensortui.agent.guard import COMPANY, Alone

YOUNG_LIMIT = 10_000  # objects: a younger generation that holds more is not read at once
PAUSE, MOST_PAUSE = 5.0, 600.0  # seconds for which one that did is left alone
# 3.14 has no middle generation: what has come through a collection may lie anywhere.
GENERATIONS = (0, 1) if sys.version_info < (3, 14) else (0,)
NEWEST = (0,)
AT_ONCE = 16  # new tensors
RELEASED = 32  # tensors between two looks at the clock
SWAPS = (
    "torch.__future__.set_swap_module_params_on_conversion(True) is set: torch refuses to exchange tensors that are "
    "watched, so none are listed"
)
SUBCLASSES = type.__dict__["__subclasses__"]
WEAKREF_OFFSET = type.__dict__["__weakrefoffset__"].__get__


class Types:
    """The ids of all types that are looked for: by id, since a metaclass may have a `__hash__` of its own."""

    def __init__(self, torch: Any, census: Census) -> None:
        """Start from torch's own bases; `refresh` finds what derives from them."""
        self._census = census
        base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
        census.base = base
        self._exact = census.exact_types = [torch.Tensor, torch.nn.Parameter]
        census.module_base, census.optimizer_base = torch.nn.Module, torch.optim.Optimizer
        self.roots: Dict[int, type] = {id(one): one for one in (base, torch.nn.Module, torch.optim.Optimizer)}
        self.wanted: Set[int] = set()
        self.tensors: List[weakref.ref[Any]] = []  # those of them that are classes of tensors, and counted
        self._kinds: Dict[int, Keyed] = {}  # the same types, each dropped from the sets as soon as it is dead
        self._dead: Deque[Keyed] = collections.deque()
        self.grown = False  # types appeared since this was last set to False
        self._future = vars(torch).get("__future__")
        self._swaps = False  # as of the last refresh

    @property
    def stale(self) -> bool:
        """Whether the target has changed its mind on exchanging tensors in place: `refresh` is due at once."""
        return self._swaps_now() != self._swaps

    def _swaps_now(self) -> bool:
        return self._future is not None and vars(self._future).get("_swap_module_params_on_conversion") is True

    @property
    def kinds(self) -> "List[weakref.ref[Any]]":
        """The types, for the pool scan."""
        return list(self._kinds.values())

    def forget_dead(self) -> None:
        """Drop the ids of types that died: another may have got the address, even one without weak references.

        To be called in the piece in which the sets are used, before that.
        """
        dead = self._dead
        while dead:
            ref = dead.popleft()
            if self._kinds.get(ref.key) is ref:
                del self._kinds[ref.key]
                self.wanted.discard(ref.key)
                self._census.types.ids.discard(ref.key)

    def refresh(self) -> Work:
        """Walk the subclasses anew: types may have been defined, or have died, since.

        Tensors whose contents torch exchanges in place are left out, since it refuses to where anybody holds a weak
        reference: wrappers always, and all that a module may have, gradients and buffers too, where the target asked
        for it.
        """
        swaps = self._swaps = self._swaps_now()
        self._census.withheld = SWAPS if swaps else ""
        self._census.exact_types = [] if swaps else self._exact
        tensors: Set[int] = set()
        wanted: Set[int] = set()
        kinds: Dict[int, Keyed] = {}
        counted: List[weakref.ref[Any]] = []
        for root in self.roots.values():
            todo = [weakref.ref(root)]
            of_tensors = root is self._census.base
            into = tensors if of_tensors else wanted
            seen: Set[int] = set()
            while todo:
                kind = todo.pop()()
                if kind is None or id(kind) in seen:
                    continue
                seen.add(id(kind))
                if WEAKREF_OFFSET(kind) and not (of_tensors and (swaps or is_wrapper(kind))):
                    into.add(id(kind))
                    known = self._kinds.get(id(kind))
                    if known is None or known() is not kind:
                        known = Keyed(kind, self._dead.append)
                        known.key = id(kind)
                    kinds[id(kind)] = known
                    if of_tensors and type_flags(kind) & HEAP_TYPE:  # of others an instance is no reference
                        counted.append(known)
                todo.extend(map(weakref.ref, SUBCLASSES(kind)))
                del kind
                yield
        wanted |= tensors
        self.grown = self.grown or not wanted <= self.wanted
        self._kinds = kinds
        self.tensors = counted
        fewer = not self._census.types.ids <= tensors
        for ids, now in ((self._census.types.ids, tensors), (self.wanted, wanted)):
            ids.update(now)  # a look between two pieces must never see a set without what stays
            ids.intersection_update(now)
        # Those of the last refresh that have died since were dropped under the ids that they had then.
        self._dead.extend(ref for ref in kinds.values() if ref() is None)
        self.forget_dead()
        if fewer:
            yield from self._release()

    def _release(self) -> Work:
        """Let go of the tensors whose types are wanted no more."""
        census = self._census
        todo = list(census.by_id.values())
        while todo:
            with Alone() as alone:
                while todo and not alone.over():
                    for tracked in todo[-RELEASED:]:
                        tensor = tracked.ref()
                        if tensor is not None and id(type(tensor)) not in census.types.ids:
                            census.give_up(tracked)
                        del tensor
                    del todo[-RELEASED:]
            yield


class Young:
    """What the program made lately: it is in the two younger generations of the collector, unless these were collected.

    Nothing of ours is called by the collector itself. It runs in the middle of any C function, and where a function
    written in Python is called there the interpreter delivers pending signals: what their handlers raise, a Ctrl-C for
    one, would be lost. So these generations are looked at with each sample, and what has moved on by then is found by
    the scan that follows when the numbers do not agree.
    """

    def __init__(self, types: Types, dead: Deque["weakref.ref[Any]"], clock: Callable[[], float]) -> None:
        """Prepare to look for objects of `types`."""
        self._types = types
        self.wanted = types.wanted.__contains__
        self.found: Deque[weakref.ref[Any]] = collections.deque()
        self.dead = dead
        self.looked = -1  # the piece in which the last look was: see `Company.pieces`
        self.passed = 0  # collections, or looks left out, by which something may have been missed
        self._clock = clock
        self._moved = 0
        self._level = -1  # the collector's count as `keep_up` last saw it: work that keeps up may be part of such work
        self._pause = [0.0, 0.0]  # for how long each generation was left alone when it last was found too large
        self._not_before = [0.0, 0.0]

    def look(self, generations: Sequence[int] = GENERATIONS) -> None:
        """Note what is young, or only what is in some of the generations.

        It is noted by weak references whose death callback is a C function. How many objects a generation holds is only
        known once it is read: the collector's own count goes down when old ones die. One that turns out to be large is
        left alone for a while, each time for longer.
        """
        with Alone():  # the list of them is in hand for a moment
            self.looked = COMPANY.pieces
            self._types.forget_dead()
            moved = sum(one["collections"] for one in gc.get_stats()[1:])
            self.passed += moved - self._moved
            self._moved = moved
            for generation in reversed(generations):  # the youngest last, for what is found last is taken in first
                now = self._clock()
                if now < self._not_before[generation] or gc.get_count()[0] > YOUNG_LIMIT:
                    self.passed += 1
                    continue
                objects = gc.get_objects(generation=generation)
                self.found.extend(
                    map(
                        weakref.ref,
                        compress(objects, map(self.wanted, map(id, map(type, objects)))),
                        repeat(self.dead.append),
                    )
                )
                pause = min(2 * self._pause[generation] or PAUSE, MOST_PAUSE) if len(objects) > YOUNG_LIMIT else 0.0
                self._pause[generation], self._not_before[generation] = pause, now + pause
                del objects

    def keep_up(self, work: Iterator[Any]) -> Iterator[Any]:
        """Go on with some work, and look in between whenever the collector is about to move on what is young.

        A program that makes thousands of tensors a second would otherwise have moved many past us by the end of a scan.
        """
        for said in work:
            yield said
            level = gc.get_count()[1]
            if level != self._level:
                self.look()
                self._level = level

    def look_at_all(self, generation: int) -> None:
        """Note all of a generation however large it is, by one call of a C function: its list is never in hand.

        That holds the interpreter lock for 0.2 us an object, 0.4 s at two million. But while anybody holds the list,
        nothing in it dies, and who waits for the lock may get it between any two instructions of Python.
        """
        with Alone():
            self._types.forget_dead()
            objects, same = tee(chain.from_iterable(map(gc.get_objects, (generation,))))
            picked = compress(objects, map(self.wanted, map(id, map(type, same))))
            self.found.extend(map(weakref.ref, picked, repeat(self.dead.append)))


def scan_generations(young: Young) -> Work:
    """Note everything the collector tracks, youngest generation first: objects only ever move up meanwhile."""
    for generation in (0, 1, 2):
        young.look_at_all(generation)
        yield


def absorb(young: Young, census: Census, read_newest: Callable[[], None]) -> Work:
    """Enter what was found, the newest first: tensors into the census, modules and optimizers into their bags.

    The first few tensors that are new are read in the same breath: in a program of few tensors, each may live for a
    fraction of a millisecond only.
    """
    found = young.found
    at_once = AT_ONCE
    left = len(found)  # more may come meanwhile, and another absorb may be under way
    while found and left > 0:
        with Alone() as alone:  # a reference is in hand for a moment: nobody else may see the thing alive by it
            while found and left > 0 and not alone.over():
                new = _enter(found.pop(), census)
                left -= 1
                if new and at_once:
                    at_once -= 1
                    read_newest()
        yield


def _enter(ref: "weakref.ref[Any]", census: Census) -> bool:
    """Enter one thing; return whether it is a tensor that was not known."""
    thing = ref()
    if thing is None:
        return False
    if id(type(thing)) in census.types.ids:
        last = census.last
        census.adopt(ref)
        return census.last > last
    if has_base(type(thing), census.module_base):
        census.modules.add(thing)
    elif has_base(type(thing), census.optimizer_base):
        census.optimizers.add(thing)
    return False
