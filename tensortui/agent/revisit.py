"""Containers that hold tensors, looked at again with each sample: what is appended or taken out is called rightly soon.

A pass over everything comes by only once in a while. It notes here by which way it came to the lists, deques and
dictionaries that hold tensors; by that way they are found again, without a reference to them.
"""

import collections
from itertools import chain, islice
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.census import MAX_NAMES, SEPARATOR, Census, Tracked, Work
from tensortui.agent.containers import DEQUE, DICT, LIST, MODULE, OBJECT, TENSOR, TUPLE, WRAPPER, Entry, Kinds
from tensortui.agent.guard import Alone, DisturbedError

MOST_VISITS = 100  # containers that are known
ENTRIES = 1_500  # that are looked at with one sample
WHOLE = 256  # entries of a container that are looked at each time; of a longer one its end, and a part in turn
END, MOST_NEW = 32, 400  # and those that are new since the last look
REACH = 20_000  # entries of a deque from its beginning that are come to: it is gone through from there
MOST_TENSORS = 600  # in one container, with one sample: well under a millisecond
EMPTY = 20  # looks without a tensor, after which a container is forgotten
SMALL = 8  # entries of a container within one of these: a pair, say
MOST_KEYS = 1_000
CALM, MOST_CALM = 3, 30.0  # looks without a change, and seconds for which only the ends are looked at then, at most

Way = Tuple[Tuple[int, Any], ...]  # style and key of each step from the root
Opened = Optional[Tuple[Any, str]]  # what the way leads to, and what follows its name
Opener = Callable[[Way, "Kinds"], Opened]  # quoted: typing would keep the class


class Visit:
    """One container: how to come to it, and which tensors were last found in it."""

    __slots__ = ("calm", "cursor", "due", "ends", "ids", "open", "prefix", "way")

    def hold(self, number: int) -> None:
        """Note that a tensor was found in it: it may be called otherwise when it is no more."""
        if len(self.ids) < 2 * WHOLE:
            self.ids.add(number)

    def __init__(self, opener: Opener, way: Way, prefix: str) -> None:
        """Start with nothing seen."""
        self.open = opener
        self.way = way
        self.prefix = prefix
        self.ids: Set[int] = set()
        self.ends: Tuple[int, ...] = ()  # how many entries it had, and the first and the last by their addresses
        self.cursor = 0
        self.calm = 0
        self.due = 0.0


class Revisit:
    """The containers that are known, and the work that a sample does with them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with none."""
        self._clock = clock
        self._visits: Dict[Tuple[Any, Way], Visit] = {}

    def note(self, where: Any, opener: Opener, way: Way, prefix: str) -> Optional[Visit]:
        """Remember the container at the end of a way from the root `where`; None where there are too many."""
        visit = self._visits.get((where, way))
        if visit is None and len(self._visits) < MOST_VISITS:
            visit = self._visits[where, way] = Visit(opener, way, prefix)
        return visit

    def knows(self, where: Any, way: Optional[Way]) -> bool:
        """Whether the container at the end of a way is looked at with each sample anyhow."""
        return way is not None and (where, way) in self._visits

    def run(self, census: Census, kinds: Kinds, named: Callable[[Tracked], None]) -> Work:
        """Look at them and call the tensors in them by where they are now; `named` is told whose name has changed."""
        now = self._clock()
        left = ENTRIES
        for key, visit in list(self._visits.items()):
            if left <= 0:
                return
            del self._visits[key]  # to the end, where it still is there
            with Alone():
                try:
                    looked = _look(visit, census, kinds, named, now)
                except (DisturbedError, RuntimeError, LookupError, StopIteration):  # the frame went on, it was changed
                    looked = 1
            if looked is not None:
                self._visits[key] = visit
                left -= looked
            yield


def _look(visit: Visit, census: Census, kinds: Kinds, named: Callable[[Tracked], None], now: float) -> Optional[int]:
    """Look at one; return how many entries that were, or None where there is no such container any more."""
    found = visit.open(visit.way, kinds)
    if found is None:
        return None
    thing, suffix = found
    kind = kinds.of(thing)
    if kind in (OBJECT, MODULE):
        entries, size = _attributes(thing, visit.prefix, kinds), 0
    elif kind in SIZES:
        size = SIZES[kind](thing)
        ends, visit.ends = visit.ends, _ends(thing, kind, size)
        if ends == visit.ends and now < visit.due:
            return 1
        entries = _tensors(_part(thing, kind, size, ends[0] if ends else size, visit), visit.prefix, kinds)
    else:
        return None
    calls: Dict[int, List[str]] = {}
    tensors: Dict[int, Tracked] = {}
    count = 0
    for name, tensor in islice(entries, MOST_TENSORS):
        count += 1
        tracked = census.find(tensor)
        if tracked is not None:
            tensors[tracked.id] = tracked
            calls.setdefault(tracked.id, []).append(labels.clip(name + suffix))
    changed = False
    for number, tracked in tensors.items():
        once = list(dict.fromkeys(calls[number]))  # the end and the part in turn may overlap
        changed |= _call(tracked, visit.prefix, suffix, once, named)
    seen = set(tensors)
    if size <= WHOLE and count < MOST_TENSORS:
        for number in visit.ids - seen:
            gone = census.by_id.get(number)
            if gone is not None:
                changed |= _call(gone, visit.prefix, suffix, [], named)
    changed |= seen != visit.ids
    visit.ids = seen
    visit.calm = 0 if changed else visit.calm + 1
    if not seen and visit.calm > EMPTY:
        return None  # a pass notes it again, should that change
    visit.due = now + (min(2.0 ** (visit.calm - CALM), MOST_CALM) if visit.calm > CALM else 0.0)
    return count + 1


SIZES: Dict[int, Callable[[Any], int]] = {
    LIST: list.__len__,
    DICT: dict.__len__,
    TUPLE: tuple.__len__,
    DEQUE: collections.deque.__len__,
}


_BASES = {LIST: list, TUPLE: tuple, DEQUE: collections.deque}


def _ends(thing: Any, kind: int, size: int) -> Tuple[int, ...]:
    if not size:
        return (0,)
    if kind == DICT:
        return size, id(next(iter(dict.values(thing)))), id(next(reversed(dict.values(thing))))
    base: Any = _BASES[kind]
    return size, id(base.__getitem__(thing, 0)), id(base.__getitem__(thing, -1))


def _part(thing: Any, kind: int, size: int, before: int, visit: Visit) -> Iterator[Entry]:
    """Yield the entries that are due: all, or those at the end and some of the others."""
    if kind == DICT:
        if size <= WHOLE:
            yield from containers.items(thing)
        else:  # the newest are the last; none of the others changes its key
            for key, value in islice(reversed(dict.items(thing)), END + min(max(size - before, 0), MOST_NEW)):
                yield containers.ITEM, key, value
        return
    base: Any = _BASES[kind]
    if size <= WHOLE:
        yield from zip_items(range(size), base.__iter__(thing))
        return
    end = min(END + min(max(size - before, 0), MOST_NEW), size)
    start = visit.cursor if visit.cursor < min(size, REACH if kind == DEQUE else size) else 0
    visit.cursor = start + WHOLE
    if kind == DEQUE:
        yield from zip_items(range(size - 1, size - 1 - end, -1), base.__reversed__(thing))
        middle = islice(base.__iter__(thing), start, start + WHOLE)
    else:
        yield from zip_items(range(size - end, size), iter(base.__getitem__(thing, slice(size - end, size))))
        middle = iter(base.__getitem__(thing, slice(start, start + WHOLE)))
    yield from zip_items(range(start, min(start + WHOLE, size)), middle)


def zip_items(places: Any, things: Iterator[Any]) -> Iterator[Entry]:
    """Yield entries for elements at `places`."""
    for place, thing in zip(places, things):
        yield containers.ITEM, place, thing


def _tensors(entries: Iterator[Entry], prefix: str, kinds: Kinds) -> Iterator[Tuple[str, Any]]:
    for style, key, child in entries:
        kind = kinds.of(child)
        if TENSOR <= kind < WRAPPER:
            yield containers.written(prefix, style, key), child
        elif kind in (TUPLE, LIST, DICT) and SIZES[kind](child) <= SMALL:
            below = containers.children(child, kind, kinds)
            name = containers.written(prefix, style, key) if below is not None else ""
            for inner, label, tensor in islice(below, SMALL) if below is not None else ():
                if TENSOR <= kinds.of(tensor) < WRAPPER:
                    yield containers.written(name, inner, label), tensor


def _attributes(thing: Any, prefix: str, kinds: Kinds) -> Iterator[Tuple[str, Any]]:
    """Yield the tensors that are attributes of an object; those of its own that a module keeps elsewhere are not."""
    if not kinds.may_open(thing):
        return
    space = containers.instance_dict(thing) or {}
    for style, key, value in chain(containers.items(space, containers.ATTRIBUTE), containers.slots(thing)):
        if TENSOR <= kinds.of(value) < WRAPPER:
            yield containers.written(prefix, style, key), value


def _call(tracked: Tracked, prefix: str, suffix: str, names: List[str], named: Callable[[Tracked], None]) -> bool:
    """Call a tensor by `names`, instead of what it was called within the container before."""
    old = tracked.names.split(SEPARATOR) if tracked.names else []
    within = [place for place, one in enumerate(old) if _is_within(one, prefix, suffix)]
    now = [one for place, one in enumerate(old) if place not in within and one not in names]
    at = within[0] if within else len(now)
    now[at:at] = names
    joined = SEPARATOR.join(now[:MAX_NAMES])
    if joined == tracked.names:
        return False
    tracked.names = joined
    named(tracked)
    return True


def _is_within(name: str, prefix: str, suffix: str) -> bool:
    """Whether a name is that of an entry of a container, or of an attribute of an object itself, in the same frame."""
    if not name.startswith(prefix):
        return False
    rest, _, where = name[len(prefix) :].partition(labels.IN_FRAME)
    if where.rpartition(":")[0] != suffix.partition(labels.IN_FRAME)[2].rpartition(":")[0]:
        return False
    return rest.startswith("[") or (rest.startswith(".") and rest[1:].isidentifier())


def descend(thing: Any, way: Way, kinds: Kinds) -> Any:
    """Return what a way leads to from `thing`, None where it leads nowhere."""
    for style, key in way:
        kind = kinds.of(thing)
        if kind in (OBJECT, MODULE):
            thing = _attribute(thing, style, key, kinds)
        elif kind == DICT:
            thing = _entry(thing, key)
        elif kind in (LIST, TUPLE) and type(key) is int:
            base: Any = list if kind == LIST else tuple
            thing = base.__getitem__(thing, key) if 0 <= key < base.__len__(thing) else None
        else:
            return None
        if thing is None:
            return None
    return thing


def _attribute(thing: Any, style: int, key: Any, kinds: Kinds) -> Any:
    if not kinds.may_open(thing):
        return None
    space = containers.instance_dict(thing)
    if style == containers.SUBMODULE:
        space = space.get("_modules") if space is not None else None
        return _entry(space, key) if space is not None and containers.is_dict(space) else None
    held = _entry(space, key) if space is not None else None
    return (
        held if held is not None else next((value for _, name, value in containers.slots(thing) if name == key), None)
    )


def _entry(thing: Any, key: Any) -> Any:
    """Return an entry of a dictionary; by comparing, since a lookup may ask keys of the program's own classes."""
    for one, value in islice(dict.items(thing), MOST_KEYS):
        if type(one) is type(key) and one == key:
            return value
    return None
