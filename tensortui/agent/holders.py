"""What keeps a tensor alive: the objects that hold it, those that hold these, up to what the program reaches by itself.

From the tensor upward, the memory is searched for the addresses of what is known so far (heap.py); what lies around
each place is told (objects.py) and asked whether it has that reference (links.py); globals and local variables end the
way (roots.py). Between two pieces only addresses and words are kept, and no object of the target.
"""

import time
from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Tuple

from tensortui.agent.census import Tracked, Work
from tensortui.agent.deques import Found, search_deques
from tensortui.agent.frames import Locals
from tensortui.agent.guard import Alone
from tensortui.agent.heap import OFTEN, Heap, Hit
from tensortui.agent.hook_objects import hook_object
from tensortui.agent.links import Link, Links, Spot, is_cache, is_ours, may_hold, type_label
from tensortui.agent.memory import WORD, Memory
from tensortui.agent.objects import Objects, Place, pointers_to
from tensortui.agent.opened import Opened
from tensortui.agent.roots import Root, Roots, Running, contexts_of, globals_of, is_namespace
from tensortui.agent.threads import threads

LEVELS = 24
AT_ONCE = 12  # nodes that one search through the memory is for
MOST_NODES = 240
MOST_HITS = 400  # places of one word that are looked at
REFERENCES = (1 << 32) - 1  # of the first word of an object: 3.14 has flags above it
ARRAYS = ("ndarray", "numpy.ndarray")
CACHED = "functools._lru_list_elem"  # an entry of an lru_cache
ENTRY = (5 * WORD, 6 * WORD)  # where an entry has its key and its value
BEFORE, NEXT = 2, 3  # words of an entry, and of the cache itself, with the entries beside it: no references
MOST_CACHED = 100_000  # entries that are gone along
ALONG = 20  # of them between two pieces


class Down(NamedTuple):
    """That a node holds another: where, and what that is called."""

    held: "Node"
    spot: Spot
    link: Link


class Node:
    """An object, or a buffer of one, known by its address."""

    __slots__ = (
        "address", "down", "hooks", "lost", "over", "owners", "plain", "references", "roots", "seen", "size",
    )  # fmt: skip

    def __init__(self, address: int, size: int = 0) -> None:
        """Start with nothing known of it."""
        self.address = address
        self.size = size  # of a buffer; 0 for an object
        self.down: List[Down] = []
        self.owners: List[int] = []  # of a buffer: the addresses of the objects that it belongs to
        self.roots: List[Root] = []
        self.references = 0  # its reference count when it was found
        self.seen = 0  # of them, those that were found
        self.plain = False
        self.over = False  # nothing is looked for above it
        self.lost = False  # all that holds it was found, and nothing leads to any of that
        self.hooks: Dict[int, str] = {}  # objects of C++ that hold it, a dictionary of hooks, and what they are


class Search:
    """One search, from one tensor or a few. `cut` tells whether it was ended early."""

    def __init__(
        self, memory: Memory, frames: Locals, opened: Opened, say: Callable[[str], None], until: float
    ) -> None:
        """Prepare; nothing is searched yet. How far it is will be told to `say`.

        No level is begun where the thread has used `until` seconds of processor time: several searches may share them.
        """
        self._memory = memory
        self._objects = Objects(memory)
        self._threads = threads()
        self._links = Links(self._objects, opened, frames, self._threads)
        self._running = Running(frames)
        self._until = until
        self.locals_reason = self._running.reason
        self.nodes: Dict[int, Node] = {}
        self.cut = False
        self._say = say
        self._cached: List[Tuple[int, Down]] = []  # entries of lru_caches whose cache is not found yet

    def run(self, wanted: List[Tracked], heap: Heap, *, roots: bool = False) -> Generator[Any, None, List[Node]]:
        """Find what leads to the tensors; return the nodes of those that live on.

        With `roots` a tensor that is a variable itself needs no other holder.
        """
        targets = self._start(wanted)
        yield from self._objects.learn_types()
        level, swept, kept = list(targets.values()), False, [] if roots else list(targets.values())
        for depth in range(LEVELS):
            yield from self._find_roots([node for node in level if not node.size], kept)
            level = [node for node in level if not node.over]
            if all(tracked.ref() is None for tracked in wanted):
                return []
            if not level and not swept and kept:
                swept = True
                level = yield from self._sweep(heap)
                yield from self._find_roots(level, kept)
                level = [node for node in level if not node.over]
            if not level:
                break
            if time.thread_time() > self._until:
                self.cut = True
                break
            self._say("searching level %d, %d MiB" % (depth + 1, heap.size >> 20))
            level = yield from self._search(level, heap)
        else:
            self.cut = True
        return [targets[tracked.id] for tracked in wanted if tracked.id in targets and tracked.ref() is not None]

    def _start(self, wanted: List[Tracked]) -> Dict[int, Node]:
        with Alone():
            found = {tracked.id: self._node(tracked.pyid) for tracked in wanted if tracked.ref() is not None}
            for node in found.values():
                self._count(node.address, self._memory.word(node.address) & REFERENCES)
            return found

    def _node(self, address: int) -> Node:
        node = self.nodes.get(address)
        if node is None:
            node = self.nodes[address] = Node(address)
        return node

    def _count(self, at: int, references: int) -> None:
        """Note how many references there were to a node when it was first found."""
        self.nodes[at].references = self.nodes[at].references or references

    def _find_roots(self, level: List[Node], kept: List[Node]) -> Work:
        wanted = {node.address for node in level}
        found: Roots = {}
        yield from globals_of(wanted, found)
        yield from self._running.locals_of(wanted, found)
        contexts_of(self._threads, wanted, found)
        for node in level:
            node.roots += [root for root in found.get(node.address, ()) if root not in node.roots]
            node.seen += len(node.roots)
            node.over = node.over or (bool(node.roots) and node not in kept)  # of the tensor all holders are sought

    def _sweep(self, heap: Heap) -> Generator[Any, None, List[Node]]:
        """Return the deques that hold what nothing else was found to hold."""
        nodes = [node for node in self.nodes.values() if not node.size and not node.roots]
        wanted = {node.address for node in nodes if node.seen < node.references}
        found: List[Found] = []
        if wanted:
            yield from search_deques(heap, self._objects, wanted, found)
        above: List[Node] = []
        for at, word, spot in found:
            above += self._take_one(at, Down(self.nodes[word], spot, Link("", "")))
            yield
        return above

    def _take_one(self, at: int, down: Down) -> List[Node]:
        with Alone():
            references = self._memory.word(at) & REFERENCES
            for holder in self._objects.alive.take([at], self._objects.kinds):
                fresh = at not in self.nodes
                known = self._held(holder, down)
                if known is not None and self._enter(holder, down, *known):
                    self._count(at, references)
                    return [self.nodes[at]] if fresh else []
        return []

    # -- upward

    def _search(self, level: List[Node], heap: Heap) -> Generator[Any, None, List[Node]]:
        above: List[Node] = []
        for first in range(0, len(level), AT_ONCE):
            some = level[first : first + AT_ONCE]
            for node in some:
                node.over = True
            yield from self._search_for(some, heap, True, above)
            # What has a buffer is small itself: a list, a dictionary, a set, an instance.
            rest = [node for node in some if not node.size and not node.plain and node.seen < node.references]
            if rest:
                yield from self._search_for(rest, heap, False, above)
        return above

    def _search_for(self, some: List[Node], heap: Heap, pools: bool, above: List[Node]) -> Work:
        words: Dict[int, Node] = {}
        for node in some:
            for word in pointers_to(self._memory, node.address, node.size) if node.size else (node.address,):
                words[word] = node
        hits: List[Hit] = []
        yield from heap.search(list(words), hits, pools)
        counts = dict.fromkeys(words, 0)
        for address, word in hits:
            counts[word] += 1
            if counts[word] > MOST_HITS or len(self.nodes) > MOST_NODES:
                self.cut = True
                if not counts[word] % OFTEN:
                    yield
                continue
            place = Place()
            yield from self._objects.around(address, place)
            above += self._take(words[word], address, place)
            yield
            while self._cached:
                yield from self._enter_cache(*self._cached.pop(), above)

    def _take(self, held: Node, address: int, place: Place) -> List[Node]:
        """Enter what holds `held` by the word at `address`; return what is new and is to be gone on with."""
        above: List[Node] = []
        with Alone():
            parts = [] if held.size else [Down(held, Spot(address, 0), Link("", ""))]
            if held.size or held.plain:  # what holds a plain object may tell the collector of what is in it instead
                parts += held.down
            for at in place.objects:
                if at in self._running.addresses:
                    continue
                references = self._memory.word(at) & REFERENCES  # before we take some
                for holder in self._objects.alive.take([at], self._objects.kinds):
                    # All of it is asked before any of it is named: that may lay the attributes of `holder` out anew.
                    found = [(down, self._held(holder, down)) for down in parts]
                    entered = [self._enter(holder, down, *known) for down, known in found if known is not None]
                    if any(entered):
                        self._count(at, references)
                        if held.size and at not in held.owners:
                            held.owners.append(at)
                        node = self.nodes[at]
                        return [] if node.over or node in above else [node]
        if held.size:
            return []
        what = hook_object(self._memory, address - WORD)
        if what and address - WORD not in held.hooks:
            held.hooks[address - WORD] = what
            held.seen += 1
        with Alone():
            for at in place.plain:
                kind = self._objects.kind_of(at)
                if kind is not None and type_label(kind) == CACHED:
                    if address - at in ENTRY:  # behind it the block has what was there before
                        self._cached.append((at, Down(held, Spot(address, 0), Link("", ""))))
                    return []
                above += self._enter_plain(at, held, address)
        if above:
            return above
        for start, size in place.buffers:
            above += self._enter_buffer(start, size, held, Spot(address, start))
        return above

    def _held(self, holder: Any, down: Down) -> Optional[Tuple[Any, int]]:
        """Return the object that `holder` holds by `down`, and how often, where it does and that is not known yet."""
        if not self._links.owns(holder, down.spot) or is_namespace(holder) or is_ours(holder):
            return None  # what a namespace holds was found among the globals
        thing, count = self._links.held(holder, down.held.address, down.spot)
        return None if thing is None else (thing, count)

    def _enter(self, holder: Any, down: Down, thing: Any, count: int) -> bool:
        """Enter that `holder` holds `thing`, so many times in all; return True."""
        node, held = self._node(id(holder)), down.held
        known = [place for place, one in enumerate(node.down) if one.held is held]
        if any(node.down[place].spot == down.spot for place in known):
            return True
        named = down._replace(link=self._links.find(holder, thing, down.spot))
        if len(known) < count:
            held.seen += 1
            node.down.append(named)
        else:  # the same reference: what was there before is left in memory for a while, with less to say
            weak = [place for place in known if node.down[place].link.weak]
            if weak and not named.link.weak:
                node.down[weak[0]] = named
        if held.plain:
            self._learn(thing, held)
        if issubclass(type(holder), type):
            node.roots, node.over = [("class", type_label(holder))], True
        return True

    def _enter_buffer(self, start: int, size: int, held: Node, spot: Spot) -> List[Node]:
        buffer = self.nodes.get(start)
        if buffer is None:
            buffer = self.nodes[start] = Node(start, size)
            buffer.down.append(Down(held, spot, Link("", "")))
            return [buffer]
        buffer.down.append(Down(held, spot, Link("", "")))
        for at in buffer.owners:
            self._take_one(at, Down(held, spot, Link("", "")))
        return []

    def _enter_plain(self, at: int, held: Node, address: int) -> List[Node]:
        """Enter an object that the collector does not know: that it lives is likely, and certain once it is held."""
        kind = self._objects.kind_of(at)
        if kind is None or not may_hold(kind):
            return []
        fresh = at not in self.nodes
        node = self._node(at)
        node.plain = True
        self._count(at, self._memory.word(at) & REFERENCES)  # it is not counted: the others are still to be looked for
        label = type_label(kind)
        node.down.append(Down(held, Spot(address, 0), Link("array" if label in ARRAYS else "object", label)))
        return [node] if fresh else []

    def _enter_cache(self, entry: int, down: Down, above: List[Node]) -> Work:
        """Enter the lru_cache of an entry with `down` in it: the entries know those beside them, up to the cache.

        That each is known by the next proves that they are in there still.
        """
        memory, at = self._memory, entry
        kind, steps = memory.word(entry + WORD), 0
        while steps < MOST_CACHED:
            after = memory.word(at + NEXT * WORD)
            words = memory.words(after, NEXT)
            if not words or words[BEFORE] != at:
                return
            if words[1] != kind:
                break
            at, steps = after, steps + 1
            if not steps % ALONG:
                yield
        self.cut = self.cut or steps == MOST_CACHED
        with Alone():
            references = memory.word(after) & REFERENCES
            for holder in self._objects.alive.take([after], self._objects.kinds):
                if is_cache(holder) and not is_ours(holder) and memory.word(down.spot.address) == down.held.address:
                    fresh = after not in self.nodes
                    node = self._node(after)
                    self._count(after, references)
                    if all(one.spot != down.spot for one in node.down):
                        down.held.seen += 1
                        node.down.append(down._replace(link=self._links.find(holder, None, down.spot)))
                    above += [node] if fresh else []

    def _learn(self, thing: Any, node: Node) -> None:
        """Find the words for what an object holds of which only the address was known."""
        for place, down in enumerate(node.down):
            inner, _ = self._links.held(thing, down.held.address, down.spot)
            if inner is not None:
                node.down[place] = down._replace(link=self._links.find(thing, inner, down.spot))
                if down.held.plain:
                    self._learn(inner, down.held)
