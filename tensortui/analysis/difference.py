"""What is more and what is less in one document than in another, in groups of what the tensors are.

Ids and addresses say nothing across two documents, so tensors are matched by kind: shape, dtype, device, category and
the name without its numbers. Each storage counts with one of its tensors, so that the groups add up to the totals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensortui.analysis.document import SCHEMA
from tensortui.analysis.grouping import NO_HOLDER
from tensortui.analysis.kinds import Kind, holder_in, pattern_of
from tensortui.analysis.saved_document import SavedDocument, SavedStorage, SavedTensor

MOST_NAMES = 10  # patterns of the names of one group


class Counts(NamedTuple):
    """Tensors, the storages that count with them, and the bytes of these, each byte once."""

    tensors: int
    storages: int
    bytes: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(one - two for one, two in zip(self, other, strict=True)))


ZERO = Counts(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Group:
    """What differs of one kind. `names` are the patterns of all names its tensors go by, in either document."""

    kind: Kind
    names: tuple[str, ...]
    change: Counts


@dataclass(frozen=True, slots=True)
class Difference:
    """From one document to the other; the groups that grew most come first. `seconds` is None where not known."""

    seconds: float | None
    a: Counts
    b: Counts
    groups: tuple[Group, ...]

    @property
    def totals(self) -> Counts:
        """What differs in all."""
        return self.b - self.a


def difference(a: SavedDocument, b: SavedDocument) -> Difference:
    """What there is more in `b` than in `a`, and less."""
    patterns: dict[str, str] = {}  # of names, most of which are in both
    one, other = _Groups(a, patterns), _Groups(b, patterns)
    changes = {
        kind: change
        for kind in one.counts.keys() | other.counts.keys()
        if (change := other.counts.get(kind, ZERO) - one.counts.get(kind, ZERO)) != ZERO
    }
    names: dict[Kind, dict[str, None]] = {kind: {kind.name: None} if kind.name else {} for kind in changes}
    for groups in (one, other):
        groups.collect_names(names)
    found = [Group(kind, _named(names[kind]), change) for kind, change in changes.items()]
    seconds = None
    if a.moment is not None and b.moment is not None:
        seconds = (b.moment - a.moment).total_seconds()
    return Difference(seconds, one.totals, other.totals, tuple(sorted(found, key=_order)))


def as_json(difference: Difference, a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """The difference in the form of the schema; `a` and `b` say which documents these are."""
    return {
        "schema": SCHEMA,
        "a": {**a, "totals": difference.a._asdict()},
        "b": {**b, "totals": difference.b._asdict()},
        "seconds": difference.seconds,
        "totals": difference.totals._asdict(),
        "groups": [
            {
                "shape": None if group.kind.shape is None else list(group.kind.shape),
                "dtype": group.kind.dtype,
                "device": group.kind.device,
                "category": group.kind.category,
                "names": list(group.names),
                **group.change._asdict(),
            }
            for group in difference.groups
        ],
    }


class _Groups:
    """The tensors of one document by kind."""

    def __init__(self, document: SavedDocument, patterns: dict[str, str]) -> None:
        self._tensors = document.tensors
        self._kinds = [_kind_of(tensor, patterns) for tensor in document.tensors]
        sums: defaultdict[Kind, list[int]] = defaultdict(lambda: [0, 0, 0])
        for kind in self._kinds:
            sums[kind][0] += 1
        members: dict[int, list[int]] = {}
        for at, tensor in enumerate(document.tensors):
            if tensor.storage is not None:
                members.setdefault(tensor.storage, []).append(at)
        for storage in document.storages:
            entry = sums[self._owner(storage, members.get(storage.id, []))]
            entry[1] += 1
            entry[2] += storage.counted
        self.counts = {kind: Counts(*entry) for kind, entry in sums.items()}
        size = sum(storage.counted for storage in document.storages)
        self.totals = Counts(len(document.tensors), len(document.storages), size)

    def _owner(self, storage: SavedStorage, members: list[int]) -> Kind:
        """The kind that a storage counts with: that of the tensor that its category comes from, the largest of them."""
        if not members:
            return Kind("", NO_HOLDER, storage.category, None, None, storage.device)
        if len(members) == 1:
            return self._kinds[members[0]]

        def rank(at: int) -> tuple[bool, bool, int, str]:
            tensor = self._tensors[at]
            return (
                tensor.category != storage.category,
                "view" in tensor.flags,
                -(tensor.bytes or 0),
                repr(self._kinds[at]),
            )

        return self._kinds[min(members, key=rank)]

    def collect_names(self, names: Mapping[Kind, dict[str, None]]) -> None:
        """Add the patterns of the names of these kinds."""
        for kind, tensor in zip(self._kinds, self._tensors, strict=True):
            known = names.get(kind) if len(tensor.names) > 1 else None
            if known is not None:
                known.update((pattern_of(name), None) for name in tensor.names[1:])


def _kind_of(tensor: SavedTensor, patterns: dict[str, str]) -> Kind:
    name = tensor.names[0] if tensor.names else ""
    pattern = patterns.get(name)
    if pattern is None:
        pattern = patterns[name] = pattern_of(name)
    return Kind(pattern, holder_in(pattern), tensor.category, tensor.shape, tensor.dtype, tensor.device)


def _named(patterns: Mapping[str, None]) -> tuple[str, ...]:
    """The pattern that the group goes by first, and the others in an order of their own."""
    first, *others = patterns or [""]
    return (first, *sorted(others))[:MOST_NAMES] if first else ()


def _order(group: Group) -> tuple[Any, ...]:
    return (-group.change.bytes, -group.change.tensors, -group.change.storages, group.kind.name, repr(group.kind))


def grown_and_shrunk(difference: Difference, most: int) -> Iterator[Group | int]:
    """The groups in order, at most so many of them: those in the middle change least, and are only counted."""
    groups = difference.groups
    if len(groups) <= most:
        yield from groups
        return
    grown = sum(group.change.bytes >= 0 for group in groups)
    head = min(grown, max(most // 2, most - (len(groups) - grown)))
    tail = most - head
    yield from groups[:head]
    yield len(groups) - most
    yield from groups[len(groups) - tail :] if tail else ()
