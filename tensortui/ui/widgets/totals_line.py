"""The totals: every byte counted once, by device and by what it is for."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content
from textual.widgets import Static

from tensortui.analysis.accounting import Totals
from tensortui.analysis.units import format_bytes, format_count
from tensortui.model import CATEGORIES
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import BACKING_WORDS, show
from tensortui.ui.markup import Piece, cells, spread

STRIP = 24
STRIP_FROM = 110  # cells of a line that has room for it


def strip(by_category: Mapping[str, int], cells: int, glyphs: Glyphs) -> list[Piece]:
    """A line of `cells` glyphs shared out among the categories by their bytes; what there is, shows."""
    whole = sum(by_category.values())
    if whole <= 0:
        return [(glyphs.rule * cells, "$faint")]
    present = [name for name in CATEGORIES if by_category.get(name, 0) > 0]
    counts = {name: max(1, int(by_category[name] / whole * cells)) for name in present}
    while sum(counts.values()) > cells and max(counts.values()) > 1:
        counts[max(counts, key=counts.__getitem__)] -= 1
    while sum(counts.values()) < cells:
        # The one that is furthest below its due share gets the cell.
        counts[max(present, key=lambda name: by_category[name] / whole * cells - counts[name])] += 1
    return [(glyphs.category[name] * counts[name], f"$cat-{name}") for name in present]


def lines(totals: Totals, glyphs: Glyphs, room: int) -> Content:
    """Both lines of the totals in `room` cells."""
    first: list[list[Piece]] = [
        [
            (f" {format_count(totals.tensors)}", "bold $strong"),
            (" tensor on " if totals.tensors == 1 else " tensors on ", ""),
            (format_count(totals.storages), "bold $strong"),
            (" storage, " if totals.storages == 1 else " storages, ", ""),
            (format_bytes(totals.bytes), "bold $strong"),
        ]
    ]
    first += [
        [(show(device, glyphs), "$dim"), (f" {format_bytes(size)}", "")]
        for device, size in sorted(totals.by_device.items(), key=lambda item: -item[1])
    ]
    inside = [(name, size) for name, size in totals.by_backing.items() if name in BACKING_WORDS and size]
    first += [
        [("of it " if at == 0 else "", "$dim"), (format_bytes(size), ""), (f" {BACKING_WORDS[name]}", "$dim")]
        for at, (name, size) in enumerate(inside)
    ]
    second: list[list[Piece]] = []
    if room >= STRIP_FROM:
        second.append([(" ", ""), *strip(totals.by_category, STRIP, glyphs)])
    for name in legend(totals.by_category, room - sum(cells(group) + 2 for group in second), glyphs):
        lead = " " if not second else ""
        second.append([(lead, ""), *_entry(name, totals.by_category, glyphs)])
    left_out = sum(totals.by_category.get(name, 0) > 0 for name in CATEGORIES) - len(second) + (room >= STRIP_FROM)
    if left_out:
        second.append([(more(left_out, glyphs), "$dim")])
    return _fitted(first, room, glyphs) + "\n" + spread(second, [], room)


def legend(by_category: Mapping[str, int], room: int, glyphs: Glyphs) -> list[str]:
    """The categories told of in `room` cells: in the order of the strip, the smallest left out where not all fit."""
    kept = [name for name in CATEGORIES if by_category.get(name, 0) > 0]
    whole = len(kept)
    while len(kept) > 1:
        taken = 1 + sum(cells(_entry(name, by_category, glyphs)) + 2 for name in kept)
        note = len(more(whole - len(kept), glyphs)) + 2 if len(kept) < whole else 0
        if taken + note <= room:
            break
        kept.remove(min(kept, key=by_category.__getitem__))
    return kept


def _entry(name: str, by_category: Mapping[str, int], glyphs: Glyphs) -> list[Piece]:
    return [(f"{glyphs.category[name]} {name}", f"$cat-{name}"), (f" {format_bytes(by_category[name])}", "")]


def more(count: int, glyphs: Glyphs) -> str:
    """How many are left out."""
    return f"{glyphs.ellipsis} {count} more"


def _fitted(groups: list[list[Piece]], room: int, glyphs: Glyphs) -> Content:
    """As many groups as fit, and how many do not."""
    for kept in range(len(groups), 0, -1):
        note = [[(more(len(groups) - kept, glyphs), "$dim")]] if kept < len(groups) else []
        if sum(cells(group) + 2 for group in (*groups[:kept], *note)) <= room:
            return spread([*groups[:kept], *note], [], room)
    return spread(groups[:1], [], room)


class TotalsLine(Static):
    """Two lines of totals."""

    DEFAULT_CSS = "TotalsLine { height: 2; color: $foreground; text-wrap: nowrap; }"

    def __init__(self, glyphs: Glyphs) -> None:
        """Start empty."""
        super().__init__("", markup=False)
        self._glyphs = glyphs
        self._totals = Totals()

    def show_totals(self, totals: Totals) -> None:
        """Say these totals."""
        if totals != self._totals:
            self._totals = totals
            self._paint()

    def on_resize(self) -> None:
        """Fit the new width."""
        self._paint()

    def _paint(self) -> None:
        self.update(lines(self._totals, self._glyphs, self.size.width))
