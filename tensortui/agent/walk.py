"""Go through what hangs below a root in short pieces, holding nothing of the target between them.

Between two pieces only positions are kept: how many entries of each level have been dealt with. The next piece opens
the root again and descends to where the last one stopped. What the target changed meanwhile may be missed or met
twice; the next pass makes up for it.
"""

import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.census import Context, WeakBag, Work, with_name
from tensortui.agent.containers import (
    DEQUE,
    DICT,
    FUNCTION,
    LEAF,
    LEARNED,
    LIST,
    MODULE,
    OBJECT,
    OPTIMIZER,
    SKIPPED,
    SUBMODULE,
    TENSOR,
    TUPLE,
    WRAPPER,
    Entries,
    Entry,
    Kinds,
)
from tensortui.agent.guard import Alone, DisturbedError
from tensortui.agent.revisit import FEW, NESTED, SIZES, SMALL, YOUNG, Opener, Revisit, Way
from tensortui.agent.wrappers import Wrappers
from tensortui.wire.messages import BUFFER, INPUT, OTHER, PARAMETER

DEPTH = 6  # levels below a variable; a module inside a module does not count
MAX_LEVELS = 40
MAX_ENTRIES = 60_000  # below one root
MAX_PASS = 400_000  # in one pass
MAX_SECONDS = 0.3  # of CPU in one pass: roles, which come last, need some as well
ROOT_SHARE = 0.5  # of what is left, that one root may use up
# A module is called by its class where a variable leads to it over so many private attributes, or one and few levels
# are left, or none are.
HIDDEN, FAR = 2, DEPTH - 3
TRIES = 20  # of a root whose frame went on while it was looked at: rare, and what is under it is left to the next pass
CHECK_EVERY = 16  # entries between two looks at the clock

# Name of what was opened, its entries, levels that may still be opened below; its kind, how many entries it has where
# that is asked, and the way to it, None where it could not be gone again.
Level = Tuple[str, Entries, int, int, int, Optional[Way]]
Found = Tuple[Any, str, int]  # what a tensor is called, and its category
OpenRoot = Callable[[int], Optional[Entries]]  # the entries from a position on


class Root:
    """Where a walk starts, how names are made below it, and how far it has got."""

    __slots__ = ("again", "depth", "hides", "key", "left", "local", "open", "path", "prefix", "script", "spare",
                 "suffix", "where")  # fmt: skip

    def __init__(self, open_root: OpenRoot, prefix: str = "", suffix: str = "", depth: int = DEPTH) -> None:
        """Names are `prefix`, the way to the tensor, `suffix`. `open_root` gives the same entries, in one order."""
        self.open = open_root
        self.prefix = prefix
        self.suffix = suffix
        self.depth = depth
        self.left = MAX_ENTRIES
        self.hides = False  # leave out modules that are well hidden or far away
        self.spare = False  # name only what has no name yet
        self.local = False  # local variables: a young leaf is an input
        self.script = False  # the globals of a script: the same, if it was born under our eyes
        self.key = ""  # by which the next pass knows it again and goes on where this one was cut
        self.where: Any = None  # what stands for the root, where containers below it can be come to again
        self.again: Optional[Opener] = None  # how
        self.path = [0]  # entries of each level that have been dealt with

    def hides_it(self, prefix: str, style: int, key: Any, depth: int) -> bool:
        """Whether the module `key` of what is called `prefix` is to be left out."""
        if not self.hides or style == SUBMODULE:
            return False
        private = containers.written(prefix, style, key).count("._", len(self.prefix))
        return private >= HIDDEN or depth <= (FAR if private else 1)


class Walk:
    """One pass over everything that has a name. `visited` holds the ids of the containers that were opened."""

    def __init__(self, context: Context, kinds: Kinds, is_leaf: Callable[[Any], bool], wrappers: Wrappers) -> None:
        """Start a pass whose finds go to `context`; `is_leaf` reads that attribute of a tensor safely."""
        self.visited: Set[int] = set()
        self.hidden = WeakBag()  # modules that were left out
        self.most = MAX_ENTRIES  # that are looked at below one root
        self.partial = False  # whether something is left out: it was cut, or looked at by the pass before
        self.found: Optional[List[Found]] = None  # where what is named is noted as well
        self.revisit: Optional[Revisit] = None  # where containers that hold tensors are noted
        self.leaves_known = False  # whether it is left to those
        self.direct: Optional[Dict[int, str]] = None  # where what variables themselves hold is noted
        self._context = context
        self.kinds = kinds
        self._is_leaf = is_leaf
        self._wrappers = wrappers
        self._left = MAX_PASS
        self._seconds = MAX_SECONDS
        self._cut_at: Dict[str, List[int]] = context.census.memory.setdefault("cut at", {})

    def below(self, root: Root) -> Work:
        """Name the tensors below `root`; yields after each piece."""
        tries = TRIES
        root.left = min(root.left, self.most)
        path = self._cut_at.pop(root.key, None)
        if path is not None:
            root.path, self.partial = path, True
        seconds = self._seconds * ROOT_SHARE
        while tries:
            start = time.thread_time()
            with Alone() as alone:
                try:
                    done = self._piece(root, alone)
                except DisturbedError:
                    tries -= 1
                    done = False
                    self.partial = self.partial or not tries
            took = time.thread_time() - start
            self._seconds -= took
            seconds -= took
            if not done and seconds <= 0:
                self._cut(root)
                done = True
            yield
            if done:
                return

    def _piece(self, root: Root, alone: Alone) -> bool:
        """Go on from where the last piece stopped; True when there is nothing left."""
        try:
            levels = self._descend(root)
        except RuntimeError:  # it was changed since: the next pass makes up for it
            self.partial = True
            return True
        count = 0
        while levels:
            prefix, entries, depth = levels[-1][:3]
            opened = False
            try:
                for style, key, child in entries:
                    if style == SKIPPED:
                        root.path[-1] += key
                        count += CHECK_EVERY - count % CHECK_EVERY
                    else:
                        root.path[-1] += 1
                        count += 1
                    kind = self.kinds.of(child)
                    look = kind in (OBJECT, MODULE)  # at the clock: it may take as long as many others, also in vain
                    if kind >= TENSOR:
                        self._note(child, kind, style, containers.written(prefix, style, key), root, levels)
                    elif kind == OPTIMIZER:
                        self._context.optimizers.add(child)
                    elif kind != LEAF and (depth or style == SUBMODULE) and len(levels) < MAX_LEVELS:
                        level = self._open(root, levels[-1], (style, key, child), kind)
                        if level is not None:
                            levels.append(level)
                            root.path.append(0)
                            opened = True
                    if not count % CHECK_EVERY and self._spent(root, CHECK_EVERY):
                        return True
                    if (look or not count % CHECK_EVERY) and alone.over():
                        return False
                    if opened:
                        break
            except RuntimeError:  # it was changed while it was read
                pass
            if not opened:
                levels.pop()
                root.path.pop()
        return True

    def _open(self, root: Root, above: Level, entry: Entry, kind: int) -> Optional[Level]:
        """Open one entry of the level `above`; None where nothing is in it, or it is to be named otherwise."""
        prefix, depth = above[0], above[2]
        style, key, child = entry
        if id(child) in self.visited:
            return None
        if kind == MODULE and root.hides_it(prefix, style, key, depth):
            self.hidden.add(child)
            return None
        if self.leaves_known and self.revisit is not None and self.revisit.knows(root.where, _way(above, style, key)):
            self.visited.add(id(child))  # nor is it to be come to by another name
            return None
        below = containers.children(child, kind, self.kinds)
        if below is None:
            return None
        self.visited.add(id(child))
        return self._level(above, entry, kind, below)

    @staticmethod
    def _level(above: Level, entry: Entry, kind: int, below: Entries) -> Level:
        prefix, depth = above[0], above[2]
        style, key, child = entry
        size = SIZES[kind](child) if kind in SIZES else 0
        way = _way(above, style, key)
        return containers.written(prefix, style, key), below, less(depth, kind, style), kind, size, way

    def _spent(self, root: Root, entries: int) -> bool:
        root.left -= entries
        self._left -= entries
        if root.left < 0 or self._left < 0:
            self._cut(root)
            return True
        return False

    def _cut(self, root: Root) -> None:
        self.partial = True
        if root.key:
            self._cut_at[root.key] = root.path

    def _descend(self, root: Root) -> List[Level]:
        """Open the root and what its path leads to; the path is cut where that is no longer there."""
        path = root.path
        place = 0
        entries = root.open(path[0] - (len(path) > 1))
        if entries is None:
            return []
        levels: List[Level] = [(root.prefix, entries, root.depth, _ROOT, 0, ())]
        while place < len(path) - 1:
            entries = levels[-1][1]
            place += 1
            style, key, child = next(entries, (SKIPPED, 1, None))
            kind = self.kinds.of(child)
            first = path[place] - (place < len(path) - 1)
            below = None if kind == LEAF or kind >= TENSOR else containers.children(child, kind, self.kinds, first)
            if below is None:
                path[place - 1] += key - 1 if style == SKIPPED else 0
                del path[place:]
                break
            self.visited.add(id(child))
            levels.append(self._level(levels[-1], (style, key, child), kind, below))
        return levels

    def _note(self, tensor: Any, kind: int, style: int, name: str, root: Root, levels: List[Level]) -> None:
        category = OTHER
        if kind == LEARNED or style == containers.PARAMETER:
            category = PARAMETER
        elif style == containers.BUFFER:
            category = BUFFER
        elif (root.local or root.script) and _is_near(levels) and self._is_leaf(tensor):
            category = INPUT
        if root.again is not None and self.revisit is not None and category not in (PARAMETER, BUFFER):
            self._note_container(tensor, root, levels)
        if kind == WRAPPER:
            for way, part, role in self._wrappers.parts(tensor, name, category, root.suffix):
                self._enter(part, way, role, root)
        else:
            self._enter(tensor, name + root.suffix, category, root)
            if self.direct is not None and len(levels) == 1:
                self._note_direct(tensor, labels.clip(name + root.suffix))

    def _note_direct(self, tensor: Any, name: str) -> None:
        tracked = self._context.track(tensor)
        if tracked is not None and self.direct is not None:
            self.direct[tracked.id] = with_name(self.direct.get(tracked.id, ""), name)

    def _note_container(self, tensor: Any, root: Root, levels: List[Level]) -> None:
        """Remember the list, deque, dictionary or object that the tensor lies in, or what this is a small entry of."""
        revisit, again = self.revisit, root.again
        tracked = self._context.track(tensor)
        if revisit is None or again is None or tracked is None:
            return
        place, last = len(levels) - 1, max(len(levels) - 1 - NESTED, 1)
        while place > last and _is_small(levels[place]) and levels[place - 1][3] in SIZES:
            place -= 1
        prefix, _, _, kind, _, way = levels[place]
        attribute = place and levels[place - 1][3] in (_ROOT, OBJECT, MODULE)
        wanted = kind in _LONG or (kind == TUPLE and attribute) or kind in (OBJECT, MODULE, FUNCTION)
        visit = revisit.note(root.where, again, way, prefix) if wanted and way else None
        if visit is not None:
            visit.hold(tracked.id)

    def _enter(self, tensor: Any, name: str, category: int, root: Root) -> None:
        context = self._context
        tracked = context.track(tensor)
        if tracked is None:
            return
        if root.spare and (context.names.get(tracked.id) or (self.partial and tracked.names)):
            return
        if category == INPUT:
            old = context.clock() - tracked.born >= YOUNG or (root.script and tracked.id <= context.census.first)
            category = OTHER if old else INPUT
        name = labels.clip(name)
        context.note(tracked, name, category)
        if self.found is not None:
            self.found.append((tracked, name, category))


_ROOT = -1
_LONG = (LIST, DEQUE, DICT)
_AGAIN = (_ROOT, OBJECT, MODULE, FUNCTION, DICT, LIST, TUPLE)  # what leads on by a key that can be followed again


def _way(above: Level, style: int, key: Any) -> Optional[Way]:
    """Return the way to an entry of a level."""
    way = above[5]
    if way is None or above[3] not in _AGAIN or (type(key) is not str and type(key) is not int):
        return None
    return (*way, (style, key))


def _is_small(level: Level) -> bool:
    """Whether a level is a small container or an object: looked at with what it is an entry of."""
    return level[3] == OBJECT or (level[3] in (TUPLE, LIST, DICT) and level[4] <= SMALL)


def _is_near(levels: List[Level]) -> bool:
    """Whether what is looked at is in a variable itself, or one of a few in a container in one."""
    return len(levels) == 1 or (len(levels) == 2 and 0 < levels[1][4] <= FEW)


def less(depth: int, kind: int, style: int) -> int:
    """Return the levels left below a child: a module inside a module costs none."""
    return depth if kind == MODULE and style == SUBMODULE else depth - 1
