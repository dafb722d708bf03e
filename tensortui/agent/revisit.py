"""Containers that hold tensors, looked at again with each sample: what is appended or taken out is called rightly soon.

A pass over everything comes by only once in a while. It notes here by which way it came to the lists, deques and
dictionaries that hold tensors; by that way they are found again, without a reference to them.
"""

import collections
from itertools import chain, islice
from typing import Any, Callable, Dict, Iterator, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.census import SEPARATOR, Census, Tracked, Work
from tensortui.agent.containers import DEQUE, DICT, LIST, MODULE, OBJECT, TENSOR, TUPLE, WRAPPER, Entry, Kinds
from tensortui.agent.guard import Alone, DisturbedError

MOST_VISITS = 100  # containers that are known
ENTRIES = 1_500  # that are looked at with one sample
WHOLE = 256  # entries of a container that are looked at each time; of a longer one its end, and a part in turn
END, MOST_NEW = 32, 1_000  # and those that are new since the last look
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
                except (DisturbedError, RuntimeError):  # the frame went on, the container was changed
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
    seen: Set[int] = set()
    changed = False
    count = 0
    for name, tensor in entries:
        count += 1
        tracked = census.find(tensor)
        if tracked is not None:
            seen.add(tracked.id)
            changed |= _call(tracked, visit.prefix, name + suffix, named)
    if size <= WHOLE:
        for number in visit.ids - seen:
            gone = census.by_id.get(number)
            if gone is not None:
                changed |= _call(gone, visit.prefix, "", named)
    changed |= seen != visit.ids
    visit.ids = seen
    visit.calm = 0 if changed else visit.calm + 1
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
    if size <= WHOLE or base is tuple:
        yield from zip_items(range(size), base.__iter__(thing))
        return
    end = END + min(max(size - before, 0), MOST_NEW)
    yield from zip_items(range(size - 1, size - 1 - end, -1), base.__reversed__(thing))
    start = visit.cursor if visit.cursor < size else 0
    visit.cursor = start + WHOLE
    middle = islice(base.__iter__(thing), start, start + WHOLE)
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
        elif kind in (TUPLE, LIST, DICT):
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


def _call(tracked: Tracked, prefix: str, name: str, named: Callable[[Tracked], None]) -> bool:
    """Call a tensor `name`, "" for no longer so, instead of what it was called within the container before."""
    old = tracked.names.split(SEPARATOR) if tracked.names else []
    within = [place for place, one in enumerate(old) if _is_within(one, prefix)]
    names = [one for place, one in enumerate(old) if place not in within]
    if name:
        names.insert(within[0] if within else len(names), labels.clip(name))
    joined = SEPARATOR.join(names)
    if joined == tracked.names:
        return False
    tracked.names = joined
    named(tracked)
    return True


def _is_within(name: str, prefix: str) -> bool:
    """Whether a name is that of an entry of a container, or of an attribute of an object itself."""
    if not name.startswith(prefix):
        return False
    rest = name[len(prefix) :].partition(labels.IN_FRAME)[0]
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
