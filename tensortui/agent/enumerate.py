"""Find the tensors, modules and optimizers of the target: one scan, then a hook at each start of the collector."""

import collections
import gc
import os
import sys
import time
import weakref
from itertools import compress, repeat
from typing import Any, Callable, Deque, Dict, List, Optional, Set

from tensortui.agent.census import Census, Work, has_base
from tensortui.agent.containers import is_wrapper
from tensortui.agent.guard import Alone

QUEUE_LIMIT = 300_000  # found but not looked at: past this the hook finds no more until the agent has caught up
YOUNG_LIMIT = 10_000  # a youngest generation larger than this is not read in one go where there is another way
MIDDLE = sys.version_info < (3, 14)  # a generation from which nothing moves on but when it is itself collected
NO_LIMIT = 1 << 62
HOOK_SHARE = 0.5  # of the budget: what the hook may use, the rest is the thread's
CHUNK = 2_000
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
        self._exact = census.exact_type = torch.Tensor
        census.module_base, census.optimizer_base = torch.nn.Module, torch.optim.Optimizer
        self.roots: Dict[int, type] = {id(one): one for one in (base, torch.nn.Module, torch.optim.Optimizer)}
        self.wanted: Set[int] = set()
        self.kinds: List[weakref.ref[Any]] = []  # the same types, for the pool scan
        self.grown = False  # types appeared since this was last set to False
        self._future = vars(torch).get("__future__")
        self._swaps = False  # as of the last refresh

    @property
    def stale(self) -> bool:
        """Whether the target has changed its mind on exchanging tensors in place: `refresh` is due at once."""
        return self._swaps_now() != self._swaps

    def _swaps_now(self) -> bool:
        return self._future is not None and vars(self._future).get("_swap_module_params_on_conversion") is True

    def refresh(self) -> Work:
        """Walk the subclasses anew: types may have been defined, or have died, since.

        Tensors whose contents torch exchanges in place are left out, since it refuses to where anybody holds a weak
        reference: wrappers always, and all that a module may have, gradients and buffers too, where the target asked
        for it.
        """
        swaps = self._swaps = self._swaps_now()
        self._census.withheld = SWAPS if swaps else ""
        self._census.exact_type = None if swaps else self._exact
        tensors: Set[int] = set()
        wanted: Set[int] = set()
        kinds = []
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
                    kinds.append(weakref.ref(kind))
                todo.extend(map(weakref.ref, SUBCLASSES(kind)))
                del kind
                yield
        wanted |= tensors
        self.grown = self.grown or not wanted <= self.wanted
        self.kinds = kinds
        fewer = not self._census.types.ids <= tensors
        for ids, now in ((self._census.types.ids, tensors), (self.wanted, wanted)):
            ids.update(now)  # the hook may run at any moment and must never see a set without what stays
            ids.intersection_update(now)
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


class Hook:
    """The collector's callback: notes the youngest generation's tensors before they are promoted, nothing else."""

    def __init__(self, wanted: Set[int], dead: Deque["weakref.ref[Any]"], budget: float) -> None:
        """Prepare; `install` makes it live."""
        self.wanted = wanted.__contains__
        self._budget = budget * HOOK_SHARE
        self.young_limit = YOUNG_LIMIT
        self.found: Deque[weakref.ref[Any]] = collections.deque()
        self.dead = dead
        self.seconds = 0.0  # what it cost, booked by the governor
        self.skipped = 0  # collections that it let pass, so that tensors may have been missed
        self._purse = 0.01
        self._at = 0.0
        self._promoted = 0  # at most so many objects went to the middle generation since that was collected
        self._unseen = False  # whether some of them were not looked at
        self._pid = os.getpid()
        self._installed: Optional[Callable[[Any, Any], None]] = None
        self.on_fork: Optional[Callable[[], None]] = None

    def install(self) -> None:
        """Add the callback to the collector's."""
        self._installed = self.callback
        gc.callbacks.append(self._installed)

    def remove(self) -> Optional[int]:
        """Take the callback out again and return its place; by identity, since others' may have an `__eq__`."""
        installed, self._installed = self._installed, None
        callbacks = gc.callbacks
        for place in range(len(callbacks) - 1, -1, -1):
            if callbacks[place] is installed:
                del callbacks[place]
                return place
        return None

    def callback(self, phase: str, info: Any) -> None:
        """Called by the collector, on whatever thread collects; never raises."""
        if phase != "start":
            return
        try:
            now = time.perf_counter()
            if os.getpid() != self._pid:
                self._forked(phase, info)
                return
            young, last = gc.get_count()[0], info["generation"] > 0
            self._promoted += young
            wait = MIDDLE and not last and self._promoted <= YOUNG_LIMIT
            broke = self._purse + (now - self._at) * self._budget <= 0
            if wait or (MIDDLE and not last and broke):
                self._unseen = True
                return
            self._purse = min(0.05, self._purse + (now - self._at) * self._budget)
            self._at = now
            if broke or len(self.found) > QUEUE_LIMIT or young > self.young_limit:
                self.skipped += 1
            else:
                self.look()
                took = time.perf_counter() - now
                self._purse -= took
                self.seconds += took
            if last:
                self._promoted, self._unseen = 0, False
        except BaseException:
            self.skipped += 1

    def look(self) -> None:
        """Note what is young, by weak references whose death callback is a C function.

        What has come through one collection is still in the middle generation when that is collected in its turn, or
        has died: looking at both then costs a fraction of looking at each collection, and misses nothing.
        """
        self._note(gc.get_objects(generation=0))
        if self._unseen:
            self._unseen = False
            self._note(gc.get_objects(generation=1))

    def _note(self, objects: List[Any]) -> None:
        self.found.extend(
            map(weakref.ref, compress(objects, map(self.wanted, map(id, map(type, objects)))), repeat(self.dead.append))
        )

    def look_if_small(self) -> None:
        """Look between two collections, unless so much has piled up that it would stall the target."""
        if self._promoted * self._unseen + gc.get_count()[0] <= YOUNG_LIMIT:
            with Alone():  # the list of them is in hand for a moment
                self.look()

    def _forked(self, phase: Any, info: Any) -> None:
        """In a forked child: leave, and close what was inherited; the parent's viewers are not ours."""
        place = self.remove()
        self.found.clear()
        if self.on_fork is not None:
            try:
                self.on_fork()
            except Exception:
                pass
        if place is not None and place < len(gc.callbacks):
            gc.callbacks[place](phase, info)  # it moved into our place, where the collector's loop would miss it


def scan_generations(hook: Hook) -> Work:
    """Note everything the collector tracks, youngest generation first: objects only ever move up meanwhile."""
    wanted = hook.wanted
    for generation in (0, 1, 2):
        objects = gc.get_objects(generation=generation)  # holds the GIL for about 0.1 us an object
        while objects:
            part = objects[-CHUNK:]
            del objects[-CHUNK:]
            picked = compress(part, map(wanted, map(id, map(type, part))))
            hook.found.extend(map(weakref.ref, picked, repeat(hook.dead.append)))
            del part, picked
            yield


def absorb(hook: Hook, census: Census) -> Work:
    """Enter what was found: tensors into the census, modules and optimizers into their bags."""
    found = hook.found
    left = len(found)  # more may come all the time
    while left > 0:
        with Alone() as alone:  # a reference is in hand for a moment: nobody else may see the thing alive by it
            while left > 0 and not alone.over():
                _enter(found.popleft(), census)
                left -= 1
        yield


def _enter(ref: "weakref.ref[Any]", census: Census) -> None:
    thing = ref()
    if thing is None:
        return
    if id(type(thing)) in census.types.ids:
        census.adopt(ref)
    elif has_base(type(thing), census.module_base):
        census.modules.add(thing)
    elif has_base(type(thing), census.optimizer_base):
        census.optimizers.add(thing)
