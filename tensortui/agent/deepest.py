"""Behind which tensors the autograd graph is deepest: a graph that grows holds next to nothing, and shows nowhere else.

Torch keeps the length of the longest path below a node in the node itself. With each sample it is read from memory, for
the tensors that have a node, in bulk and by a system call that cannot fault (half a millisecond for a thousand). No
node is touched for it.
"""

from itertools import islice
from typing import Dict, List, Tuple

from tensortui.agent.census import Work
from tensortui.agent.grad_fn import NodeNames
from tensortui.agent.guard import Alone

BATCH = 128  # tensors in one call: well under a slice
NEWEST = 1024  # that are looked at each time: what is carried from step to step is among the newest
IN_TURN = 256  # of the others
TOLD = 16
LEAST = 32  # nodes: nothing is told of shorter paths


class Deepest:
    """Follows the tensors that have a node. `told` are the numbers of those with the longest paths, and their lengths.

    Of several tensors that the same path ends in, as views of one, each is told.
    """

    def __init__(self, nodes: NodeNames) -> None:
        """Start with none; `nodes` has learned where to look."""
        self._nodes = nodes
        self._at: Dict[int, int] = {}  # addresses by number, those that were read last at the end
        self._turn: List[int] = []
        self.told: List[Tuple[int, int]] = []

    def note(self, number: int, address: int, computed: bool) -> None:
        """Remember a tensor that was read at `address`, if a node made it."""
        self._at.pop(number, None)
        if computed:
            self._at[number] = address

    def forget(self, number: int) -> None:
        """A tensor is gone."""
        self._at.pop(number, None)

    def look(self) -> Work:
        """Find the longest paths."""
        waiting = list(islice(reversed(self._at), NEWEST))
        if len(self._at) > NEWEST:
            self._turn = self._turn or list(self._at)
            waiting += self._turn[:IN_TURN]
            del self._turn[:IN_TURN]
            waiting += [number for number, _ in self.told]
        found: Dict[int, int] = {}
        while waiting:
            with Alone():
                some = [number for number in waiting[-BATCH:] if number in self._at]
                del waiting[-BATCH:]
                depths = self._nodes.depths([self._at[number] for number in some])
                found.update((number, depth) for number, depth in zip(some, depths) if depth >= LEAST)
            yield
        self.told = sorted(found.items(), key=lambda one: (-one[1], -one[0]))[:TOLD]
