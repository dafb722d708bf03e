"""Which tensors live in the target, each by a weak reference, with the row that was last read of it."""

import collections
import weakref
from typing import Any, Callable, Deque, Dict, Generator, Iterator, List, Optional, Set, Tuple

from tensortui.agent.containers import is_wrapper
from tensortui.agent.labels import IN_FRAME, without_line
from tensortui.wire.messages import OTHER

SEPARATOR = "\0"  # between the names of one tensor: no name has an unprintable character in it
MAX_NAMES = 16

# Sliced work: yields after every 0.1 ms or so, and the loop decides when it goes on. It yields None, guard.APART,
# seconds for which there is nothing to do (as guard.LATER), or once the jobs.Held that it keeps.
Work = Generator[Any, None, Any]


class Tracked:
    """One live tensor, known by a weak reference alone. `id` is never reused."""

    __slots__ = (
        "base", "born", "cpp_only", "exact", "found", "id", "names", "pyid", "ref", "row", "saved",
        "saved_as", "storage", "told", "views",
    )  # fmt: skip

    def __init__(self, number: int, ref: "weakref.ref[Any]", pyid: int, born: float) -> None:
        """Start as a tensor that was seen, but never read."""
        self.id = number
        self.ref = ref
        self.pyid = pyid
        self.born = born
        self.storage: Optional[int] = None
        self.row: Optional[bytes] = None
        self.names = ""  # joined by SEPARATOR
        self.told = 0.0  # when a sample last saw by which variable or container it is reached
        self.found = OTHER  # category by what the names pass saw
        self.saved = False  # the graph pass saw it saved for backward
        self.saved_as = ""  # as what and by which node: the name of those that have no other
        self.cpp_only = False
        self.exact = False  # of torch.Tensor or Parameter itself: those are counted against the references to these
        self.base: Optional[int] = None  # id of the tensor this one is a view of
        self.views = 0  # how many tracked tensors are views of this one


_type_mro = type.__dict__["__mro__"].__get__


def with_name(known: str, name: str, lasting: bool = False) -> str:
    """Return the joined names `known` with one more; a lasting one goes before those that variables of frames give."""
    if not known:
        return name
    names = known.split(SEPARATOR)
    if name in names:
        return known
    if lasting and is_passing(known):
        return SEPARATOR.join([name, *names[: MAX_NAMES - 1]])
    return known if len(names) >= MAX_NAMES else known + SEPARATOR + name


def with_variables(known: str, before: str, now: str) -> str:
    """Return the joined names `known` without those that variables gave `before`, with those that they give `now`.

    Names keep their places: a line of a frame may have changed. New ones of a script come first, others last.
    """
    given = {without_line(one): one for one in now.split(SEPARATOR) if one}
    old = {without_line(one) for one in before.split(SEPARATOR) if one}
    names = []
    for one in known.split(SEPARATOR) if known else ():
        key = without_line(one)
        if key in given:
            names.append(given.pop(key))
        elif key not in old:
            names.append(one)
    first = [one for one in given.values() if IN_FRAME not in one]
    last = [one for one in given.values() if IN_FRAME in one]
    return SEPARATOR.join([*first, *names, *last][:MAX_NAMES])


def is_passing(names: str) -> bool:
    """Whether the first of the joined names is that of a variable in a frame, or there is none."""
    return not names or IN_FRAME in names.partition(SEPARATOR)[0]


def has_base(kind: type, base: Optional[type]) -> bool:
    """Whether `kind` derives from `base`, found by identity: a metaclass may have an `__eq__` of its own."""
    return any(one is base for one in _type_mro(kind))


class TypeSet:
    """Types by identity: `type(thing) in types` never calls the `__hash__` of a metaclass."""

    __slots__ = ("ids",)

    def __init__(self) -> None:
        """Start empty."""
        self.ids: Set[int] = set()

    def __contains__(self, kind: type) -> bool:
        """Whether the type is one of them."""
        return id(kind) in self.ids


class Keyed(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that knows under which key it is kept."""

    __slots__ = ("key",)
    key: int


class WeakBag:
    """Weak references to objects by identity: unlike a WeakSet it never calls their `__hash__` or `__eq__`."""

    def __init__(self) -> None:
        """Start empty."""
        self._refs: Dict[int, Keyed] = {}
        self._dead: Deque[Keyed] = collections.deque()

    def add(self, thing: Any) -> None:
        """Remember `thing` weakly; nothing happens where it is known already."""
        known = self._refs.get(id(thing))
        if known is None or known() is not thing:
            ref = self._refs[id(thing)] = Keyed(thing, self._dead.append)
            ref.key = id(thing)

    def tidy(self) -> Work:
        """Forget the dead; yields between pieces."""
        dead = self._dead
        while dead:
            for _ in range(min(len(dead), 100)):
                ref = dead.popleft()
                if self._refs.get(ref.key) is ref:
                    del self._refs[ref.key]
            yield

    def refs(self) -> List["weakref.ref[Any]"]:
        """Return the weak references, some of them dead: for work that yields and must hold nothing meanwhile."""
        return list(self._refs.values())

    def __iter__(self) -> Iterator[Any]:
        """Yield the live ones, one at a time."""
        for ref in self.refs():
            thing = ref()
            if thing is not None:
                yield thing
            del thing

    def __len__(self) -> int:
        """Return how many are known, the dead ones of the last moment included."""
        return len(self._refs)


class Census:
    """The tracked tensors. All methods are for the agent's thread; the target only ever appends to `dead`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with nothing; the scan fills it."""
        self.clock = clock
        self.types = TypeSet()  # every known tensor type; exact membership, never isinstance
        self.module_base: Optional[type] = None
        self.optimizer_base: Optional[type] = None
        self.exact_types: List[type] = []
        self.exact = 0  # how many of the tracked are of exactly one of these types
        self.base: Optional[type] = None  # torch's TensorBase once torch is there
        self.modules = WeakBag()
        self.optimizers = WeakBag()
        self.dead: Deque[weakref.ref[Any]] = collections.deque()
        self.fresh: Deque[Tracked] = collections.deque()  # tracked, but never read
        self.by_id: Dict[int, Tracked] = {}
        self._by_pyid: Dict[int, Tracked] = {}
        self._by_ref: Dict[int, Tracked] = {}
        self.withheld = ""  # why no tensor at all may be watched, if so
        self.first = 0  # the highest number when the first scan was over: what has one above was born under our eyes
        self.unseen_gradients = (0, 0)  # that only torch could give us when they were last looked for, and their bytes
        self.memory: Dict[str, Any] = {}  # what discovery keeps from one pass to the next
        self._next_id = 1

    @property
    def indexes(self) -> Tuple[Dict[int, Tracked], ...]:
        """All that is kept by some number: to be emptied at the end."""
        return self.by_id, self._by_pyid, self._by_ref

    def is_tensor(self, thing: Any) -> bool:
        """Whether `thing` is a tensor that may be watched, told by its type alone: runs no code of the target."""
        kind = type(thing)
        if id(kind) not in self.types.ids:
            return False
        return self._is_exact(kind) or (has_base(kind, self.base) and not is_wrapper(kind))

    def _is_exact(self, kind: type) -> bool:
        return any(kind is one for one in self.exact_types)

    def track(self, tensor: Any) -> Optional[Tracked]:
        """Return the entry of the tensor in hand, a new one where it is not known yet; None if it is no tensor."""
        pyid = id(tensor)
        known = self._by_pyid.get(pyid)
        if known is not None and known.ref() is tensor:
            return known
        if not self.is_tensor(tensor):
            return None
        return self._add(tensor, pyid, weakref.ref(tensor, self.dead.append))

    def find(self, tensor: Any) -> Optional[Tracked]:
        """Return the entry of the tensor in hand, or None where it is not known."""
        known = self._by_pyid.get(id(tensor))
        return known if known is not None and known.ref() is tensor else None

    def at(self, pyid: int) -> Optional[Tracked]:
        """Return the entry of the live tensor whose Python object lies at an address, or None where none is known."""
        known = self._by_pyid.get(pyid)
        return known if known is not None and known.ref() is not None else None

    @property
    def last(self) -> int:
        """The number that was given last."""
        return self._next_id - 1

    def number(self) -> int:
        """Give out the next number."""
        self._next_id += 1
        return self._next_id - 1

    def adopt(self, ref: "weakref.ref[Any]") -> Optional[Tracked]:
        """Track the tensor behind `ref`, which must have `dead.append` as its callback."""
        tensor = ref()
        if tensor is None:
            return None
        pyid = id(tensor)
        known = self._by_pyid.get(pyid)
        if known is not None and known.ref() is tensor:
            return known
        return self._add(tensor, pyid, ref) if self.is_tensor(tensor) else None

    def _add(self, tensor: Any, pyid: int, ref: "weakref.ref[Any]") -> Tracked:
        tracked = Tracked(self.number(), ref, pyid, self.clock())
        if self._is_exact(type(tensor)):
            tracked.exact = True
            self.exact += 1
        self.by_id[tracked.id] = tracked
        self._by_pyid[pyid] = tracked
        self._by_ref[id(ref)] = tracked
        self.fresh.append(tracked)
        return tracked

    def give_up(self, tracked: Tracked) -> None:
        """Let go of the weak reference to a live tensor: it will be buried as if it had died."""
        self._by_ref.pop(id(tracked.ref), None)
        tracked.ref = weakref.ref(set())  # of something that is gone at once
        self._by_ref[id(tracked.ref)] = tracked
        self.dead.append(tracked.ref)

    def dying(self) -> int:
        """Return how many are still on the books and have died: `dead` tells of many that never were, too."""
        known = ((self._by_ref.get(id(ref)), ref) for ref in tuple(self.dead))
        return sum(tracked is not None and tracked.ref is ref for tracked, ref in known)

    def bury(self) -> Optional[Tracked]:
        """Take one dead tensor off the books and return its entry; None where no tracked one died."""
        while self.dead:
            ref = self.dead.popleft()
            tracked = self._by_ref.get(id(ref))
            if tracked is None or tracked.ref is not ref:
                continue
            del self._by_ref[id(ref)]
            if self._by_pyid.get(tracked.pyid) is tracked:
                del self._by_pyid[tracked.pyid]
            del self.by_id[tracked.id]
            self.exact -= tracked.exact
            return tracked
        return None


class Context:
    """What one discovery pass works with. It collects; the census is changed only when the pass is over.

    `names.discover(context)` and `graph.discover(context)` are generators: they yield after every 0.1 ms or so of
    work, hold no object of the target across a yield, and return False when they were cut short or skipped, so that
    what they did not reach keeps what it had. Two passes, two contexts: names, and tensors saved by the graph.
    """

    def __init__(self, torch: Any, census: Census, reasons: List[str]) -> None:
        """Start a pass; `reasons` collects sentences for the coverage."""
        self.torch = torch
        self.census = census
        self.clock = census.clock
        self.reasons = reasons  # sentences for the coverage
        self.track = census.track
        self.modules = census.modules  # iterate for the live objects, or .refs() for weak references
        self.optimizers = census.optimizers
        # By the number of a tensor. What a pass finds is as much again as what is tracked: it is kept in strings and
        # numbers, which the collector does not count. Containers would make the target pay with full collections.
        self.names: Dict[int, str] = {}  # joined by SEPARATOR
        self.categories: Dict[int, int] = {}
        # The names that variables themselves give, of frames of the program and of its script; None where some of these
        # could not be looked at.
        self.direct: Optional[Dict[int, str]] = {}

    def note(self, tracked: Tracked, name: Optional[str], category: int = OTHER, *, lasting: bool = False) -> None:
        """Say that `tracked` was reached under `name` (None: no name) in a role; the best role wins."""
        number = tracked.id
        known = self.names.get(number)
        if known is None:
            self.names[number] = name or ""
            self.categories[number] = category
            return
        if name is not None:
            self.names[number] = with_name(known, name, lasting)
        self.categories[number] = min(self.categories[number], category)
