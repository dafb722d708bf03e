"""The two tables of an agent, rebuilt from its messages: rows in, immutable records out.

No input or output happens here. Whatever the peer sends, the tables stay bounded and of the right types: a field that
makes no sense becomes None, a message that makes no sense raises WireError.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable
from itertools import repeat
from types import MappingProxyType
from typing import Any

from tensortui.model import BACKINGS, CATEGORIES, Change, Storage, Tensor
from tensortui.model.strided import Layout, Work, layout
from tensortui.wire.frames import WireError
from tensortui.wire.messages import COLUMNS, NONE, TENSOR_FLAGS

MAX_ROWS = 4_000_000  # tensors, or storages, one process may show
MAX_ENTRIES = 16_000_000  # dictionary entries since the last reset
MAX_TEXT = 8192
MAX_DIMS = 64
MAX_NAMES = 64
MAX_WORK = 1 << 26  # spent on the layouts of one batch: four of the most awkward that there can be
MAX_KNOWN = 1 << 18  # layouts, or sets of flags, that are remembered

_CPP_ONLY = TENSOR_FLAGS.index("cpp-only")
_FLAGS = {name: 1 << bit for bit, name in enumerate(TENSOR_FLAGS)}


class Tables:
    """Tensors and storages as the messages so far have left them; `take` closes a batch."""

    def __init__(self) -> None:
        """Start empty."""
        self._tensors: dict[int, Tensor] = {}
        self._storages: dict[int, Storage] = {}
        self._published: tuple[dict[int, Tensor], dict[int, Storage]] = (self._tensors, self._storages)
        self._touched: tuple[set[int], set[int]] = (set(), set())
        self._was_reset = False
        self._taken = 0
        self._work = Work(MAX_WORK)
        self._forget()

    def _forget(self) -> None:
        self._values: dict[str, dict[str, list[Any]]] = {
            table: {name: [] for name, kind in columns if kind == "value"} for table, columns in COLUMNS.items()
        }
        self._entries = 0
        self._layouts: dict[tuple[int, int, int], Layout] = {}
        self._flags: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}

    def rows(self, header: dict[str, Any], payload: bytes) -> None:
        """Apply a `rows` message."""
        table = header.get("table")
        if not isinstance(table, str) or table not in COLUMNS:
            return  # a table of a newer agent
        columns = COLUMNS[table]
        self._learn(table, header.get("values"))
        data = _int64(payload)
        if len(data) % len(columns) or header.get("n") != len(data) // len(columns):
            raise WireError(f"rows of {table} do not fit their count")
        cells = [data[at :: len(columns)] for at in range(len(columns))]
        if table == "tensors":
            self._own(0)
            self._put_tensors(cells)
            count = len(self._tensors)
        else:
            self._own(1)
            self._put_storages(cells)
            count = len(self._storages)
        if count > MAX_ROWS:
            raise WireError(f"more than {MAX_ROWS} {table}")

    def gone(self, header: dict[str, Any], payload: bytes) -> None:
        """Apply a `gone` message; ids that we never saw are ignored."""
        table = header.get("table")
        which = 0 if table == "tensors" else 1 if table == "storages" else None
        if which is None:
            return
        self._own(which)
        rows: dict[int, Any] = self._storages if which else self._tensors
        touched = self._touched[which]
        for number in _int64(payload):
            if rows.pop(number, None) is not None:
                touched.add(number)

    def reset(self) -> None:
        """Apply a `reset` message: what follows is everything."""
        self._forget()
        self._tensors, self._storages = {}, {}
        self._was_reset = True

    def take(self) -> tuple[int, MappingProxyType[int, Tensor], MappingProxyType[int, Storage], Change]:
        """Close the batch: its number, both tables, never to change again, and what differs from the batch before."""
        before = self._published
        after = (self._tensors, self._storages)
        if self._was_reset:
            tensors: Iterable[int] = before[0].keys() | after[0].keys()
            storages: Iterable[int] = before[1].keys() | after[1].keys()
        else:
            tensors, storages = self._touched
        new, changed, gone = _differences(tensors, before[0], after[0])
        stored = frozenset[int]().union(*_differences(storages, before[1], after[1]))
        change = Change(new, changed, gone, stored, self._taken or None)
        self._taken += 1
        self._published = after
        self._touched = (set(), set())
        self._was_reset = False
        self._work = Work(MAX_WORK)
        return self._taken, MappingProxyType(after[0]), MappingProxyType(after[1]), change

    def _own(self, which: int) -> None:
        """Copy a table before its first change since it was given away."""
        if which == 0 and self._tensors is self._published[0]:
            self._tensors = self._tensors.copy()
        elif which == 1 and self._storages is self._published[1]:
            self._storages = self._storages.copy()

    def _learn(self, table: str, values: Any) -> None:
        if values is None:
            return
        if not isinstance(values, dict):
            raise WireError("values is not an object")
        known = self._values[table]
        for column, entries in values.items():
            if column not in known:
                continue  # a column of a newer agent
            if not isinstance(entries, list):
                raise WireError(f"the entries of {column} are not a list")
            self._entries += len(entries)
            if self._entries > MAX_ENTRIES:
                raise WireError("too many dictionary entries without a reset")
            known[column].extend(map(_CLEAN[column], entries))

    def _column(self, table: str, column: str, cells: Iterable[int]) -> list[Any]:
        entries = self._values[table][column]
        size = len(entries)
        return [entries[cell] if 0 <= cell < size else None for cell in cells]

    def _put_tensors(self, cells: list[array[int]]) -> None:
        value = {
            name: self._column("tensors", name, cells[at])
            for at, (name, kind) in enumerate(COLUMNS["tensors"])
            if kind == "value"
        }
        number = {name: cells[at] for at, (name, kind) in enumerate(COLUMNS["tensors"]) if kind != "value"}
        shapes, strides, dtypes = value["shape"], value["strides"], value["dtype"]
        layouts = self._layouts
        flags = self._flags
        if min(number["id"], default=0) < 0 or any(storage < 0 and storage != NONE for storage in number["storage"]):
            raise WireError("an id below 0")
        out = self._tensors
        touched = self._touched[0]
        keys = zip(cells[4], cells[5], cells[7], strict=True)  # shape, strides, dtype
        for at, (
            key, tid, storage, names, type_, offset, device, kind, size, bits, grad, leaf, version, grad_fn, category
        ) in enumerate(
            zip(
                keys, number["id"], number["storage"], value["names"], value["type"], number["offset"],
                value["device"], value["layout"], number["bytes"], number["flags"], number["requires_grad"],
                number["is_leaf"], number["version"], value["grad_fn"], number["category"], strict=True,
            )
        ):  # fmt: skip
            derived = layouts.get(key)
            if derived is None:
                derived = layout(shapes[at], strides[at], dtypes[at], self._work)
                if self._work.left >= 0:  # else another batch may have the time
                    _remember(layouts, key, derived)
            total, distinct, contiguous, form, own = derived
            if size != NONE and size >= 0 and size != total:
                # The agent's own count: sparse (values and indices), packed or unknown dtypes.
                total = size
                distinct = None if kind != "strided" or distinct is None else min(distinct, size)
            both = flags.get((bits, own))
            if both is None:
                both = flag_names(bits, own)
                _remember(flags, (bits, own), both)
            touched.add(tid)
            out[tid] = Tensor(
                tid,
                None if storage == NONE else storage,
                names or (),
                type_ or "Tensor",
                shapes[at],
                strides[at],
                None if offset < 0 else offset,
                dtypes[at],
                device,
                kind,
                total,
                distinct,
                contiguous,
                form,
                both,
                None if grad < 0 else bool(grad),
                None if leaf < 0 else bool(leaf),
                None if version < 0 else version,
                grad_fn,
                CATEGORIES[category] if 0 <= category < len(CATEGORIES) else "other",
                bits < 0 or not bits >> _CPP_ONLY & 1,
            )

    def _put_storages(self, cells: list[array[int]]) -> None:
        if min(cells[0], default=0) < 0:
            raise WireError("an id below 0")
        devices = self._column("storages", "device", cells[1])
        touched = self._touched[1]
        for number, device, address, size, backing in zip(cells[0], devices, *cells[2:], strict=True):
            touched.add(number)
            # An address above 2**63 travels as its two's complement; it is never null by accident (NONE is no address).
            self._storages[number] = Storage(
                number,
                device or "?",
                None if address == NONE else address & 0xFFFF_FFFF_FFFF_FFFF,
                None if size < 0 else size,
                BACKINGS[backing] if 0 <= backing < len(BACKINGS) else "memory",
            )


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= MAX_KNOWN:
        known.clear()
    known[key] = value


def _differences(
    ids: Iterable[int], before: dict[int, Any], after: dict[int, Any]
) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    new, changed, gone = [], [], []
    for number in ids:
        old, now = before.get(number), after.get(number)
        if now is None:
            if old is not None:
                gone.append(number)
        elif old is None:
            new.append(number)
        elif now is not old and now != old:
            changed.append(number)
    return frozenset(new), frozenset(changed), frozenset(gone)


def _int64(payload: bytes) -> array[int]:
    data = array("q")
    try:
        data.frombytes(payload)
    except ValueError:
        raise WireError("the payload is not a whole number of int64") from None
    if sys.byteorder == "big":
        data.byteswap()
    return data


def flag_names(bits: int, own: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the agent's flags, and those that follow from strides, in their usual order."""
    bits = max(bits, 0)  # null
    names = [name for name, bit in _FLAGS.items() if bits & bit and name != "cpp-only"]
    if bits & _FLAGS["sparse"]:
        return tuple(names)
    view = [name for name in names if name in ("view", "base-only")]
    return (*view, *own, *(name for name in names if name not in view))


def integer(value: Any) -> int | None:
    """An int of the peer that fits 64 bits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        return None
    return value


def clean_text(value: Any) -> str | None:
    """A string of the peer, bounded, lone surrogates replaced: it can be encoded, nothing else about it is safe."""
    if not isinstance(value, str):
        return None
    text = value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "…"
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_names(value: Any) -> tuple[str, ...]:
    """A list of names of the peer, bounded."""
    if not isinstance(value, list):
        return ()
    return tuple(text for text in map(clean_text, value[:MAX_NAMES]) if text is not None)


def clean_dims(value: Any) -> tuple[int, ...] | None:
    """Sizes or strides of the peer; None where they are none."""
    if not isinstance(value, list) or len(value) > MAX_DIMS:
        return None
    dims = tuple(value)
    if not all(map(isinstance, dims, repeat(int))) or any(dim < 0 or dim >= 1 << 63 for dim in dims):
        return None
    return dims


def clean_shape(value: Any) -> tuple[int, ...] | None:
    """A shape of the peer; None where it is none: PyTorch has no tensor whose elements int64 cannot count."""
    dims = clean_dims(value)
    return None if dims is None or math.prod(dims) >= 1 << 63 else dims


_CLEAN = {
    **dict.fromkeys(("type", "dtype", "device", "layout", "grad_fn"), clean_text),
    "names": clean_names,
    "shape": clean_shape,
    "strides": clean_dims,
}
