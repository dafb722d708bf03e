"""The lines of the tensor table as pieces of text, each with the name of its style. Pure: rows in, glyphs out."""

from __future__ import annotations

from typing import Any

from tensortui.analysis.accounting import Account
from tensortui.analysis.findings import Thresholds
from tensortui.analysis.text import pad, safe, shorten, truncate, width
from tensortui.analysis.units import format_bytes, format_many
from tensortui.model import LIVE, Storage, Tensor
from tensortui.ui.columns import BAR_WITH_SHARE, CATEGORY, NAME, Column, Layout, more_names, name_text
from tensortui.ui.glyphs import ASCII, Glyphs
from tensortui.ui.groups import STORAGE, View
from tensortui.ui.relations import relation
from tensortui.ui.rows import Rows

Piece = tuple[str, str]  # text and style: "" is the usual one
Line = list[Piece]
LEAST_WORDS = 8  # cells behind a name from which on they say what it is a view of


def show(text: str, glyphs: Glyphs) -> str:
    """A string of the target as it may stand on this terminal."""
    text = safe(text)
    if glyphs is ASCII and not text.isascii():
        text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text


def fit(text: str, cells: int, glyphs: Glyphs, *, right: bool = False, keep: str = "start") -> str:
    """`text` in exactly `cells`, cut where it must be."""
    return pad(truncate(text, cells, ellipsis=glyphs.ellipsis, keep=keep), cells, right=right)


class Lines:
    """Draws the rows of one table."""

    def __init__(self, rows: Rows, glyphs: Glyphs) -> None:
        """Draw `rows` with `glyphs`."""
        self.rows = rows
        self.glyphs = glyphs

    def header(self, layout: Layout, view: View) -> Line:
        """The column titles; the one that is sorted by carries an arrow, in place of its last letter where need be."""
        arrow = self.glyphs.descending if view.reverse else self.glyphs.ascending
        pieces: Line = [(fit(f"   {self.rows.view.group_by}", layout.storage, self.glyphs), "header")]
        for column in (NAME, *layout.columns):
            cells = layout.cell_width(column)
            if column.key != view.sort_by:
                pieces += [(fit(column.title, cells, self.glyphs, right=column.right), "header"), (" ", "header")]
                continue
            title = f"{column.title} {arrow}"
            if len(title) > cells:
                title = column.title[: cells - 1] + arrow
            pieces += [(fit(title, cells, self.glyphs, right=column.right), "sorted"), (" ", "sorted")]
        return pieces

    def row(self, row: int, layout: Layout, mark: str = "") -> Line:
        """The line of a row; `mark` is "new", "changed" or "gone" for a moment."""
        if row < 0:
            return self._group(row, layout)
        tensor = self.rows.tensor(row)
        if tensor is None:
            return []
        pieces = self._lead(tensor, layout, mark)
        for column in (NAME, *layout.columns):
            if column is NAME:
                pieces += self._name(tensor, layout.name, self._style(tensor, column, mark))
            else:
                pieces.append((self._cell(tensor, column, layout), self._style(tensor, column, mark)))
            pieces.append((" ", ""))
        return pieces

    def nothing(self) -> str:
        """Why the table has no rows."""
        sample = self.rows.sample
        words = "no tensor passes this filter: esc clears it"
        if sample is None:
            return words
        if sample.phase != LIVE:
            return f"{words}; the first scan goes on, more tensors and names are to come"
        wanted = self.rows.view.filter
        if wanted is None or not wanted.by_name:
            return words
        unnamed = sum(not tensor.names for tensor in sample.tensors.values())
        return f"{words}; {tensors_text(unnamed)} could not be asked, having no name (yet)" if unnamed else words

    # -- the parts of a line

    def _mark(self, mark: str) -> Piece:
        return (getattr(self.glyphs, mark), mark) if mark else (" ", "")

    def _lead(self, tensor: Tensor, layout: Layout, mark: str) -> Line:
        if not self.rows.is_top(tensor):
            return [self._mark(mark), (" " * (layout.storage - 1), "")]
        storage = self.rows.storage(tensor.storage)
        if storage is None:
            return [self._mark(mark), (fit("  no storage", layout.storage - 1, self.glyphs), "dim")]
        account = self.rows.accounts.account(storage.id)
        return [self._mark(mark), ("  ", ""), *self._bar(storage.bytes, used_share(storage, account), layout)]

    def _bar(self, size: int | None, share: float | None, layout: Layout, style: str = "") -> Line:
        filled, rest = self.glyphs.bar(share, layout.bar)
        style = style or ("low" if share is not None and share < 0.5 else "bar")
        pieces: Line = [
            (format_bytes(size).rjust(10) + " ", "bytes"),
            (filled, style),
            (rest, "rest"),
        ]
        if layout.bar >= BAR_WITH_SHARE:
            pieces.append((f" {short_share(share):>5} ", "dim" if share is not None else "rest"))
        pieces.append((" ", ""))
        return pieces

    def _cell(self, tensor: Tensor, column: Column, layout: Layout) -> str:
        cells = layout.cell_width(column)
        return fit(show(column.text(tensor, self.glyphs), self.glyphs), cells, self.glyphs, right=column.right)

    def _name(self, tensor: Tensor, cells: int, style: str) -> Line:
        """The name, marked where it is that of a view, and where there is room what it is a view or the base of."""
        words = show(relation(tensor, self.rows), self.glyphs)
        top = self.rows.is_top(tensor)
        lead = "" if top else f"{self.glyphs.view} " if "view" in tensor.flags else "  "
        if not tensor.names and "base-only" in tensor.flags and words:
            return [(lead, "dim"), (fit(words, cells - len(lead), self.glyphs), style)]
        together = len(self.rows.bundles.get(tensor.id, ()))
        count = f"{together} x " if together else ""
        more = more_names(tensor, self.glyphs)
        if more and width(name_text(tensor)) + len(more) > cells - len(lead):
            more = f" +{len(tensor.names) - 1} name{'' if len(tensor.names) == 2 else 's'}"
        room = cells - len(lead) - len(count) - len(more)
        name = shorten(show(name_text(tensor), self.glyphs), room, ellipsis=self.glyphs.ellipsis)
        left = room - width(name) - 2
        if left < LEAST_WORDS or (width(words) > left and "view" not in tensor.flags):
            words = ""  # half a number of views would be another one
        tail = f"  {truncate(words, left, ellipsis=self.glyphs.ellipsis)}" if words else ""
        text = pad(tail, max(cells - len(lead) - len(count) - width(name) - len(more), 0))
        return [(lead, "dim"), (count, ""), (name + more, style), (text, "dim")]

    def _style(self, tensor: Tensor, column: Column, mark: str) -> str:
        if mark == "gone":
            return "gone" if column is NAME else "dim"
        if column.key == CATEGORY.key:
            return tensor.category if tensor.category in self.glyphs.category else ""
        if column is NAME:
            return "name" if tensor.names else "dim"
        return "dim" if column.priority >= 5 else ""

    def _group(self, row: int, layout: Layout) -> Line:
        key: Any = self.rows.key_at(row)
        members = self.rows.members.get(key, [])
        arrow = " " if not members else self.glyphs.opened if self.rows.is_open(key) else self.glyphs.closed
        pieces: Line = [(" ", ""), (f"{arrow} ", "dim")]
        if self.rows.view.group_by != STORAGE:
            size = self.rows.group_bytes(key)
            whole = self.rows.accounts.totals.bytes
            share = size / whole if whole and size is not None else 0.0
            pieces += self._bar(size, share, layout, "bar")
            category = self.rows.view.group_by == "category" and key in self.glyphs.category
            glyph = f"{self.glyphs.category[key]} " if category else ""
            style = key if category else "name"
            of_all = "bytes not known" if size is None else f"on {short_share(share)} of all bytes"
            words = f"{tensors_text(len(members))}, {of_all}"
            if self.rows.shares_storages(key):
                words += "; some storages are in other groups too"
            pieces += [(glyph + show(str(key), self.glyphs), style), (f"   {words}", "dim")]
            return self._filled(pieces, layout)
        storage = self.rows.storage(key)
        if storage is None:
            pieces += [(fit("storage gone", layout.storage - 3, self.glyphs), "gone")]
            return self._filled(pieces, layout)
        account = self.rows.accounts.account(key)
        pieces += self._bar(storage.bytes, used_share(storage, account), layout)
        pieces += self._storage_words(storage, account, members)
        return self._filled(pieces, layout)

    def _storage_words(self, storage: Storage, account: Account | None, members: list[int]) -> Line:
        tensors = [tensor for tid in members if (tensor := self.rows.tensor(tid)) is not None]
        whole = len(account.tensors) if account is not None else len(tensors)
        pieces: Line = [(f"{show(storage.device, self.glyphs)}  ", "")]
        if whole > len(tensors):
            pieces.append((f"{len(tensors)} of {tensors_text(whole)}", "dim"))
        else:
            pieces.append((tensors_text(whole), "dim"))
        if views := sum("view" in tensor.flags for tensor in tensors):
            words = f"{'a' if len(tensors) == 1 else 'one a'} view" if views == 1 else f"{views} of them views"
            pieces.append((f", {words}", "dim"))
        names = sum(len(tensor.names) for tensor in tensors)
        if names > len(tensors):
            pieces.append((f", {names} names", "dim"))
        if storage.backing != "memory":
            pieces.append((f"  {BACKING_WORDS.get(storage.backing, storage.backing)}", "dim"))
        if warning := storage_warning(account, self.rows.thresholds):
            pieces.append((f"  {self.glyphs.warn} {warning}", "warning"))
        elif tensors and not self.rows.is_open(storage.id):
            pieces.append((f"  {show(tensors[0].names[0], self.glyphs) if tensors[0].names else ''}", "dim"))
        return pieces

    def _filled(self, pieces: Line, layout: Layout) -> Line:
        """`pieces` cut to the width of the line."""
        out: Line = []
        room = layout.width
        for text, style in pieces:
            cells = width(text)
            if cells > room:
                out.append((truncate(text, room, ellipsis=self.glyphs.ellipsis), style))
                break
            out.append((text, style))
            room -= cells
        return out


BACKING_WORDS = {"shared": "shared memory", "file": "mapped from a file", "none": "holds no memory"}


def used_share(storage: Storage, account: Account | None) -> float | None:
    """The share of a storage that live tensors can reach; None where that is unknown, or there is no memory."""
    if account is None or account.live_bytes is None or not storage.bytes or storage.backing == "none":
        return None
    return account.live_bytes / storage.bytes


def short_share(share: float | None) -> str:
    """A share in at most five characters."""
    if share is None:
        return "n/a"
    if share >= 0.995 or share == 0:
        return f"{share:.0%}"
    return f"{share * 100:.0f}%" if share >= 0.1 else f"{share * 100:.1f}%" if share >= 0.001 else "<0.1%"


def tensors_text(count: int) -> str:
    """1 tensor, 12 tensors."""
    return format_many(count, "tensor")


def storage_warning(account: Account | None, thresholds: Thresholds) -> str:
    """What is wrong with a storage in a few words, "" when nothing is."""
    if account is None or not thresholds.retains(account):
        return ""
    what = "a view" if account.held_by == 1 else f"{account.held_by} views"
    return f"kept by {what} of {format_bytes(account.live_bytes)}"
