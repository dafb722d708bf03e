"""The graph as a tree of rows: every node once, and a link wherever else it is reached.

A graph is deep, not wide: ten thousand operations one behind the other. So the longest way goes on at the same depth,
one row under the other, and only what branches off is indented. A node that is reached more than once stands under the
last of those that lead to it, so that what is skipped over (a residual connection) does not carry the rest away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tensortui.analysis.graph.reach import Reach, is_leaf
from tensortui.analysis.graph.repeats import repeats
from tensortui.analysis.graph.saves import Save, Saves

NODE, LEAF, SAVED, LINK, FOLD, CUT = "node", "leaf", "saved", "link", "fold", "cut"


@dataclass(frozen=True, slots=True)
class Fold:
    """A stretch of nodes that only repeats the `period` nodes before it, `count` times with them.

    With `whole` the nodes are roots, and each stands for all of its graph that is not shown above.
    """

    nodes: tuple[int, ...]
    period: int
    count: int
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `node` is the node that it is about: for a link, the one that stands elsewhere.

    `opened` is None where there is nothing to open. `below`: what a link leads to comes later. `begins`: with this row
    something begins that branches off from a node.
    """

    kind: str
    depth: int
    node: int
    key: tuple[str, int, int]
    save: Save | None = None
    fold: Fold | None = None
    opened: bool | None = None
    below: bool = False
    begins: bool = False


class Tree:
    """The rows of what `reach` holds. Nothing of it is worked out anew when rows are opened or closed."""

    def __init__(self, reach: Reach, saves: Saves) -> None:
        """Decide where each node stands."""
        self._reach = reach
        self._saves = saves
        self.parent = _parents(reach)
        self._main, self._branches = _lines(reach, self.parent)
        self._folds, self._hidden_in = self._find_folds()
        self._below: set[tuple[int, int]] = set()  # edges to what stands further down than the link
        self._below = self._look_ahead()

    def rows(self, closed: Collection[int] = (), unfolded: Collection[int] = ()) -> list[Row]:
        """The rows that show when the nodes `closed` are closed and the repetitions that begin with `unfolded` open."""
        return list(self._walk(closed, unfolded, True))

    @property
    def folds(self) -> frozenset[int]:
        """The first nodes of all repetitions."""
        return frozenset(self._folds)

    def hidden(self, fold: Fold) -> list[int]:
        """The nodes that a closed repetition hides, with all that branches off from them."""
        found: list[int] = []
        along = set() if fold.whole else set(fold.nodes)  # of these what goes on is in the repetition, or behind it
        waiting = list(fold.nodes)
        while waiting:
            number = waiting.pop()
            found.append(number)
            waiting += [one for one in self._branches[number] if self.parent[one] == number]
            if number in self._main and number not in along:
                waiting.append(self._main[number])
        return found

    def way_to(self, number: int) -> tuple[set[int], set[int]]:
        """What must be open for a node to show: nodes, and the first nodes of repetitions."""
        nodes: set[int] = set()
        folds = set(self._hidden_in.get(number, ()))
        child, at = number, self.parent.get(number)
        while at is not None:
            if self._main.get(at) != child:  # it branches off: what hides the node that it branches off from hides it
                nodes.add(at)
                folds.update(self._hidden_in.get(at, ()))
            child, at = at, self.parent.get(at)
        return nodes, folds

    def _look_ahead(self) -> set[tuple[int, int]]:
        seen: set[int] = set()
        below = set()
        for row in self._walk((), (), False):
            if row.kind in (NODE, LEAF):
                seen.add(row.node)
            elif row.kind == LINK and row.node not in seen:
                below.add((row.key[1], row.node))
        return below

    def _walk(self, closed: Collection[int], unfolded: Collection[int], folding: bool) -> Iterator[Row]:
        """Every row from the top. The stack holds rows to give, and nodes to go on with at a depth."""
        folds = self._folds if folding else {}
        roots = self._shown_roots(unfolded, folds)
        stack: list[Row | tuple[int, int, bool]] = [(root, 0, False) for root in reversed(roots)]
        while stack:
            top = stack.pop()
            if isinstance(top, Row):
                yield top
                continue
            number, depth, begins = top
            fold = folds.get(number)
            if fold is not None:
                opened = number in unfolded
                yield Row(FOLD, depth, number, (FOLD, number, 0), fold=fold, opened=opened)
                if not opened:
                    following = self._main.get(fold.nodes[-1])
                    if following is not None and not fold.whole:
                        stack.append((following, depth, False))
                    continue
            following = self._main.get(number)
            if following is not None:
                stack.append((following, depth, False))
            node = self._reach.nodes[number]
            saves, branches = self._saves.of(number), self._branches[number]
            within = bool(saves or branches or node.cut)
            open_now = number not in closed if within else None
            kind = LEAF if is_leaf(node) else NODE
            yield Row(kind, depth, number, (kind, number, 0), opened=open_now, begins=begins)
            if not open_now:
                continue
            for save in saves:
                yield Row(SAVED, depth + 1, number, (SAVED, number, save.place), save=save)
            if node.cut:
                stack.append(Row(CUT, depth + 1, number, (CUT, number, 0)))
            for one in reversed(branches):
                if self.parent[one] == number:
                    stack.append((one, depth + 1, True))
                else:
                    below = (number, one) in self._below
                    stack.append(Row(LINK, depth + 1, one, (LINK, number, one), below=below, begins=True))

    def _shown_roots(self, unfolded: Collection[int], folds: Mapping[int, Fold]) -> list[int]:
        """The roots without those that a closed repetition of whole graphs hides behind its first."""
        whole = [fold for first, fold in folds.items() if fold.whole and first not in unfolded]
        hidden = {root for fold in whole for root in fold.nodes[1:]}
        return [root for root in self._reach.roots if root not in hidden]

    def _find_folds(self) -> tuple[dict[int, Fold], dict[int, list[int]]]:
        """The repetitions along every line and of whole graphs, by what they hide first; and where a node is hidden."""
        marks, lines = self._marks()
        folds: dict[int, Fold] = {}
        hidden_in: dict[int, list[int]] = {}
        rows = [(self._line(head), marks, False) for head in self._heads()]
        for row, reading, whole in [(list(self._reach.roots), lines, True), *rows]:
            for found in repeats([reading[one] for one in row]):
                first = row[found.start + found.period]
                if first in folds or (whole and found.period > 1):
                    continue
                hidden = tuple(row[found.start + found.period : found.end])
                folds[first] = Fold(hidden, found.period, found.times, whole)
                for one in hidden:
                    for inside in self._line(one) if whole else (one,):
                        hidden_in.setdefault(inside, []).append(first)
        return folds, hidden_in

    def _heads(self) -> Iterator[int]:
        for number in self._reach.order:
            parent = self.parent.get(number)
            if parent is None or self._main.get(parent) != number:
                yield number

    def _line(self, head: int) -> list[int]:
        """The nodes that stand one under the other from `head` on."""
        line, at = [head], self._main.get(head)
        while at is not None:
            line.append(at)
            at = self._main.get(at)
        return line

    def _marks(self) -> tuple[dict[int, int], dict[int, int]]:
        """A number for each node, the same for those that read the same with all that branches off; and for each line.

        A line is a node and all that goes on from it.
        """
        numbers: dict[object, int] = {}
        lines: dict[int, int] = {}  # for each node: what the line from it on reads
        marks: dict[int, int] = {}
        for number in reversed(self._reach.order):
            node = self._reach.nodes[number]
            branches = tuple(
                lines[one] if self.parent[one] == number else self._reach.nodes[one].name
                for one in self._branches[number]
            )
            saves = tuple(_reading(save) for save in self._saves.of(number))
            leaf = self._saves.sample.tensors.get(node.leaf) if node.leaf is not None else None
            shape = None if leaf is None else (leaf.shape, leaf.dtype)
            reading = (node.name, node.function, node.freed, node.cut, node.hooks, shape, saves, branches)
            marks[number] = numbers.setdefault(reading, len(numbers))
            rest = self._main.get(number)
            lines[number] = numbers.setdefault((marks[number], None if rest is None else lines[rest]), len(numbers))
        return marks, lines


def _reading(save: Save) -> tuple[object, ...]:
    tensor = save.tensor
    what = (None, None) if tensor is None else (tensor.shape, tensor.dtype)
    return save.saved.name, *what, save.stale, save.saved.unpacked_by


def _parents(reach: Reach) -> dict[int, int | None]:
    """Under which node each one stands: the last that leads to it, by the longest way from a root."""
    level: dict[int, int] = {}
    parents: dict[int, int | None] = {}
    for number in reach.order:
        parent = max(reach.before[number], key=level.__getitem__, default=None)
        parents[number] = parent
        level[number] = 0 if parent is None else level[parent] + 1
    return parents


def _lines(reach: Reach, parents: dict[int, int | None]) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """With which node the line of each goes on, the one with most below it, and what branches off, in order."""
    size = dict.fromkeys(reach.order, 1)
    for number in reversed(reach.order):
        parent = parents[number]
        if parent is not None:
            size[parent] += size[number]
    main: dict[int, int] = {}
    branches: dict[int, tuple[int, ...]] = {}
    for number in reach.order:
        following = reach.following[number]
        own = [one for one in following if parents[one] == number]
        if len(own) == 1 or any(size[one] > 1 for one in own):  # of several ends none goes on
            main[number] = max(reversed(own), key=size.__getitem__)  # of weight and input the input
        branches[number] = tuple(one for one in following if one != main.get(number))
    return main, branches
