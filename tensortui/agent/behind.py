"""Which variables hold what the autograd graph holds: the tensors behind which that part of the graph lies.

The graph is walked once, and noted as numbers: which node leads to which, where tensors begin, and which node has
something to do with an address that is asked for. From there it is gone back to the tensors that lead to the node, and
these are searched for in turn. What a graph holds may hold another graph: a checkpoint has its inputs in one.
"""

from array import array
from itertools import islice
from typing import Any, Callable, Dict, Generator, List, Tuple, TypeVar

from tensortui.agent import containers, nodes
from tensortui.agent.census import Context, Tracked, Work
from tensortui.agent.chains import UNKNOWN, Chain, Paths, Step, paths_of, steps_of
from tensortui.agent.checkpoints import NAME
from tensortui.agent.graph import MAX_NODES, NO_SAVED, Walker, with_graph
from tensortui.agent.heap import Heap
from tensortui.agent.holders import Search
from tensortui.agent.hook_objects import hooks_at
from tensortui.agent.memory import Memory
from tensortui.agent.node_hooks import address_of
from tensortui.agent.nodes import Key

FEW = 500  # numbers between two pieces
MOST_STEPS = 4  # ways in which nodes hold one thing,
MOST_OF_ONE = 3  # and nodes that do so in one of them; chains to one tensor, too
MOST_TENSORS = 6  # that one part of the graph is said to hang on
ROUNDS = 3  # graphs that hold one another
REAL = ("global", "local", "class")  # with which a chain begins that was followed to its end
MORE = "what holds the graph: it is read up to %d nodes, and is larger"
FIRST = "what holds the graph: of what leads to one part of it, only the first few were followed"
CHECKPOINT = NAME + "["
SAVED_PROPERLY = "saved_tensors["


T = TypeVar("T")
Make = Callable[[], "Search"]  # as text: typing keeps what it is given
Ways = Generator[Any, None, Dict[int, List[Chain]]]


class Behind:
    """Holds the graph as numbers. `reasons` say why it may not be all of it."""

    def __init__(self, context: Context, search: Search, tensor: Tracked) -> None:
        """Prepare to find what holds the graph around what `search` found to hold `tensor`."""
        self.reasons: List[str] = []
        self._context = context
        self._memory = Memory()
        self._tensor = tensor.pyid
        self._hooks = {at: node.address for node in search.nodes.values() for at in node.hooks}
        self._asked = {node.address for node in search.nodes.values() if not node.size}
        self._steps: Dict[Step, int] = {}
        self._at, self._by, self._how = array("Q"), array("q"), array("q")  # what is held, by which node, and the step
        self._ids: Dict[Key, int] = {}
        # The edges that lead to one node are a chain of places: from the last one on to the one before it, 0: none.
        self._from = array("q", [0])
        self._before = array("q", [0])
        self._last = array("q", [0])
        self._began_at, self._began = array("q"), array("q")  # nodes, and the tensors that they made
        self._known: Dict[int, Paths] = {}  # by tensor: chains to it, and ways that end early

    def read(self) -> Work:
        """Walk the graph."""
        context = self._context
        if context.census.base is None:
            return
        walker = Walker(context, context.census.base, MAX_NODES)
        if not walker.possible:
            self.reasons += context.reasons
            return
        chosen = yield from with_graph(context)
        yield from walker.walk(chosen, self._visit, self._begin, self._lead)
        self.reasons += [] if walker.reader.can_read_saved else [NO_SAVED]
        self.reasons += walker.reasons(MORE)

    def _id(self, node: Any) -> int:
        number = self._ids.setdefault(nodes.DEPTHS.measure(node)[0], len(self._ids) + 1)
        if number == len(self._last):
            self._last.append(0)
        return number

    def _begin(self, node: Any, tracked: Tracked) -> None:
        self._began_at.append(self._id(node))
        self._began.append(tracked.id)

    def _visit(self, walker: Walker, node: Any, successors: List[Any]) -> None:
        """Note a node: all of it is read before any of it is noted, for a read may be disturbed."""
        found = list(self._read(walker, node))
        number = self._id(node)
        for at, step in found:
            self._at.append(at)
            self._by.append(number)
            self._how.append(self._steps.setdefault(step, len(self._steps)))
        self._lead(walker, node, successors)

    def _lead(self, walker: Walker, node: Any, successors: List[Any]) -> None:
        """Note to which nodes a node leads."""
        number = self._id(node)
        for one in successors:
            if one is not None:
                after = self._id(one)
                self._before.append(self._last[after])
                self._from.append(number)
                self._last[after] = len(self._from) - 1

    def _read(self, walker: Walker, node: Any) -> Generator[Tuple[int, Step], None, None]:
        """Yield the addresses of what the node holds, where they matter, and how it does."""
        reader, tensor = walker.reader, self._tensor
        name = reader.name(node)
        by_python = bool(containers.type_flags(type(node)) & containers.HEAP_TYPE)
        if by_python or id(node) in self._asked:
            yield id(node), ("graph", "node %s" % name)
        if id(reader.leaf(node)) == tensor:
            yield tensor, ("graph", "leaf of the graph, by %s" % name)
        packed = False
        for what, saved, _, hook in walker.saved(node, False):
            packed |= bool(hook)
            if id(saved) != tensor:
                continue
            if what.startswith(CHECKPOINT):
                yield tensor, ("graph", "args%s kept by a checkpoint" % what[len(CHECKPOINT) - 1 :])
            elif not by_python or what.startswith(SAVED_PROPERLY):
                yield tensor, ("graph", "%s saved by %s" % (what, name))
        for what, unpack, data in walker.packed(node) if packed else ():
            step = ("graph", "%s saved by %s and packed by a hook" % (what, name))
            yield id(unpack), step
            if data is not None:
                yield id(data), step
        at = address_of(self._memory, node) if self._hooks else None
        for word in hooks_at(self._memory, at) if at is not None else ():
            if word in self._hooks:
                yield self._hooks[word], ("hook", "hook of %s" % name)

    # -- from what is asked for to variables

    def find(self, asked: List[int], heap: Heap, make: Make, rounds: int = ROUNDS) -> Ways:
        """Return for addresses the chains that lead to them through the graph; `make` makes a new search."""
        found: Dict[int, List[Chain]] = {}
        for at in asked:
            ways: List[Chain] = []
            holding = yield from self._holding(at)
            for step, numbers in holding.items():
                for number in numbers:
                    tensors = yield from self._leading_to(number)
                    further = yield from self._ways(tensors, heap, make, rounds)
                    ways += [way for way in ([*one, step] for one in further) if way not in ways]
            if holding:
                found[at] = ways or [[UNKNOWN, step] for step in holding]
        return found

    def _holding(self, at: int) -> Generator[Any, None, Dict[Step, List[int]]]:
        """Return which nodes hold what is at an address, by the step that says how."""
        steps = list(self._steps)
        found: Dict[Step, List[int]] = {}
        for place, one in enumerate(self._at):
            if one == at:
                numbers = found.setdefault(steps[self._how[place]], [])
                if self._by[place] not in numbers:
                    numbers += self._first([self._by[place]], MOST_OF_ONE - len(numbers))
            if not place % FEW:
                yield
        return dict(self._first(list(found.items()), MOST_STEPS))

    def _first(self, some: "List[T]", most: int) -> "List[T]":
        """Return the first few, and note where there are more."""
        if len(some) > most and FIRST not in self.reasons:
            self.reasons.append(FIRST)
        return some[:most]

    def _leading_to(self, node: int) -> Generator[Any, None, List[Tracked]]:
        """Return tensors behind which a node lies: those with a name first, then those that no other node leads to."""
        reached, todo = {node}, [node]
        left = FEW
        while todo:
            place = self._last[todo.pop()]
            while place:
                if self._from[place] not in reached:
                    reached.add(self._from[place])
                    todo.append(self._from[place])
                place = self._before[place]
                left -= 1
                if not left:
                    left = FEW
                    yield
        found: List[Tuple[bool, bool, int]] = []
        for place, number in enumerate(self._began_at):
            if not place % FEW:
                yield
            tracked = self._context.census.by_id.get(self._began[place]) if number in reached else None
            if tracked is not None and tracked.pyid != self._tensor:
                found.append((not tracked.names or tracked.saved, self._last[number] > 0, tracked.id))
        # Some may have been freed between two pieces.
        there = (self._context.census.by_id.get(number) for _, _, number in sorted(set(found)))
        return self._first(list(islice((one for one in there if one is not None), MOST_TENSORS + 1)), MOST_TENSORS)

    def _ways(self, tensors: List[Tracked], heap: Heap, make: Make, rounds: int) -> Generator[Any, None, List[Chain]]:
        """Return the chains that lead to some tensors, from variables where there are such."""
        fresh = [one for one in tensors if one.id not in self._known]
        if fresh:
            search = make()
            targets = yield from search.run(fresh, heap, roots=True)
            ids = {one.pyid: one.id for one in fresh if one.ref() is not None}  # what died may have left its address
            self._known.update((one.id, ([], [])) for one in fresh)
            for target in targets:
                if target.address in ids:
                    self._known[ids[target.address]] = yield from paths_of(search, target)
                yield
        ways: List[Chain] = []
        for one in tensors:
            ways += self._first(self._known[one.id][0], MOST_OF_ONE)
        if ways:
            return ways
        if rounds <= 1:
            self._first([path for one in tensors for path in self._known[one.id][1]], 0)
            return []
        for one in tensors:
            for path in self._first(self._known[one.id][1], MOST_OF_ONE):
                at = path[-1][0].address
                further = yield from self.find([at], heap, make, rounds - 1)
                ways += [[*way, *steps_of(path, "")] for way in further.get(at, ()) if way[0][0] in REAL]
            if ways:
                break
        return ways
