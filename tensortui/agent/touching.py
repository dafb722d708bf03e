"""Which nodes a walk may touch: as memory tells it before, or else as long as there is room for deep ones."""

from typing import Any, List, Optional, Tuple

from tensortui.agent import nodes
from tensortui.agent.edges import Ahead
from tensortui.agent.grad_fn import NodeNames
from tensortui.agent.nodes import Key

WIDEST_DEEP = 1_000  # successors of a deep node: each of them has to be looked at before


class Touching:
    """Asks before anything is touched. What is shallow may always be, where this torch tells how deep it lies."""

    def __init__(self, names: Optional[NodeNames]) -> None:
        """Ask `names`, if there are any."""
        self.names = names
        self._edges = None if names is None else names.edges

    def may_begin(self, tensor: Any) -> bool:
        """Whether the node that made `tensor` may be touched."""
        ahead = None if self.names is None else self.names.ahead(id(tensor))
        return nodes.DEPTHS.may_touch(None if ahead is None else _deepening([ahead]))

    def address(self, node: Any, key: Key) -> Optional[int]:
        """Return where a node that is held lies; None where that is not certain."""
        if nodes.pointer(node) is not None:
            return key[0]
        return None if self._edges is None else self._edges.address_of(node)

    def too_many(self, address: Optional[int]) -> bool:
        """Whether a node is known to have more successors than may be touched in one go."""
        return self._count(address) > nodes.MAX_SUCCESSORS

    def may_follow(self, address: Optional[int], length: Optional[int]) -> bool:
        """Whether the successors of a node may be touched that lies deep, or of which it is not known how deep."""
        ahead = None
        if self._edges is not None and address is not None:
            if length is None and self._is_shallow(address):
                return True
            if self._count(address) > WIDEST_DEEP:
                return False
            ahead = self._edges.ahead(address)
        return nodes.DEPTHS.may_touch(None if ahead is None else _deepening(ahead))

    def _count(self, address: Optional[int]) -> int:
        return 0 if self._edges is None or address is None else self._edges.count(address)

    def _is_shallow(self, address: int) -> bool:
        own = None if self._edges is None else self._edges.at(address)
        return own is not None and own.length <= nodes.SHALLOW


def _deepening(ahead: List[Ahead]) -> List[Tuple[Key, int]]:
    """Leave out those that are written in Python: they have an object anyway."""
    return [(one.key, one.length) for one in ahead if not one.by_python]
