"""Compare two saved JSON documents: which tensors there are more of, and which less.

A and B are files that `tensortui snapshot PID --json` wrote; `-` for one of them is standard input. Tensors are matched
by what they are (shape, dtype, device, category, name without its numbers), never by id or address, so the documents
may be of one process at two moments, or of two runs of a program.
"""

from __future__ import annotations

import argparse
import gc
import sys
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensortui.errors import UsageError

if TYPE_CHECKING:
    from tensortui.analysis.difference import Counts, Difference
    from tensortui.analysis.saved_document import SavedDocument

LARGEST_FILE = 1 << 30  # what no document reaches that a terminal shows anything of
STDIN = "-"
MOST_GROUPS = 40
HEADINGS = ("bytes", "tensors", "storages", "shape", "dtype", "device", "category", "names")
RIGHT = ("bytes", "tensors", "storages")
GIVE_WAY = ("device", "storages", "dtype", "category")  # in this order, to the names on a narrow terminal
SAVE = "Save one with `tensortui snapshot PID --json > FILE`."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui diff`."""
    parser.add_argument("a", metavar="A", help="the document to start from")
    parser.add_argument("b", metavar="B", help="the one to compare with it")
    parser.add_argument("--json", action="store_true", help="print JSON (schema 1) instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Read both, and print what differs."""
    if arguments.a == arguments.b == STDIN:
        raise UsageError("Standard input cannot be both documents.", "Give a file for one of them.")
    from tensortui.analysis.difference import as_json, difference

    gc.disable()  # it would go through all of both documents again and again, and find nothing
    a, b = read(arguments.a), read(arguments.b)
    found = difference(a, b)
    if arguments.json:
        from tensortui.analysis.document import dumps

        print(dumps(as_json(found, _who(arguments.a, a), _who(arguments.b, b)), indent=2))
    else:
        from tensortui.cli.table import terminal_width

        print("\n".join(lines(found, (arguments.a, a), (arguments.b, b), terminal_width())))
    return 0


def read(name: str) -> SavedDocument:
    """The document in the file `name`. Raises UsageError with what is wrong about it."""
    from tensortui.analysis.saved_document import DocumentError, decode

    shown = "Standard input" if name == STDIN else name
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(LARGEST_FILE + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror or error}.", SAVE) from None
    if len(data) > LARGEST_FILE:
        raise UsageError(f"{shown} is larger than 1 GiB, which no document is.", SAVE)
    try:
        return decode(data)
    except DocumentError as error:
        raise UsageError(f"{shown} {error}.", SAVE) from None


def _who(name: str, document: SavedDocument) -> dict[str, Any]:
    moment = document.moment
    taken = None if moment is None else moment.isoformat().replace("+00:00", "Z")
    return {"file": name, "taken_at": taken, "pid": document.process.pid}


def lines(found: Difference, a: tuple[str, SavedDocument], b: tuple[str, SavedDocument], width: int) -> list[str]:
    """What differs, as a table at most `width` characters wide: first what grew, at the end what shrank."""
    from tensortui.analysis.difference import grown_and_shrunk
    from tensortui.analysis.text import pad, safe
    from tensortui.analysis.text import width as cells
    from tensortui.analysis.units import format_bytes, format_many
    from tensortui.cli.table import fitting

    names = ["standard input" if name == STDIN else safe(name) for name, _ in (a, b)]
    longest = max(map(cells, (*names, "change")))
    out = []
    for name, (_, document), counts in zip(names, (a, b), (found.a, found.b), strict=True):
        size = (
            f"{_count(counts.tensors, 'tensor')} on {_count(counts.storages, 'storage')}, {format_bytes(counts.bytes)}"
        )
        out.append(f"{pad(name, longest)}  {_moment(document)}{size}")
    out.append(f"{pad('change', longest)}  {_change(found)}")
    if a[1].process.pid != b[1].process.pid:
        out.append(f"{'':<{longest}}  these are two processes: {a[1].process.pid} and {b[1].process.pid}")
    if not found.groups:
        return [*out, "", "There are as many tensors, storages and bytes of each group in both."]
    rows: list[tuple[str, ...]] = []
    for group in grown_and_shrunk(found, MOST_GROUPS):
        if isinstance(group, int):
            rows.append(
                ("...", "", "", "", "", "", "", f"{format_many(group, 'group')} of less difference: --json has them")
            )
            continue
        kind, change = group.kind, group.change
        shape = "n/a" if kind.shape is None else str(kind.shape)
        columns = (shape, safe(kind.dtype or "n/a"), safe(kind.device or "n/a"), safe(kind.category))
        amounts = (signed_bytes(change.bytes), _signed(change.tensors), _signed(change.storages))
        rows.append((*amounts, *columns, safe(", ".join(group.names)) or "(no name)"))
    return [*out, "", *fitting(HEADINGS, rows, width, GIVE_WAY, RIGHT)]


def _moment(document: SavedDocument) -> str:
    moment = document.moment
    return "" if moment is None else f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC  "


def _change(found: Difference) -> str:
    from tensortui.analysis.units import format_age

    seconds = found.seconds
    when = "" if seconds is None else f" in {format_age(seconds)}"
    if seconds is not None and seconds < 0:
        when = f", though B was taken {format_age(-seconds)} before A"
    return f"{signed(found.totals)}{when}"


def signed(change: Counts) -> str:
    """+12 tensors, -1 storage, +1.00 MiB."""
    tensors, storages = _signed(change.tensors, "tensor"), _signed(change.storages, "storage")
    return f"{tensors}, {storages}, {signed_bytes(change.bytes)}"


def signed_bytes(size: int) -> str:
    """A size with its sign; 0 without."""
    from tensortui.analysis.units import format_bytes

    return f"+{format_bytes(size)}" if size > 0 else format_bytes(size)


def _signed(count: int, noun: str = "") -> str:
    number = f"{count:+,}" if count else "0"
    return f"{number} {noun}{'' if abs(count) == 1 else 's'}" if noun else number


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
