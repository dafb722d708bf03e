"""The two tables as the wire wants them: rows of int64, a dictionary a column, and what changed since when.

There is a row for each tensor of the target. So nothing here is a container that the collector counts, other than a
handful for the whole table: a hundred thousand of them would have it go through all objects of the target.
"""

import collections
import struct
from array import array
from typing import Any, Deque, Dict, Generator, List, Tuple

from tensortui.agent.census import Work
from tensortui.wire.frames import encode
from tensortui.wire.messages import COLUMNS, NONE

Row = Tuple[int, ...]
CHUNK = 400  # rows a frame: encoding one takes well under a slice
MOST_ENTRIES = 2_000  # of the dictionaries in one frame,
MOST_TEXT = 32 << 10  # and about how many characters
DIGITS = 6  # of a number among them
GONE_LIMIT = 200_000
INT64 = 1 << 63
CELL = struct.Struct("q")
REQUIRES_GRAD, IS_LEAF = ([name for name, _ in COLUMNS["tensors"]].index(one) for one in ("requires_grad", "is_leaf"))


def number(value: Any) -> int:
    """Return `value` as an int64 of the wire; None, and what does not fit, as null."""
    if value is None:
        return NONE
    return int(value) if -INT64 < value < INT64 else NONE


def length(value: Any) -> int:
    """Return about how many characters an entry of a dictionary has on the wire."""
    if type(value) is str:
        return len(value)
    return sum(len(one) if type(one) is str else DIGITS for one in value)


def cell(row: bytes, place: int) -> int:
    """Return one cell of a row as it is kept."""
    return int(CELL.unpack_from(row, place * CELL.size)[0])


class Dictionary:
    """The values of one column, each once, in the order in which they came."""

    __slots__ = ("_index", "entries")

    def __init__(self) -> None:
        """Start empty."""
        self.entries: List[Any] = []
        self._index: Dict[Any, int] = {}

    def index(self, value: Any) -> int:
        """Return the number of `value`, a string or a tuple; null for None."""
        if value is None:
            return NONE
        found = self._index.get(value)
        if found is None:
            found = self._index[value] = len(self.entries)
            self.entries.append(value)
        return found


class Table:
    """The rows of one table, the newest change last, so that what changed since a serial is found from the end."""

    def __init__(self, name: str) -> None:
        """Start an empty table with the columns of `name`."""
        self.name = name
        self.columns = COLUMNS[name]
        self.dictionaries = [Dictionary() if kind == "value" else None for _, kind in self.columns]
        self.serial = 0
        self.epoch = 0  # counts resets: a connection of another epoch needs everything
        self._pack = struct.Struct("%dq" % len(self.columns)).pack
        self.rows: Dict[int, bytes] = {}
        self._changed: Dict[int, int] = {}  # the serial of each row's last change, in their order
        self._gone: Deque[int] = collections.deque()
        self._gone_at: Deque[int] = collections.deque()  # their serials
        self._forgotten = 0  # deaths up to this serial are no longer known

    def dictionary(self, column: str) -> Dictionary:
        """Return the dictionary of a value column."""
        for (name, _), dictionary in zip(self.columns, self.dictionaries):
            if name == column and dictionary is not None:
                return dictionary
        raise KeyError(column)

    def put(self, cells: Row) -> bytes:
        """Store a row under its id, its first cell, and return it as it is kept: 8 bytes a cell."""
        number_ = cells[0]
        row = self._pack(*cells)
        if self.rows.get(number_) != row:
            self.serial += 1
            self._changed.pop(number_, None)
            self.rows[number_] = row
            self._changed[number_] = self.serial
        return row

    def drop(self, number_: int) -> None:
        """Forget the row of an id; its death is told to whoever may have seen it."""
        if self.rows.pop(number_, None) is not None:
            del self._changed[number_]
            self.serial += 1
            self._gone.append(number_)
            self._gone_at.append(self.serial)
            if len(self._gone) > GONE_LIMIT:
                self._forget_one()

    def _forget_one(self) -> None:
        self._gone.popleft()
        self._forgotten = self._gone_at.popleft()

    def since(self, serial: int) -> Generator[None, None, List[bytes]]:
        """Return the rows that changed after `serial`; yields between pieces, in which no row may change."""
        changed: List[bytes] = []
        for number_, at in reversed(self._changed.items()):
            if at <= serial:
                break
            changed.append(self.rows[number_])
            if not len(changed) % CHUNK:
                yield
        changed.reverse()
        return changed

    def gone_since(self, serial: int) -> Generator[None, None, List[int]]:
        """Return the ids that left after `serial`; yields as well."""
        gone: List[int] = []
        for at, number_ in zip(reversed(self._gone_at), reversed(self._gone)):
            if at <= serial:
                break
            gone.append(number_)
            if not len(gone) % CHUNK:
                yield
        return gone

    def remembers(self, serial: int) -> bool:
        """Whether every death after `serial` is still known, or was never to be told; else the reader starts anew."""
        return serial == 0 or serial >= self._forgotten

    def forget_gone(self, serial: int) -> Work:
        """Drop the deaths that every reader has been told; yields between pieces."""
        dropped = 0
        while self._gone and self._gone_at[0] <= serial:
            self._forget_one()
            dropped += 1
            if not dropped % CHUNK:
                yield

    def bloated(self) -> bool:
        """Whether a dictionary holds far more entries than rows can use."""
        limit = 4 * len(self.rows) + 10_000
        return any(one is not None and len(one.entries) > limit for one in self.dictionaries)

    def compact(self) -> Work:
        """Start the dictionaries anew with the values in use; every reader then needs a reset.

        The rows must not change while this is under way. Batches that were taken keep the old rows and dictionaries.
        """
        fresh = [None if one is None else Dictionary() for one in self.dictionaries]
        rows = {}
        for number_, row in self.rows.items():
            cells = array("q", row)
            for place, (old, new) in enumerate(zip(self.dictionaries, fresh)):
                if old is not None and new is not None and cells[place] != NONE:
                    cells[place] = new.index(old.entries[cells[place]])
            rows[number_] = cells.tobytes()
            yield
        self.dictionaries, self.rows = fresh, rows
        self.epoch += 1


class Reader:
    """How far one connection has been told of one table."""

    def __init__(self, table: Table) -> None:
        """Start with nothing told."""
        self.table = table
        self.epoch = table.epoch
        self.serial = 0
        self._told = [0] * len(table.columns)

    @property
    def stale(self) -> bool:
        """Whether the connection must be reset before it can go on."""
        return self.epoch != self.table.epoch or not self.table.remembers(self.serial)

    def restart(self) -> None:
        """Begin anew, after a reset message."""
        self.__init__(self.table)  # type: ignore[misc]

    def batch(self) -> Generator[None, None, "Batch"]:
        """Take what changed since the last batch; the connection counts as told from then on.

        Yields between pieces, in which no row may change.
        """
        rows = yield from self.table.since(self.serial)
        gone = yield from self.table.gone_since(self.serial)
        batch = Batch(self.table, rows, gone, self._told)
        self.serial = self.table.serial
        return batch


class Batch:
    """What one connection is to be told of one table, encoded frame by frame as the connection takes it."""

    def __init__(self, table: Table, rows: List[bytes], gone: List[int], told: List[int]) -> None:
        """Keep the rows and the dictionaries as they are now."""
        self._name = table.name
        self._columns = table.columns
        self._dictionaries = table.dictionaries
        self._rows = rows
        self._gone = gone
        self._told = told
        self._at = 0
        self._payload = b""  # the rows that are next,
        self._tops: List[int] = []  # and how much of each dictionary they need

    def next_frame(self) -> bytes:
        """Return the next frame, b"" when there is no more.

        The entries travel in order, so those that no row uses any more do too. Where there are many, frames without
        rows go ahead with them.
        """
        if self._gone:
            chunk, self._gone = self._gone[:8192], self._gone[8192:]
            return encode({"t": "gone", "table": self._name, "n": len(chunk)}, array("q", chunk).tobytes())
        rows = self._rows[self._at : self._at + CHUNK]
        if not rows:
            return b""
        if not self._payload:
            self._payload = b"".join(rows)
            cells = array("q", self._payload)
            self._tops = [max(cells[place :: len(self._columns)]) + 1 for place in range(len(self._columns))]
        values, whole = self._entries()
        if not whole:
            return encode({"t": "rows", "table": self._name, "n": 0, "values": values})
        payload, self._payload = self._payload, b""
        self._at += len(rows)
        return encode({"t": "rows", "table": self._name, "n": len(rows), "values": values}, payload)

    def _entries(self) -> Tuple[Dict[str, List[Any]], bool]:
        """Return what is to be told next of the dictionaries, and whether that is all that the next rows need."""
        values: Dict[str, List[Any]] = {}
        entries, text = MOST_ENTRIES, MOST_TEXT
        for place, ((column, _), dictionary) in enumerate(zip(self._columns, self._dictionaries)):
            told, top = self._told[place], self._tops[place]
            if dictionary is None or told >= top:
                continue
            if entries <= 0 or text <= 0:
                return values, False
            end = told
            while end < top and entries > 0 and text > 0:
                text -= length(dictionary.entries[end])
                entries -= 1
                end += 1
            values[column] = dictionary.entries[told:end]
            self._told[place] = end
            if end < top:
                return values, False
        return values, True
