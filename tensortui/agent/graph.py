"""Walk the autograd graph: the tensors that only it holds, and the graph itself for who asks.

A walk goes from one live tensor at a time. Between two pieces it keeps the nodes that are still to be read, and so what
is behind them, in a place that is emptied by the death of that tensor, in the thread that drops it and before its graph
is freed. A tensor that lives on without its graph (`detach_`) tells nobody: each piece begins with a look whether it
still has the one that the walk began with, and where the next piece is long in coming the place is emptied by the loop;
the walk then begins that tensor again. So a graph lives at most for about as long as `jobs.LONG` and one turn of the
loop because of us. Nodes that were read are known by address and sequence number alone.
"""

import sys
import time
import weakref
from functools import partial
from typing import Any, Callable, Dict, Generator, Iterator, List, Optional, Set, Tuple

from tensortui.agent import labels, nodes
from tensortui.agent.census import Context, Tracked, Work
from tensortui.agent.guard import LATER, Alone, Backward, DisturbedError, Stillness
from tensortui.agent.jobs import Held
from tensortui.agent.names import make_kinds
from tensortui.agent.nodes import Key, NodeReader, Packed, Saved
from tensortui.agent.owned import Ownership
from tensortui.agent.picture import Picture
from tensortui.agent.read import TensorReader
from tensortui.agent.rows import IS_LEAF, REQUIRES_GRAD, cell
from tensortui.agent.storages import Size
from tensortui.agent.touching import Touching
from tensortui.wire.messages import SAVED

MAX_NODES = 10_000
CHUNK = 500  # tensors between two pieces
PATIENCE = 3.0  # seconds for which a walk waits until no backward runs,
TRIES = 50  # and pieces, where these are few and far between
MOST_BEGUN = 3  # times that one tensor is begun again
NO_VERSIONS = "what the graph saved is not read: this torch does not tell it without side effects"
NO_SAVED = "the graph is not read: this torch does not tell what it saved without side effects"
NO_CHECKPOINT = "what a checkpoint keeps to run its forward again is not read: this torch keeps it in another way"
BUSY = "the graph was not read to its end: a backward was running, or may have been, at each try"
LET_GO = "the graph was not read to its end: it changed, or the next piece would have come too late to hold on to it"
GONE = "the program let go of a tensor while the graph behind it was read"
TOO_DEEP = (
    "of chains of more than 10,000 nodes only a part of the graph is read: to free more nodes that were touched could "
    "overflow the stack"
)
TOO_WIDE = "the graph is not followed where a node has more than 10,000 inputs"
LARGER = "the graph is read up to %d nodes: it is larger"
FEW = 200  # successors of one node that are told in one go

# The walker, a node, its successors, or the first of them: `Walker.rest` says how many there are beyond.
Visit = Callable[["Walker", Any, List[Any]], None]
More = Optional[Callable[["Walker", Any, List[Any]], None]]  # the same node, and the next of its successors
Begin = Optional[Callable[[Any, Any], None]]  # a node, the Tracked tensor that starts with it
Tell = Tuple[Visit, Begin, More]


class Walker:
    """Visits every node behind some tensors once, in pieces, each of them while no backward runs."""

    def __init__(self, context: Context, base: type, limit: int) -> None:
        """Prepare a walk over at most `limit` nodes."""
        self.context = context
        self.reader = NodeReader(context.torch, base, make_kinds(context, base))
        self.seen: Set[Key] = set()
        self.cut = False
        self.deep = False  # some nodes were not touched, as they lie too deep,
        self.wide = False  # or are too many behind one node
        self.rest = 0  # successors of the node that is visited which are not told yet; some where they never will be
        self.skipped = False
        self.now: Optional[Stillness] = None  # of the piece under way
        self.dropped = False  # of some tensors not all was read, for the frontier was let go again and again
        self._watch: Optional[weakref.ref[Any]] = None
        self._root: Optional[Tracked] = None  # of the frontier
        self._mark: Any = None  # what told the node that the root began with from all others
        self._begun = 0  # how often the root was begun again,
        self._passed: Optional[Set[Key]] = None  # and what has been passed since, seen or not
        self._limit = limit
        self._backward = Backward(sys.modules)
        self._plain = context.torch._C.DisableTorchFunctionSubclass
        self._base = base.__dict__
        self._ownership: Optional[Ownership] = context.census.memory.get("ownership")
        reader: Optional[TensorReader] = context.census.memory.get("reader")
        self._touching = Touching(reader.nodes if reader is not None and reader.nodes.usable else None)
        self._told: Dict[Key, int] = {}  # of nodes with many successors: how many were told

    @property
    def possible(self) -> bool:
        """Whether a walk may be made at all; the reason is noted where not."""
        if not self._backward.known:
            self.context.reasons.append(NO_SAVED)
        return self._backward.known

    @property
    def partly(self) -> bool:
        """Whether there is more than was read."""
        return self.cut or self.deep or self.wide or self.skipped or self.dropped

    def reasons(self, larger: str = LARGER) -> List[str]:
        """Return why a walk that was made did not read all there is."""
        told = (
            (self.skipped, BUSY),
            (self.dropped, LET_GO),
            (self.cut, larger % len(self.seen) if self.cut else ""),
            (self.deep, TOO_DEEP),
            (self.wide, TOO_WIDE),
            (self.reader.checkpoints.unread, NO_CHECKPOINT),
        )
        return [reason for true, reason in told if true]

    def walk(self, roots: List[Tracked], visit: Visit, begin: Begin = None, more: More = None) -> Work:
        """Call `visit` for each node behind `roots` once, and `begin` for the node each of them starts with and it.

        Of a node with many successors `more` is given those that `visit` was not, in several pieces.
        """
        todo = roots[::-1]
        place = Held()
        yield place
        tries, since = 0, time.monotonic()
        while True:
            with Alone() as alone, self._plain():
                self.now = Stillness()
                busy = self._backward.running(self.now)
                self._resume(todo, place)
                try:
                    done = not busy and self._advance(todo, place, (visit, begin, more), alone)
                except DisturbedError:
                    busy, done = True, False
                self.now = None
            if busy:
                tries += 1
            else:
                tries, since = 0, time.monotonic()
            if done or (tries > TRIES and time.monotonic() - since > PATIENCE):
                self.skipped = not done
                place.clear()
                return
            yield LATER if busy else None

    def _resume(self, todo: List[Tracked], place: Dict[str, Any]) -> None:
        """Let the frontier go where its root has another graph by now; a root without one is begun again."""
        root = self._root
        if root is None:
            return
        if "frontier" in place and self._mark_of(root) != self._mark:
            place.clear()
        if "frontier" not in place:
            self._finish()
            if root.ref() is not None:
                if self._begun < MOST_BEGUN:
                    self._begun += 1
                    self._passed = set()
                    todo.append(root)
                else:
                    self._begun = 0
                    self.dropped = True

    def _finish(self) -> None:
        self._root = self._passed = None

    def _mark_of(self, tracked: Tracked) -> Any:
        """Return what tells the node that made a tensor from all others, without touching it where that is possible."""
        names = self._touching.names
        if names is not None:
            return names.mark(tracked.pyid)
        node = self.root(tracked.ref(), anew=False)
        return None if node is None else nodes.DEPTHS.measure(node)[0]

    def _advance(self, todo: List[Tracked], place: Dict[str, Any], tell: Tell, alone: Alone) -> bool:
        """Go on until the piece is over; True when there is nothing left."""
        while not alone.over():
            if "frontier" not in place:
                if not todo:
                    return True
                self._start(todo.pop(), place, tell[1])
            elif self._piece(place["frontier"], tell[0], tell[2], alone):
                place.clear()
                self._finish()
                self._begun = 0
                if self.cut:
                    return True
        return False

    def _start(self, tracked: Tracked, place: Dict[str, Any], begin: Begin) -> None:
        tensor = tracked.ref()
        node = self.root(tensor) if tensor is not None else None
        if node is not None and begin is not None:
            begin(node, tracked)
        if node is None or (self._passed is None and nodes.DEPTHS.measure(node)[0] in self.seen):
            self._passed, self._begun = None, 0
            return
        place["frontier"] = [node]
        self._root, self._mark = tracked, self._mark_of(tracked)
        # A C function as callback: the frontier is dropped without running any Python in the thread of the target.
        self._watch = weakref.ref(tensor, partial(place.pop, "frontier"))

    def saved(self, node: Any, versions: bool) -> Iterator[Saved]:
        """Yield what `node` saved: see `NodeReader.saved`. Only for a visitor, that is, within a piece."""
        return iter(()) if self.now is None else self.reader.saved(node, versions, self.now)

    def packed(self, node: Any) -> Iterator[Packed]:
        """Yield what hooks packed of what `node` saved: see `NodeReader.packed`. Only for a visitor."""
        return iter(()) if self.now is None else self.reader.packed(node, self.now)

    def freed(self, node: Any) -> bool:
        """Whether a backward has released what `node` saved: see `NodeReader.freed`. Only for a visitor."""
        return self.now is not None and self.reader.freed(node, self.now)

    def root(self, tensor: Any, anew: bool = True) -> Any:
        """Return the node that made `tensor`; None where it may not be touched, unless that was done before.

        That of a view changed in place would be made anew: it is not read.
        """
        get = self._base
        if self._ownership is not None and not self._ownership.is_safe(id(tensor)):
            return None
        try:
            if get["is_leaf"].__get__(tensor) or (get["_base"].__get__(tensor) is not None and self._changed(tensor)):
                return None
            if anew and not self._touching.may_begin(tensor):
                self.deep = True
                return None
            node = get["grad_fn"].__get__(tensor)
            if node is not None:
                nodes.DEPTHS.touched(node, *nodes.DEPTHS.measure(node))
            return node
        except Exception:
            return None

    def _changed(self, tensor: Any) -> bool:
        return bool(self.reader.version(tensor))

    def _piece(self, frontier: List[Any], visit: Visit, more: More, alone: Alone) -> bool:
        """Visit some nodes; True when there are no more, or not more than the limit."""
        depths = nodes.DEPTHS
        while frontier:
            node = frontier.pop()
            if type(node) is tuple:
                self._go_on(frontier, node, more)
                if alone.over():
                    return not frontier
                continue
            key, length = depths.measure(node)
            known = key in self.seen
            if self._passed is None:
                if known:
                    continue
            elif key in self._passed:
                continue
            else:
                self._passed.add(key)
            if not known and len(self.seen) >= self._limit:
                self.cut = True
                return True
            self.seen.add(key)
            successors = self._successors(node, key, length)
            first = successors if len(successors) <= FEW else successors[:FEW]
            try:
                if not known:
                    visit(self, node, first)
            except DisturbedError:
                self.seen.discard(key)
                if self._passed is not None:
                    self._passed.discard(key)
                frontier.append(node)
                raise
            frontier.extend(one for one in reversed(first) if one is not None)
            if first is not successors:
                self._told.setdefault(key, FEW)
                frontier.append((node, key, successors, FEW))
            if alone.over():
                return not frontier
        return True

    def _go_on(self, frontier: List[Any], entry: Tuple[Any, Key, List[Any], int], more: More) -> None:
        """Tell some more of the many successors of a node."""
        node, key, successors, place = entry
        some = successors[place : place + FEW]
        if place == self._told[key]:
            if more is not None:
                more(self, node, some)
            self._told[key] += len(some)
        frontier.extend(one for one in reversed(some) if one is not None)
        if place + FEW < len(successors):
            frontier.append((node, key, successors, place + FEW))

    def _successors(self, node: Any, key: Key, length: Optional[int]) -> List[Any]:
        """Return the successors of a node, none where they may not be touched: then `rest` says so."""
        depths = nodes.DEPTHS
        self.rest = 1
        at = self._touching.address(node, key)
        if self._touching.too_many(at):
            self.wide = True
            return []
        shallow = length is not None and length <= nodes.SHALLOW
        if not shallow and not self._touching.may_follow(at, length):
            self.deep = True
            return []
        successors = self.reader.successors(node)
        following = [one for one in successors if one is not None] if len(successors) <= FEW or not shallow else []
        if len(successors) <= FEW:
            depths.check(length, following)
        if not shallow:
            for one in following:
                depths.touched(one, *depths.measure(one))
        if len(successors) > nodes.MAX_SUCCESSORS:
            self.wide = True
            return []
        self.rest = max(0, len(successors) - FEW)
        return successors


def discover(context: Context) -> Work:
    """Find the tensors that nodes saved for backward; yields between pieces of well under a millisecond.

    Returns False when not all of the graph could be looked at.
    """
    base = context.census.base
    if base is None:
        return False
    walker = Walker(context, base, MAX_NODES)
    if not walker.reader.can_read_saved:
        context.reasons.append(NO_SAVED)
        return False
    if not walker.possible:
        return False
    chosen = yield from with_graph(context)
    yield from walker.walk(chosen, _note_saved)
    context.reasons += walker.reasons()
    return not (walker.partly or walker.reader.checkpoints.unread)


def with_graph(context: Context) -> Generator[None, None, List[Tracked]]:
    """Return the tensors that a graph may hang behind, the newest first: the loss reaches most of it."""
    found = []
    for place, tracked in enumerate(list(context.census.by_id.values())):
        if not place % CHUNK:
            yield
        row = tracked.row
        if row is None or (cell(row, REQUIRES_GRAD) == 1 and cell(row, IS_LEAF) == 0):
            found.append(tracked)
    found.reverse()
    return found


def _note_saved(walker: Walker, node: Any, successors: List[Any]) -> None:
    context = walker.context
    for name, tensor, _, _ in walker.saved(node, False):
        tracked = context.track(tensor) if tensor is not None else None
        if tracked is not None:
            label = "%s saved by %s" % (labels.clip(name, labels.MAX_KEY), walker.reader.name(node))
            context.note(tracked, label, SAVED)
            tracked.saved_as = label


def walk(context: Context, roots: Optional[List[int]], limit: int = MAX_NODES) -> Generator[None, None, Dict[str, Any]]:
    """Return the body of the `graph` message: what is behind the tensors `roots`, or behind all of them."""
    base = context.census.base
    kept = context.census.memory
    if "reader" not in kept:  # it was made in the beginning: to learn what it must know gives up the interpreter lock
        kept["reader"] = TensorReader(context.torch, Size(context.torch).of)
    picture = Picture(kept["reader"])
    cut = False
    if base is not None:
        walker = Walker(context, base, max(1, min(limit, MAX_NODES)))
        cut = not walker.possible
        if not cut:
            chosen = _chosen(context, roots) if roots is not None else (yield from with_graph(context))
            yield from walker.walk(chosen, picture.visit, picture.begin, picture.more)
            cut = walker.partly
            context.reasons += walker.reasons()
            context.reasons += [] if walker.reader.can_read_saved else [NO_VERSIONS]
        yield
    yield from picture.finish()
    if picture.outside and not cut:
        cut = True
        context.reasons.append(GONE)
    found = yield from picture.roots(roots is None)
    return {
        "roots": found,
        "nodes": picture.nodes,
        "weights": picture.weights,
        "made": picture.further,
        "cut": cut,
        "reasons": list(context.reasons),
    }


def _chosen(context: Context, roots: List[int]) -> List[Tracked]:
    found = (context.census.by_id.get(one) for one in dict.fromkeys(roots) if type(one) is int)
    return [one for one in found if one is not None]
