"""The lines of the Growth screen: each group that grew, and all that is known of one. Pure: rows in, text out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from tensortui.analysis.deepening import Depth
from tensortui.analysis.findings import Finding
from tensortui.analysis.growth import Comparison, Grown
from tensortui.analysis.text import shorten
from tensortui.analysis.units import format_age, format_bytes, format_number
from tensortui.model import Tensor
from tensortui.ui.columns import dims_text, dtype_text, name_text
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import Line, fit, show, tensors_text
from tensortui.ui.markup import Piece

LEAST_NAME = 22
TREND = 12
LONG_TREND = 48
SORTS = ("bytes", "tensors")


class Column(NamedTuple):
    """One column beside the name. Those of a low priority come first where there is little room."""

    title: str
    width: int
    priority: int
    text: Callable[[Grown, Glyphs], str]
    style: str = ""
    right: bool = True


def shape_text(row: Grown) -> str:
    """The shape, or how many of them there are."""
    return dims_text(row.kind.shape) if row.shapes == 1 else f"{row.shapes} shapes"


def _more(count: int, cells: int) -> str:
    return f"+{format_number(count, cells - 1)}" if count > 0 else format_number(count, cells)


def _more_bytes(size: int) -> str:
    return f"+{format_bytes(size)}" if size > 0 else format_bytes(size)


def _rate(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.2f}" if abs(value) < 100 else format_number(round(value), 8)


def _tensors(rate: float) -> str:
    shown = f"{rate:.3g}"
    return f"{shown} tensor" if shown == "1" else f"{shown} tensors"


def more_tensors(row: Grown) -> int:
    """How many tensors more there are than at first."""
    return row.now.tensors - row.start.tensors


def more_bytes(row: Grown) -> int:
    """How many bytes more they have than at first."""
    return row.now.bytes - row.start.bytes


COLUMNS = (
    Column("shape", 16, 4, lambda row, glyphs: shape_text(row), right=False),
    Column("dtype", 6, 9, lambda row, glyphs: dtype_text(row.kind.dtype), "dim", right=False),
    Column("device", 7, 10, lambda row, glyphs: row.kind.device or "n/a", "dim", right=False),
    Column("cat", 3, 6, lambda row, glyphs: glyphs.category.get(row.kind.category, "?"), "category", right=False),
    Column("tensors", 8, 7, lambda row, glyphs: format_number(row.now.tensors, 8)),
    Column("bytes", 10, 8, lambda row, glyphs: format_bytes(row.now.bytes), "bytes"),
    Column("more", 7, 0, lambda row, glyphs: _more(more_tensors(row), 7), "name"),
    Column("more bytes", 11, 0, lambda row, glyphs: _more_bytes(more_bytes(row)), "name"),
    Column("bytes/s", 10, 2, lambda row, glyphs: format_bytes(round(row.bytes_per_second))),
    Column("tensors/s", 9, 3, lambda row, glyphs: _rate(row.count_per_second)),
    Column("/step", 8, 5, lambda row, glyphs: _rate(row.count_per_step)),
    Column("trend", TREND, 1, lambda row, glyphs: glyphs.curve(row.trend, TREND), "trend", right=False),
)


def columns_for(room: int, glyphs: Glyphs) -> tuple[int, list[Column]]:
    """The cells of the name, and the columns that there is room for beside it."""
    left = room - len(glyphs.warn) - 2
    chosen = set()
    for column in sorted(COLUMNS, key=lambda one: one.priority):
        if left - column.width - 1 >= LEAST_NAME or column.priority == 0:
            left -= column.width + 1
            chosen.add(column.title)
    return max(left, 8), [column for column in COLUMNS if column.title in chosen]


def heading(room: int, glyphs: Glyphs, sort: str) -> Line:
    """The column titles; an arrow stands at the one that is sorted by."""
    name, columns = columns_for(room, glyphs)
    sorted_by = {"bytes": "more bytes", "tensors": "more"}[sort]
    pieces: Line = [(" " * (len(glyphs.warn) + 2), "header"), (fit("group", name, glyphs), "header")]
    for column in columns:
        here = column.title == sorted_by
        gap, style = (glyphs.descending, "sorted") if here else (" ", "header")
        title = fit(column.title, column.width, glyphs, right=column.right)
        pieces += [(gap, style), (title, style)] if column.right else [(" ", "header"), (title, style)]
    return pieces


def line(row: Grown, room: int, glyphs: Glyphs, told: bool) -> Line:
    """The line of a group; one that is a finding carries the sign for it."""
    name, columns = columns_for(room, glyphs)
    sign = glyphs.warn if told else " " * len(glyphs.warn)
    shown = shorten(show(row.kind.name or "(no name)", glyphs), name, ellipsis=glyphs.ellipsis)
    pieces: Line = [(f" {sign} ", "warning"), (fit(shown, name, glyphs), "name" if row.kind.name else "dim")]
    for column in columns:
        style = row.kind.category if column.style == "category" else column.style
        text = fit(show(column.text(row, glyphs), glyphs), column.width, glyphs, right=column.right)
        pieces += [(" ", ""), (text, style)]
    return pieces


def ordered(rows: Collection[Grown], sort: str) -> list[Grown]:
    """The rows: those that rise all the time first, of each sort what grew most."""
    if sort == "tensors":
        return sorted(rows, key=lambda row: (not row.steady, -row.count_per_second, row.kind.name))
    return list(rows)


def head(comparison: Comparison, marked: bool, clock_text: str, glyphs: Glyphs) -> list[list[Piece]]:
    """What is compared with what, and what comes of it in all."""
    since = f" since the mark at {clock_text}" if marked else " since the viewer attached"
    left: list[list[Piece]] = [[(since, "bold $strong"), (f", {format_age(comparison.now - comparison.begun)}", "")]]
    rows = comparison.rows
    if rows is not None:
        count = len(rows) + comparison.others
        more = sum(more_bytes(row) for row in rows)
        words = f"{count} group{'s' if count != 1 else ''} grew" if count else "nothing grew"
        left.append([(words, "")])
        if count:
            left.append([(f"{_more(sum(map(more_tensors, rows)), 9)} tensors", ""), (f"  {_more_bytes(more)}", "")])
        if comparison.once:
            left.append([(f"{comparison.once} rose once", "$dim")])
        left.append([(f"of {comparison.changed} in which tensors came and went", "$dim")])
    return left


def deepest_pieces(depth: Depth, glyphs: Glyphs) -> list[Piece]:
    """How long the longest path in any graph is, and behind what."""
    more = depth.now - depth.start
    name = show(depth.name or "a tensor without a name", glyphs)
    pieces: list[Piece] = [(f"{depth.now:,}", "bold"), (f" in a row behind {name}", "")]
    if more > 0:
        pieces.append((f", {more:+,}", "$warning"))
    return [*pieces, ("   ", "")]


def steps_piece(comparison: Comparison) -> list[Piece]:
    """The steps of the program a second, as far as they are known."""
    rate = comparison.steps_per_second
    return [("steps not known ", "$dim")] if rate is None else [(f"{rate:.3g} steps/s ", "")]


def detail(row: Grown, finding: Finding | None, tensor: Tensor | None, glyphs: Glyphs) -> list[Piece]:
    """All that is known of one group."""
    kind = row.kind
    glyph = glyphs.category.get(kind.category, "?")
    pieces: list[Piece] = [
        (show(kind.name or "tensors without a name", glyphs), "bold $strong"),
        (f"  {shape_text(row)} {dtype_text(kind.dtype)} {show(kind.device or 'n/a', glyphs)}  ", ""),
        (f"{glyph} {show(kind.category, glyphs)}", f"$cat-{kind.category}" if kind.category in glyphs.category else ""),
    ]
    if kind.name:
        pieces += [("   held by ", "$dim"), (show(kind.holder, glyphs), "")]
    now, start = row.now, row.start
    pieces += [
        ("\nnow      ", "$dim"),
        (f"{tensors_text(now.tensors)}, {format_bytes(now.bytes)}", ""),
        ("   at first ", "$dim"),
        (f"{tensors_text(start.tensors)}, {format_bytes(start.bytes)}", ""),
        ("\ngrows    ", "$dim"),
        (f"{_tensors(row.count_per_second)}/s, {format_bytes(round(row.bytes_per_second))}/s", ""),
    ]
    if row.count_per_step is not None and row.bytes_per_step is not None:
        step = f"{_tensors(row.count_per_step)}, {format_bytes(round(row.bytes_per_step))}"
        pieces += [("   with each step ", "$dim"), (step, "")]
    curve = glyphs.curve(row.trend, LONG_TREND)
    pieces += [("\ntrend    ", "$dim"), (curve, "$bar"), (f"  {_ends(row)}", "$dim")]
    if finding is not None:
        pieces += [(f"\n{glyphs.warn} finding  ", "bold $warning"), (show(finding.advice, glyphs), "")]
    elif row.steady:
        pieces.append(("\nno finding (yet): too few tensors, or not long enough since the viewer attached", "$dim"))
    else:
        pieces.append(("\nno finding: it has not grown in every part of the time", "$dim"))
    if tensor is None:
        pieces.append(("\nyoungest none of it is in the newest sample", "$dim"))
    else:
        pieces += [("\nyoungest ", "$dim"), (show(name_text(tensor), glyphs), ""), ("   enter goes to it", "$dim")]
    return pieces


def _ends(row: Grown) -> str:
    if not row.trend:
        return ""
    low, high = min(row.trend), max(row.trend)
    if row.bytes == row.bytes_before:
        return f"{low:,} to {high:,} tensors"
    return f"{format_bytes(low)} to {format_bytes(high)}"
