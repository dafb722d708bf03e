"""Everything about the selected tensor, each field with a few words on what it means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest
from textwrap import wrap

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tensortui.analysis.text import width
from tensortui.analysis.units import format_bytes, format_share
from tensortui.model import Storage, Tensor
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.groups import Group
from tensortui.ui.lines import BACKING_WORDS, short_share, show, storage_warning, tensors_text, used_share
from tensortui.ui.markup import Piece, content
from tensortui.ui.relations import FLAGS, relation
from tensortui.ui.rows import Rows

LABEL = 15
HINT = 22  # the values before explanations that stand beside them
MATES = 8
LEAF = {
    True: "made by you, not by an operation that autograd follows",
    False: "the result of an operation that autograd follows",
}
NAMES = 6


def yes_no(value: bool | None) -> str:
    """A fact that may be unknown."""
    return "n/a" if value is None else "yes" if value else "no"


class Inspection:
    """Writes the lines about one tensor."""

    def __init__(self, rows: Rows, feed: Feed, glyphs: Glyphs) -> None:
        """Look things up in `rows`, and what was found about them in `feed`."""
        self._rows = rows
        self._feed = feed
        self._glyphs = glyphs
        self._pieces: list[Piece] = []
        self._room = 40

    def _field(self, label: str, value: str, hint: str = "", style: str = "$strong") -> None:
        shown = show(value, self._glyphs)
        self._pieces += [(f" {label:<{LABEL}}", "$dim"), (shown, style)]
        if hint and len(hint) + 2 + max(width(shown), HINT) + LABEL + 1 <= self._room:
            self._pieces.append((f"{'':<{max(HINT - width(shown), 0)}}  {hint}", "$dim"))
        elif hint:
            for line in wrap(hint, max(self._room - 4, 20)):
                self._pieces.append((f"\n   {line}", "$dim italic"))
        self._pieces.append(("\n", ""))

    def _title(self, text: str) -> None:
        self._pieces.append((f"\n {text}\n", "bold $primary"))

    def of_tensor(self, tensor: Tensor, room: int) -> Content:
        """All of it, as text for lines of `room` cells: explanations beside the values where they fit, else below."""
        self._room = room
        glyph = self._glyphs.category.get(tensor.category, "?")
        self._pieces = [(f" {show(name_text(tensor), self._glyphs)}\n", "bold $strong")]
        for name in tensor.names[1:NAMES]:
            self._pieces.append((f" {self._glyphs.equals} {show(name, self._glyphs)}\n", ""))
        if len(tensor.names) > NAMES:
            self._pieces.append((f" and {len(tensor.names) - NAMES} more names\n", "$dim"))
        self._pieces.append((f" {glyph} {tensor.category}\n", f"$cat-{tensor.category}"))
        if tensor.id in self._rows.ghosts:
            self._pieces.append((f" {self._glyphs.gone} gone: what follows is from the sample before\n", "$error"))
        if words := relation(tensor, self._rows):
            for line in wrap(show(words, self._glyphs), max(self._room - 2, 20)):
                self._pieces.append((f" {line}\n", "bold $strong"))
        together = len(self._rows.bundles.get(tensor.id, ()))
        if together:
            self._pieces.append((f" {together} of them read the same: enter on the row shows each\n", "$dim"))
        self._findings(tensor.storage, tensor.id)
        self._title("what it is")
        self._field("type", tensor.type or "n/a")
        self._field("shape", dims_text(tensor.shape), "elements along each dimension")
        self._field("dtype", tensor.dtype or "n/a")
        self._field("device", tensor.device or "n/a")
        self._field("bytes", format_bytes(tensor.bytes), "elements times the size of one")
        if tensor.distinct_bytes != tensor.bytes:
            self._field(
                "distinct bytes", format_bytes(tensor.distinct_bytes), "each address counted once: expand repeats"
            )
        self._title("where it lies")
        self._field("strides", dims_text(tensor.strides), "elements to skip for the next index of each dimension")
        self._field(
            "offset",
            "n/a" if tensor.offset is None else str(tensor.offset),
            "elements before its first one in the storage",
        )
        contiguous = yes_no(tensor.contiguous)
        self._field("contiguous", contiguous, "no: view() may fail and reshape() copies" if contiguous == "no" else "")
        self._field("memory format", tensor.memory_format or "n/a")
        self._field("layout", tensor.layout or "n/a")
        for at, flag in enumerate(tensor.flags):
            self._field("" if at else "flags", flag, FLAGS.get(flag, ""))
        self._title("autograd")
        self._field("requires_grad", yes_no(tensor.requires_grad))
        self._field("is_leaf", yes_no(tensor.is_leaf), LEAF[tensor.is_leaf] if tensor.is_leaf is not None else "")
        self._field("grad_fn", tensor.grad_fn or "none", "the operation that backward undoes" if tensor.grad_fn else "")
        self._field(
            "version",
            "n/a" if tensor.version is None else str(tensor.version),
            "in-place changes so far; backward checks it",
        )
        if not tensor.python:
            self._field("held by", "C++ only", "no Python variable refers to it")
        self._title("its storage")
        storage = self._rows.storage(tensor.storage)
        if storage is None:
            self._pieces.append((" none: it holds no memory of its own\n", "$dim"))
        else:
            self._storage(storage, tensor.id)
        return content(self._pieces)

    def of_storage(self, storage: Storage, room: int) -> Content:
        """A storage and the tensors on it."""
        self._room = room
        self._pieces = [
            (f" storage of {format_bytes(storage.bytes)} on {show(storage.device, self._glyphs)}\n", "bold $strong")
        ]
        self._findings(storage.id, None)
        self._title("what it is")
        self._storage(storage, None)
        return content(self._pieces)

    def of_group(self, group: Group, room: int) -> Content:
        """A group of the table: how much of what, and its largest tensors."""
        self._room = room
        rows = self._rows
        tensors = [tensor for tid in rows.members.get(group.key, ()) if (tensor := rows.tensor(tid)) is not None]
        size, whole = rows.group_bytes(group.key), rows.accounts.totals.bytes
        self._pieces = [(f" {show(group.key, self._glyphs)}\n", "bold $strong")]
        self._pieces.append((f" a group by {rows.view.group_by}: enter opens it\n", "$dim"))
        self._title("what is in it")
        self._field("tensors", str(len(tensors)))
        storages = {tensor.storage for tensor in tensors} - {None}
        share = f"{format_bytes(size)}  {short_share(size / whole if whole and size is not None else None)} of all"
        self._field("on storages", str(len(storages)), "one that other groups lie on too counts in each of them")
        self._field("of bytes", share)
        for name, count in Counter(tensor.category for tensor in tensors).most_common():
            glyph = self._glyphs.category.get(name, "?")
            self._pieces.append((f" {glyph} {name:<{LABEL - 2}}", f"$cat-{name}"))
            self._pieces.append((f"{tensors_text(count)}\n", ""))
        self._title("its largest")
        for tensor in nlargest(MATES, tensors, key=lambda tensor: tensor.bytes or 0):
            self._pieces.append((f" {format_bytes(tensor.bytes):>10}  ", "$dim"))
            self._pieces.append((f"{show(name_text(tensor), self._glyphs)}\n", ""))
        return content(self._pieces)

    def _findings(self, storage: int | None, tensor: int | None) -> None:
        """What the findings say of it."""
        for finding in self._feed.findings:
            if storage not in finding.storages and tensor not in finding.tensors:
                continue
            sign = "" if finding.severity == "note" else f"{self._glyphs.warn} "
            style = "" if finding.severity == "note" else "bold $warning"
            for at, text in enumerate((f"{sign}{finding.title}.", finding.advice)):
                for line in wrap(show(text, self._glyphs), max(self._room - 2, 20)):
                    self._pieces.append((f" {line}\n", "" if at else style))

    def _storage(self, storage: Storage, apart_from: int | None) -> None:
        account = self._rows.accounts.account(storage.id)
        share = used_share(storage, account)
        self._field("bytes", format_bytes(storage.bytes), "what stays allocated while any of its tensors lives")
        live = account.live_bytes if account is not None else None
        bar = "".join(self._glyphs.bar(share, 10))
        self._field("in use", f"{format_bytes(live)}  {bar} {format_share(share)}")
        if account is not None and (warning := storage_warning(account, self._rows.thresholds)):
            self._field("", f"{self._glyphs.warn} {warning}", "clone() the view to let the rest go", "bold $warning")
        self._field("address", f"0x{storage.address:x}" if storage.address else "none")
        self._field("backing", BACKING_WORDS.get(storage.backing, storage.backing))
        others = [tid for tid in account.tensors if tid != apart_from] if account is not None else []
        if account is not None and account.counted < account.bytes and account.backing != "none":
            shared = format_bytes(account.bytes - account.counted)
            self._field("", f"{shared} of it lie under another storage too", "counted there")
        if others:
            self._pieces.append((f" {'shared with' if apart_from else 'tensors on it:'} {len(others)}\n", "$dim"))
        for mate in filter(None, map(self._rows.tensor, others[:MATES])):
            self._pieces += [
                (f"   {show(name_text(mate), self._glyphs)}", ""),
                (f"  {dims_text(mate.shape)}\n", "$dim"),
            ]
        if len(others) > MATES:
            self._pieces.append((f"   and {len(others) - MATES} more\n", "$dim"))


class Inspector(VerticalScroll, can_focus=False):
    """A side panel on wide terminals, a lower one on narrow ones."""

    DEFAULT_CSS = """
    Inspector { width: 48; height: 1fr; border-left: solid $border; background: $surface;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    Inspector.-below { width: 1fr; height: 45%; border-left: none; border-top: solid $border; }
    Inspector Static { height: auto; }
    """

    def __init__(self, rows: Rows, feed: Feed, glyphs: Glyphs) -> None:
        """Look things up in `rows` and `feed`."""
        super().__init__()
        self._inspection = Inspection(rows, feed, glyphs)
        self._text = Static("", markup=False)
        self._shown: object = None
        self._record: Tensor | Storage | Group | None = None
        self._written = 0

    def compose(self) -> Iterator[Static]:
        """One text that scrolls."""
        yield self._text

    def on_resize(self) -> None:
        """Write for the new width."""
        # Writing may bring up a scroll bar, which is a resize too: only another width is written for.
        if self._record is not None and self._room() != self._written:
            self.show_record(self._record)

    def _room(self) -> int:
        return max((self.size.width or 46) - 1, 24)

    def show_record(self, record: Tensor | Storage | Group | None) -> None:
        """Tell of a tensor, a storage or another group; None says how to choose one."""
        if isinstance(record, Tensor):
            self._text.update(self._inspection.of_tensor(record, self._room()))
        elif isinstance(record, Group):
            self._text.update(self._inspection.of_group(record, self._room()))
        elif record is not None:
            self._text.update(self._inspection.of_storage(record, self._room()))
        else:
            self._text.update(content([(" select a tensor or a storage to see its details\n", "$dim")]))
        self._record, self._written = record, self._room()
        shown = (type(record), record.id if record is not None else None)
        if shown != self._shown:
            self._shown = shown
            self.scroll_home(animate=False)
