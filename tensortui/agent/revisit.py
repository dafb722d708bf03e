"""Containers that hold tensors, looked at again with each sample: what is appended or taken out is called rightly soon.

A pass over everything comes by only once in a while. It notes here by which way it came to the lists, deques and
dictionaries that hold tensors; by that way they are found again, without a reference to them.
"""

import collections
import time
from itertools import chain, islice
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.census import MAX_NAMES, SEPARATOR, Census, Tracked, Work
from tensortui.agent.containers import DEQUE, DICT, FUNCTION, LIST, MODULE, OBJECT, TENSOR, TUPLE, WRAPPER, Entry, Kinds
from tensortui.agent.guard import Alone
from tensortui.agent.rows import IS_LEAF, cell
from tensortui.wire.messages import INPUT, OTHER

MOST_VISITS = 1_000  # containers that are known
CROWDED = "names: more than %d containers hold tensors; what comes and goes in the others is named once in a while only"
CROWDED_FOR = 60.0  # seconds for which that is said
ENTRIES, SECONDS = 1_500, 0.004  # that are looked at with one sample, and of processor time: the rest with the next
WHOLE = 128  # entries of a container that are looked at each time; of a longer one its end, and a part in turn
END, MOST_NEW = 32, 192  # and those that are new since the last look
REACH = 20_000  # entries of a deque or dictionary from its beginning that are come to: it is gone through from there
MOST_TENSORS = END + MOST_NEW + WHOLE  # in one container, with one sample,
MOST_LOOKED = 4_000  # and entries and attributes of whatever kind: about a millisecond
EMPTY = 20  # looks without a tensor, after which a container is forgotten
SMALL, NESTED = 8, 2  # entries of a container within one of these, a pair, say; and how many stand within each other
FIELDS = 32  # attributes of an object within one
MOST_KEYS = 1_000
CALM, MOST_CALM = 3, 30.0  # looks without a change, and seconds for which only the ends are looked at then, at most
STIRRED = 3.0  # the most seconds of these while there is something new that has no name
YOUNG = 30.0  # seconds for which a leaf counts as an input batch, in a variable or in a few of a container in one
FEW = 16

Way = Tuple[Tuple[int, Any], ...]  # style and key of each step from the root
Opened = Optional[Tuple[Any, str]]  # what the way leads to, and what follows its name
Opener = Callable[[Way, "Kinds"], Opened]  # quoted: typing would keep the class


class Visit:
    """One container: how to come to it, and which tensors were last found in it."""

    __slots__ = ("calm", "cursor", "due", "ends", "frame", "ids", "left", "looked", "nested", "open", "prefix", "way")

    def hold(self, number: int) -> None:
        """Note that a tensor was found in it: it may be called otherwise when it is no more."""
        if len(self.ids) < 2 * MOST_TENSORS:
            self.ids.add(number)

    def __init__(self, opener: Opener, way: Way, prefix: str, frame: str) -> None:
        """Start with nothing seen. `frame` is what follows the names, without the line."""
        self.open = opener
        self.way = way
        self.prefix = prefix
        self.frame = frame
        self.ids: Set[int] = set()
        self.ends: Tuple[int, ...] = ()  # how many entries it had, and which, as far as that is cheap
        self.cursor = 0
        self.left = 0  # entries that are to be gone through since it last was changed
        self.calm = 0
        self.looked = self.due = 0.0
        self.nested = False  # whether what it holds lies in containers and objects that are its entries


class Revisit:
    """The containers that are known, and the work that a sample does with them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with none."""
        self._clock = clock
        self._visits: Dict[Tuple[Any, Way], Visit] = {}
        self._crowded = float("-inf")

    def note(self, where: Any, opener: Opener, way: Way, prefix: str) -> Optional[Visit]:
        """Remember the container at the end of a way from the root `where`; None where there are too many."""
        visit = self._visits.get((where, way))
        if visit is None:
            if len(self._visits) >= MOST_VISITS:
                self._crowded = self._clock()
                return None
            frame = where[-1] if isinstance(where, tuple) else ""
            visit = self._visits[where, way] = Visit(opener, way, prefix, frame)
        return visit

    def knows(self, where: Any, way: Optional[Way]) -> bool:
        """Whether the container at the end of a way is looked at with each sample anyhow."""
        return way is not None and (where, way) in self._visits

    def reasons(self) -> List[str]:
        """Return one sentence where there are more containers than can be followed."""
        return [CROWDED % MOST_VISITS] if self._clock() - self._crowded < CROWDED_FOR else []

    def following(self, variables: bool) -> Callable[[str], bool]:
        """Return what tells whether a name is that of an entry of what is looked at here, or of one of the variables.

        That is for a moment; `variables` are only asked for where samples look at them.
        """
        places = {(visit.prefix, visit.frame): visit for visit in self._visits.values()}

        def follows(name: str) -> bool:
            path, at, frame = labels.without_line(name).partition(labels.IN_FRAME)
            if path.isidentifier():
                return variables
            for end, letter in enumerate(path):
                visit = places.get((path[:end], at + frame)) if letter in _STEPS else None
                if visit is not None and _is_within(name, visit):
                    return True
            return False

        return follows

    def run(self, census: Census, kinds: Kinds, named: Callable[[Tracked], None], stirred: bool = False) -> Work:
        """Look at them and call the tensors in them by where they are now; `named` is told whose name has changed.

        `stirred`: there is something new that has no name, so that less is left to later.
        """
        now = self._clock()
        left, seconds = ENTRIES, SECONDS
        waiting = list(reversed(self._visits))
        while waiting and left > 0 and seconds > 0:
            start = time.thread_time()
            with Alone() as alone:
                while waiting and left > 0 and not alone.over():
                    key = waiting.pop()
                    visit = self._visits.pop(key)  # to the end, where it still is there
                    until = visit.due
                    if stirred:
                        until = now if visit.nested else min(until, visit.looked + STIRRED)
                    try:
                        looked = _look(visit, census, kinds, named, now, now < until)
                    except Exception:  # the frame went on, it was changed, or is something very odd
                        looked = 1
                    if looked is not None:
                        self._visits[key] = visit
                        left -= looked
            seconds -= time.thread_time() - start
            yield


def _look(
    visit: Visit, census: Census, kinds: Kinds, named: Callable[[Tracked], None], now: float, calm: bool
) -> Optional[int]:
    """Look at one; return how many entries that were, or None where there is no such container any more.

    While it is `calm` it is enough that it has the same entries.
    """
    found = visit.open(visit.way, kinds)
    if found is None:
        return None
    thing, suffix = found
    kind = kinds.of(thing)
    left = iter(range(MOST_LOOKED))
    if kind in (OBJECT, MODULE):
        if not kinds.may_open(thing):
            return None
        entries, size = _attributes(thing, visit.prefix, kinds, left, MOST_KEYS), 0
    elif kind == FUNCTION:
        entries, size = _tensors(containers.children(thing, kind, kinds) or iter(()), visit.prefix, kinds, left, 0), 0
    elif kind in SIZES:
        size = SIZES[kind](thing)
        ends, visit.ends = visit.ends, _ends(thing, kind, size)
        if ends != visit.ends:
            visit.left = size
        elif calm and visit.left <= 0:
            return 1
        part = _part(thing, kind, size, ends[0] if ends else 0, visit)
        entries = _tensors(part, visit.prefix, kinds, left, NESTED)
    else:
        return None
    start = len(visit.prefix) + 1
    batch = len(visit.way) == 1 and 0 < size <= FEW
    calls: Dict[int, List[str]] = {}
    tensors: Dict[int, Tracked] = {}
    count = 0
    for name, tensor in islice(entries, MOST_TENSORS):
        count += 1
        tracked = census.find(tensor)
        if tracked is not None:
            if size and (not name.endswith("]") or name.find("[", start) > 0):
                visit.nested = True
            elif batch and _is_input(tracked, visit, census, now):
                tracked.found = INPUT
                named(tracked)
            tensors[tracked.id] = tracked
            calls.setdefault(tracked.id, []).append(labels.clip(name + suffix))
    changed = False
    for number, tracked in tensors.items():
        once = list(dict.fromkeys(calls[number]))  # the end and the part in turn may overlap
        changed |= _call(tracked, visit, once, named, now)
    seen = set(tensors)
    if size <= WHOLE and count < MOST_TENSORS and next(left, None) is not None:
        for number in visit.ids - seen:
            gone = census.by_id.get(number)
            if gone is not None:
                changed |= _call(gone, visit, [], named, now)
    changed |= seen != visit.ids
    visit.ids = seen
    visit.calm = 0 if changed else visit.calm + 1
    if not seen and visit.calm > EMPTY:
        return None  # a pass notes it again, should that change
    visit.looked = now
    visit.due = now + (min(2.0 ** (visit.calm - CALM), MOST_CALM) if visit.calm > CALM else 0.0)
    return count + 1


def _is_input(tracked: Tracked, visit: Visit, census: Census, now: float) -> bool:
    """Whether it is a young leaf: in one of few entries of what a variable holds, that is what a batch looks like."""
    if tracked.found != OTHER or tracked.row is None or now - tracked.born >= YOUNG:
        return False
    return bool(cell(tracked.row, IS_LEAF)) and (visit.frame != "" or tracked.id > census.first)


_STEPS = "[."  # what an entry or an attribute begins with
SIZES: Dict[int, Callable[[Any], int]] = {
    LIST: list.__len__,
    DICT: dict.__len__,
    TUPLE: tuple.__len__,
    DEQUE: collections.deque.__len__,
}


_BASES = {LIST: list, TUPLE: tuple, DEQUE: collections.deque}


def _ends(thing: Any, kind: int, size: int) -> Tuple[int, ...]:
    """Return how many entries there are, and which they are: of a long container the first and the last."""
    if not size:
        return (0,)
    base: Any = _BASES.get(kind)
    if size <= WHOLE:
        return size, hash(tuple(map(id, dict.values(thing) if kind == DICT else base.__iter__(thing))))
    if kind == DICT:
        return size, id(next(iter(dict.values(thing)))), id(next(reversed(dict.values(thing))))
    return size, id(base.__getitem__(thing, 0)), id(base.__getitem__(thing, -1))


def _part(thing: Any, kind: int, size: int, before: int, visit: Visit) -> Iterator[Entry]:
    """Yield the entries that are due: all, or those at the end and some of the others."""
    base: Any = _BASES.get(kind)
    visit.left -= WHOLE
    if size <= WHOLE:
        yield from containers.items(thing) if kind == DICT else zip_items(range(size), base.__iter__(thing))
        return
    end = min(END + min(max(size - before, 0), MOST_NEW), size)
    start = visit.cursor if visit.cursor < min(size, size if kind in (LIST, TUPLE) else REACH) else 0
    visit.cursor = start + WHOLE
    if kind == DICT:
        for key, value in islice(reversed(dict.items(thing)), end):
            yield containers.ITEM, key, value
        for key, value in islice(dict.items(thing), start, start + WHOLE):
            yield containers.ITEM, key, value
        return
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


def _tensors(
    entries: Iterator[Entry], prefix: str, kinds: Kinds, left: Iterator[int], nested: int
) -> Iterator[Tuple[str, Any]]:
    """Yield the tensors among the entries, and in small containers and objects that are entries.

    Each thing that is looked at takes one from `left`.
    """
    for _, (style, key, child) in zip(left, entries):
        kind = kinds.of(child)
        if TENSOR <= kind < WRAPPER:
            yield containers.written(prefix, style, key), child
        elif not nested:
            continue
        elif kind == OBJECT:
            yield from _attributes(child, containers.written(prefix, style, key), kinds, left, FIELDS)
        elif kind in (TUPLE, LIST, DICT) and SIZES[kind](child) <= SMALL:
            below = containers.children(child, kind, kinds)
            if below is not None:
                way = containers.written(prefix, style, key)
                yield from _tensors(islice(below, SMALL), way, kinds, left, nested - 1)


def _attributes(thing: Any, prefix: str, kinds: Kinds, left: Iterator[int], most: int) -> Iterator[Tuple[str, Any]]:
    """Yield the tensors that are attributes of an object; those of its own that a module keeps elsewhere are not."""
    if not kinds.may_open(thing):
        return
    space = containers.instance_dict(thing) or {}
    entries = chain(containers.items(space, containers.ATTRIBUTE), containers.slots(thing))
    for _, (style, key, value) in zip(left, islice(entries, most)):
        if TENSOR <= kinds.of(value) < WRAPPER:
            yield containers.written(prefix, style, key), value


def _call(tracked: Tracked, visit: Visit, names: List[str], named: Callable[[Tracked], None], now: float) -> bool:
    """Call a tensor by `names`, instead of what it was called within the container before."""
    tracked.told = now
    old = tracked.names.split(SEPARATOR) if tracked.names else []
    within = [place for place, one in enumerate(old) if _is_within(one, visit)]
    rest = [one for place, one in enumerate(old) if place not in within and one not in names]
    at = within[0] if within else len(rest)
    rest[at:at] = names
    joined = SEPARATOR.join(rest[:MAX_NAMES])
    if joined == tracked.names:
        return False
    tracked.names = joined
    named(tracked)
    return True


def _is_within(name: str, visit: Visit) -> bool:
    """Whether a name is that of an entry of a container, or of an attribute of an object itself, in the same frame."""
    if not name.startswith(visit.prefix):
        return False
    path, at, frame = labels.without_line(name).partition(labels.IN_FRAME)
    rest = path[len(visit.prefix) :]
    if at + frame != visit.frame:
        return False
    step = len(labels.CLOSURE) if rest.startswith(labels.CLOSURE) else 1
    return rest.startswith("[") or (rest.startswith(".") and rest[step:].isidentifier())


def merged(seen: str, called: str, followed: Callable[[str], bool]) -> str:
    """Return the joined names of a tensor: what samples follow as they have `seen` it, all else as a pass has found it.

    Names that last come before those of variables in frames.
    """
    known, found = ([one for one in names.split(SEPARATOR) if one] for names in (seen, called))
    kept = [one for one in known if one in found or followed(one)]
    more = [one for one in found if one not in known and not followed(one)]
    return SEPARATOR.join(sorted([*kept, *more], key=lambda one: labels.IN_FRAME in one)[:MAX_NAMES])


def descend(thing: Any, way: Way, kinds: Kinds) -> Any:
    """Return what a way leads to from `thing`, None where it leads nowhere."""
    for style, key in way:
        kind = kinds.of(thing)
        if kind in (OBJECT, MODULE):
            thing = _attribute(thing, style, key, kinds)
        elif kind == FUNCTION:
            below = containers.children(thing, kind, kinds) or iter(())
            thing = next((child for how, name, child in below if how == style and name == key), None)
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
