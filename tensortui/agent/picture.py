"""The graph as the answer to a graph request tells it: the nodes that a walk visits, one after the other.

There may be ten thousand. Kept as lists they would be so many objects of the collector's that it went through all those
of the target once more: each node is packed, its edges are numbers.
"""

import marshal
from array import array
from typing import TYPE_CHECKING, Any, Dict, Generator, List, Set, Tuple

from tensortui.agent import nodes
from tensortui.agent.census import Tracked, Work
from tensortui.agent.nodes import Key
from tensortui.agent.read import TensorReader
from tensortui.wire.messages import OPTIMIZER

if TYPE_CHECKING:
    from tensortui.agent.graph import Walker

CHUNK, MANY = 50, 2_000  # nodes between two pieces, by what they weigh where some are packed anew
MOST_HELD = 64  # tensors of one node that are described
MOST_MADE = 2_000  # tensors that one node made, in one message
NUMBERS = 20  # that weigh as much as a node


class Picture:
    """The graph as the wire tells it, put together node by node."""

    def __init__(self, tensors: TensorReader) -> None:
        """Start empty; `tensors` reads what nodes hold."""
        self.nodes: List[bytes] = []
        self.weights = array("l")  # what each node costs to send, as so many tensors that it saved, or plain nodes
        self._numbers = array("q")
        self._edges = array("q")  # to what each node leads, 0 to nothing
        self._first = array("q", [0])  # which of them is the first of each node
        self._many: Dict[int, array[int]] = {}  # where nodes lead to besides, of which that came in several pieces
        self._untold: Dict[int, int] = {}  # to how many more these lead
        self.outside = False  # whether some node leads to one that was not visited
        self._tensors = tensors
        self._described: Set[int] = set()
        self._ids: Dict[Key, int] = {}
        self._made = array("q")  # the tensors that walks started with
        self._following = array("q")  # and for each where the next one is that the same node made, 0: none
        self._starts: Dict[int, int] = {}  # where the first tensor is that each of these nodes made,
        self._last: Dict[int, int] = {}  # and the last
        self.further: List[bytes] = []  # what nodes made besides what is told with them: the node and tensors, packed

    def id_of(self, node: Any) -> int:
        """Return the number of `node` in this picture."""
        return self._ids.setdefault(nodes.DEPTHS.measure(node)[0], len(self._ids) + 1)

    def begin(self, node: Any, tracked: Tracked) -> None:
        """Note that a walk starts at `node`, which made the tensor `tracked`."""
        number, place = self.id_of(node), len(self._made)
        last = self._last.get(number)
        if last is None:
            self._starts[number] = place
        elif self._made[last] == tracked.id:
            return  # the walk begins it again
        else:
            self._following[last] = place
        self._last[number] = place
        self._made.append(tracked.id)
        self._following.append(0)

    def visit(self, walker: "Walker", node: Any, successors: List[Any]) -> None:
        """Add `node` with what it saved."""
        reader, track = walker.reader, walker.context.track
        leaf = reader.leaf(node)
        owner = track(leaf) if leaf is not None else None
        saved: List[List[Any]] = []
        held: List[List[Any]] = [] if owner is None else self._describe(leaf, owner)
        for name, tensor, then, hook in walker.saved(node, True):
            tracked = track(tensor) if tensor is not None else None
            now = reader.version(tensor) if tensor is not None else None
            stale = then is not None and now is not None and then != now
            one = [name, None if tracked is None else tracked.id, then, now, stale, bool(hook)]
            saved.append([*one, hook] if hook else one)
            if tracked is not None and len(held) < MOST_HELD:
                held += self._describe(tensor, tracked)
        number = self.id_of(node)
        following = [None if one is None else self.id_of(one) for one in successors]
        entry: List[Any] = [number, reader.name(node), following, None if owner is None else owner.id, saved]
        function = reader.function(node)
        counted = self._tensors.nodes.hooks
        hooks, retained = (0, 0) if counted is None else counted.count(node)
        more = {
            "function": function,
            "freed": (not saved or bool(function)) and walker.freed(node),
            "hooks": hooks + (reader.hooks(leaf) if leaf is not None else 0),
            "retained": retained,
            "held": held,
        }
        self._described.update(one[0] for one in held)
        self._numbers.append(number)
        self._edges.extend(one or 0 for one in following)
        self._first.append(len(self._edges))
        self.weights.append(1 + len(saved) + len(following) // NUMBERS)
        self.nodes.append(marshal.dumps([*entry, {name: value for name, value in more.items() if value}]))
        if walker.rest:
            self._untold[number] = walker.rest

    def more(self, walker: "Walker", node: Any, successors: List[Any]) -> None:
        """Add some more of the many nodes that `node` leads to."""
        number = self.id_of(node)
        self._many.setdefault(number, array("q")).extend(0 if one is None else self.id_of(one) for one in successors)
        self._untold[number] -= len(successors)

    def _describe(self, tensor: Any, tracked: Tracked) -> List[List[Any]]:
        """Return what there is to say of a tensor that may be gone before the next sample tells of it."""
        lasting = tracked.row is not None and tracked.found <= OPTIMIZER
        if lasting or tracked.id in self._described:
            return []
        facts = self._tensors.read(tensor)
        facts.base = None
        place = [facts.shape, facts.strides, facts.offset, facts.dtype, facts.device, facts.layout]
        return [[tracked.id, *place, facts.flags, facts.address, facts.nbytes]]

    def finish(self) -> Work:
        """Leave no edge to a node that was not visited, and tell which tensors began at which node."""
        here, weight = set(self._numbers), 0
        for place, number in enumerate(self._numbers):
            if weight >= CHUNK:
                yield
                weight = 0
            weight += self.weights[place]
            following = self._edges[self._first[place] : self._first[place + 1]]
            many = self._many.get(number)
            if many is not None:
                following = following + many
                self.weights[place] += len(many) // NUMBERS
                weight += len(many) // NUMBERS
            outside = self._untold.get(number, 0) > 0 or any(one and one not in here for one in following)
            if not outside and many is None and number not in self._starts:
                continue
            node = unpacked(self.nodes[place])
            node[2] = [one or None for one in following]
            if outside:
                self.outside = True
                node[2] = [one if one in here else None for one in node[2]]
                node[5]["cut"] = True
            further = 0
            if number in self._starts:
                tensors, further = self._some(self._starts[number])
                node[5]["tensors"] = tensors
                self.weights[place] += len(tensors) // NUMBERS
                weight += len(tensors) // NUMBERS
            self.nodes[place] = marshal.dumps(node)
            while further:
                yield
                tensors, further = self._some(further)
                self.further.append(marshal.dumps([number, tensors]))

    def _some(self, place: int) -> Tuple[List[int], int]:
        """Return tensors that one node made, from the one at `place` on, and where those are that come after them."""
        tensors = []
        while True:
            tensors.append(self._made[place])
            place = self._following[place]
            if not place or len(tensors) >= MOST_MADE:
                return tensors, place

    def roots(self, outer: bool) -> Generator[None, None, List[int]]:
        """Return the nodes that walks started at; with `outer` those that no other node leads to."""
        inner: Set[int] = set()
        for place in range(0, len(self._edges) if outer else 0, MANY):
            inner.update(self._edges[place : place + MANY])
            yield
        for many in self._many.values() if outer else ():
            inner.update(many)
            yield
        found = []
        for place, number in enumerate(self._numbers):
            if not place % MANY:
                yield
            if number in self._starts and number not in inner:
                found.append(number)
        return found


def unpacked(node: bytes) -> List[Any]:
    """Return a node, or more tensors that one made, as the wire wants it."""
    found: List[Any] = marshal.loads(node)
    return found
