"""The bytes that a graph keeps alive: in all, of each node, and what only a node and what is behind it keeps.

A storage that several nodes saved goes only when all of them go. So what goes with a node is what all its savers are
reached through that node alone: the node is on every path to them. That is the tree of dominators; a storage counts at
the lowest node that is on every path to all its savers.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensortui.analysis.graph.reach import Reach
from tensortui.analysis.graph.saves import Saves


class Keeping:
    """Bytes of one graph, each storage once."""

    def __init__(self, reach: Reach, saves: Saves) -> None:
        """Count what `saves` tells of the nodes of `reach`."""
        paths = Dominators(reach)
        self._storages: dict[int, dict[int, int]] = {}  # of each node, with their bytes
        self._behind: dict[int | None, int] = {}
        size: dict[int, int] = {}
        kept: dict[int, int] = {}
        where: dict[int, int | None] = {}
        for number in reach.order:
            own: dict[int, int] = {}
            for save in saves.of(number):
                if save.storage is None or save.bytes is None:
                    continue
                storage = save.storage.id
                own[storage] = size[storage] = save.bytes
            for held in (*saves.of(number), saves.leaf(number)):
                if held is not None and held.storage is not None and held.bytes is not None and not held.elsewhere:
                    storage = held.storage.id
                    kept[storage] = held.bytes
                    where[storage] = paths.common(where[storage], number) if storage in where else number
            self._storages[number] = own
        for storage, node in where.items():
            self._behind[node] = self._behind.get(node, 0) + kept[storage]
        for number in reversed(reach.order):
            above = paths.above(number)
            self._behind[above] = self._behind.get(above, 0) + self._behind.get(number, 0)
        self.saved_bytes = sum(size.values())
        self.kept_bytes = sum(kept.values())
        self.storages = len(size)

    def own(self, node: int) -> int:
        """The bytes of what a node saved, whoever else keeps them."""
        return sum(self._storages.get(node, {}).values())

    def of(self, nodes: Iterable[int]) -> int:
        """The bytes of what several nodes saved together."""
        found: dict[int, int] = {}
        for node in nodes:
            found.update(self._storages.get(node, {}))
        return sum(found.values())

    def behind(self, node: int) -> int:
        """What only a node and what is behind it keeps: no path that leaves the node out leads to a saver of it."""
        return self._behind.get(node, 0)


class Dominators:
    """For each node the nearest one that is on every path to it; None stands before all roots."""

    def __init__(self, reach: Reach) -> None:
        """Go through the nodes in their order: those before a node are known when it comes."""
        self._above: dict[int | None, int | None] = {None: None}
        self._jump: dict[int | None, int | None] = {None: None}  # an ancestor far up, for short ways
        self._depth: dict[int | None, int] = {None: 0}
        for number in reach.order:
            before = reach.before[number]
            above: int | None = None
            if before:
                above = before[0]
                for one in before[1:]:
                    above = self.common(above, one)
            self._add(number, above)

    def above(self, node: int) -> int | None:
        """The nearest node on every path to `node`."""
        return self._above[node]

    def _add(self, number: int, above: int | None) -> None:
        jump = self._jump[above]
        depth = self._depth
        even = depth[above] - depth[jump] == depth[jump] - depth[self._jump[jump]]
        self._above[number] = above
        self._jump[number] = self._jump[jump] if even else above
        depth[number] = depth[above] + 1

    def common(self, one: int | None, other: int | None) -> int | None:
        """The lowest node that is on every path to both."""
        depth, above, jump = self._depth, self._above, self._jump
        if depth[one] < depth[other]:
            one, other = other, one
        while depth[one] > depth[other]:
            one = jump[one] if depth[jump[one]] >= depth[other] else above[one]
        while one != other:
            if jump[one] != jump[other]:
                one, other = jump[one], jump[other]
            else:
                one, other = above[one], above[other]
        return one
