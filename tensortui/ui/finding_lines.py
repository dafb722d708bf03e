"""The lines of the Findings screen: one for each finding, all that is known of one, and of which graph they are."""

from __future__ import annotations

from textwrap import wrap

from textual.content import Content

from tensortui.analysis.findings import GRAPH_KINDS, Finding, count
from tensortui.analysis.text import pad
from tensortui.analysis.units import format_age, format_bytes
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import fit, show
from tensortui.ui.markup import Piece, content
from tensortui.ui.reading import Reading

STYLES = {"error": "bold $error", "warning": "bold $warning", "note": "$dim"}
WORD = 9  # the longest severity, and its sign
KIND = 18
WIDE = 100
LABEL = 16
TENSORS = 6
UNSHOWN = ("node",)  # a number that only the JSON document can be searched for
LOOKED = "no findings\n\nthe tensors and storages of the newest sample were looked through,\n"
WITHOUT_GRAPH = "not the autograd graphs behind them, which may keep memory too:\nr reads them, as 3 does on a tensor"
IN_PART = "nothing found in what was read\n\nthe tensors and storages of the newest sample were looked through,\n"
WITH_GRAPH = "and the autograd graphs as they were when they were read; r reads them anew"


def kind_cells(room: int) -> int:
    """The width of the kind's column; none where the title needs the room."""
    return KIND if room >= WIDE else 0


def heading(room: int, glyphs: Glyphs) -> Content:
    """The column titles."""
    lead = len(glyphs.warn) + 1
    return content([(f" {pad('severity', lead + WORD)}{pad('kind', kind_cells(room))}what", "$dim")])


def line(finding: Finding, room: int, glyphs: Glyphs) -> Content:
    """The line of one finding: its severity, its kind, its title."""
    sign = " " * len(glyphs.warn) if finding.severity == "note" else glyphs.warn
    kind = kind_cells(room)
    title = fit(show(finding.title, glyphs), max(room - len(sign) - WORD - kind - 2, 10), glyphs)
    return content(
        [
            (f" {sign} {pad(finding.severity, WORD)}", STYLES[finding.severity]),
            (pad(finding.kind, kind), "$dim"),
            (title, ""),
        ]
    )


def none(feed: Feed) -> str:
    """What is said where nothing was found."""
    if feed.judged is None:
        return "looking"
    if feed.graph is not None and feed.graph.in_part:
        return f"{IN_PART}and of the autograd graphs a part: {feed.graph.extent(feed.sample)};\nr reads them anew"
    return LOOKED + (WITHOUT_GRAPH if feed.graph is None else WITH_GRAPH)


def about_graph(feed: Feed, reading: Reading | None, now: float, glyphs: Glyphs) -> Content:
    """Which graph was looked through, and how to have another one read, in one line."""
    if reading is not None and reading.under_way:
        held = feed.held(now)
        said = f"reading the graph, {format_age(now - reading.begun)} so far" + (f": {held}" if held else "")
        return content([(f" {show(said, glyphs)}", "$strong")])
    if reading is not None and reading.problem is not None:
        title, more = (show(text, glyphs) for text in reading.problem)
        return content([(f" {glyphs.warn} {title}: {more}", "$warning")])
    if feed.graph is None:
        return content([(" no graph was read: ", "$strong"), (f"r reads it, for {', '.join(GRAPH_KINDS)}", "$dim")])
    found = count(finding for finding in feed.findings if finding.kind in GRAPH_KINDS)
    told = "1 finding" if found == 1 else f"{found or 'no'} findings"
    pieces: list[Piece] = [(f" graph read {_age(feed, now)} ago: ", ""), (told, "$strong")]
    if feed.graph.in_part:
        extent = feed.graph.extent(feed.sample)
        pieces = [(" graph read in part", "$warning"), (f" {_age(feed, now)} ago: {extent}; ", "")]
        pieces.append((told if found else "nothing found in these", "$strong"))
    if feed.graph.gone:
        pieces.append(("; some of it is gone by now", "$warning"))
    return content([*pieces, ("; r reads it anew", "$dim")])


def detail(finding: Finding, feed: Feed, now: float, room: int, glyphs: Glyphs) -> Content:
    """All that is known of one finding, in `room` cells."""
    pieces: list[Piece] = [
        (f"{finding.kind}  ", "$dim"),
        (f"{show(finding.title, glyphs)}\n", "bold $strong"),
        (f"{show(finding.advice, glyphs)}\n", ""),
    ]
    fields = [
        (key.replace("_", " "), _text(key, value)) for key, value in finding.evidence.items() if key not in UNSHOWN
    ]
    if finding.kind in GRAPH_KINDS and feed.graph is not None:
        fields.append(("graph", f"read {_age(feed, now)} ago" + (", some of it is gone" if feed.graph.gone else "")))
    for label, text in fields:
        lines = wrap(show(text, glyphs), max(room - LABEL, 20)) or [""]
        pieces += [(f"\n{label:<{LABEL}}", "$dim"), (f"\n{'':<{LABEL}}".join(lines), "")]
    sample = feed.sample
    for tid in finding.tensors[:TENSORS]:
        tensor = sample.tensors.get(tid) if sample is not None else None
        if tensor is not None:
            pieces += [(f"\n{'tensor':<{LABEL}}", "$dim"), (show(name_text(tensor), glyphs), "")]
            pieces.append((f"  {dims_text(tensor.shape)}", "$dim"))
    if len(finding.tensors) > TENSORS:
        pieces.append((f"\n{'':<{LABEL}}and {len(finding.tensors) - TENSORS} more", "$dim"))
    return content(pieces)


def _age(feed: Feed, now: float) -> str:
    return "n/a" if feed.graph is None else format_age(now - feed.graph.read_at)


def _text(key: str, value: object) -> str:
    if "bytes" in key and isinstance(value, int):
        return format_bytes(value)
    if value is None or isinstance(value, bool):
        return "n/a" if value is None else "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
