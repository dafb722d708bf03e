"""What would it cost: the usual operations on a tensor and the one that was typed, each a view or a copy, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import wrap

from textual.content import Content

from tensortui.analysis.layout import COPY, IMPOSSIBLE, SAME, VIEW, LayoutError, Outcome, Place, Step, cost
from tensortui.analysis.text import truncate
from tensortui.analysis.units import format_bytes
from tensortui.ui.columns import dims_text
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import fit, show
from tensortui.ui.markup import Piece, content

WHAT = {SAME: "itself", VIEW: "view", COPY: "copy", IMPOSSIBLE: "impossible"}
STYLES = {SAME: "$success", VIEW: "$success", COPY: "bold $warning", IMPOSSIBLE: "bold $error"}
WORD = 10
WIDE = 100
LEAST, LEAST_WIDE, MOST = 13, 17, 34  # cells of an operation
ASKED = 4  # lines of what was typed


def usual(place: Place, absent: Collection[str] = ()) -> list[str]:
    """The operations that are worth telling of a tensor without being asked, the most telling first.

    `absent` are the kinds of device that the process cannot have.
    """
    dims = len(place.shape)
    out = ["contiguous()", "view(-1)", "reshape(-1)"]
    if dims > 1:
        out.append("t()" if dims == 2 else "transpose(-1, -2)")
        out.append("flatten(0, 1)")
    if dims == 4:
        out.append("contiguous(channels_last)")
    out.append("to(float32)" if place.dtype in ("bfloat16", "float16") else "to(bfloat16)")
    if place.device.startswith("cuda"):
        out.append("cpu()")
    elif "cuda" not in absent:
        out.append("to(cuda)")
    out.append("clone()")
    return [text for text in out if not (place.quantised and text.startswith("to("))]


def bytes_words(outcome: Outcome, room: int) -> str:
    """What an outcome moves, in words; in few of them where there is little room."""
    if outcome.what != COPY:
        return "" if outcome.what == IMPOSSIBLE else "0 B"
    if outcome.link.startswith("nothing"):
        return outcome.link
    if outcome.link:
        return f"{format_bytes(outcome.written)} over {outcome.link}"
    if outcome.read == outcome.written:
        return format_bytes(outcome.written) + (" read and written" if room >= WIDE else "")
    return f"{format_bytes(outcome.read)} read, {format_bytes(outcome.written)} written"


def outcome_words(outcome: Outcome, room: int) -> str:
    """What an outcome costs, what comes out, and why."""
    said = [bytes_words(outcome, room)]
    if outcome.result is not None and outcome.what in (VIEW, COPY):
        said.append(f"gives {dims_text(outcome.result.shape)} strides {dims_text(outcome.result.strides)}")
    return ", ".join(filter(None, [*said, outcome.why]))


def step_lines(step: Step, names: int, room: int, glyphs: Glyphs, most: int = 1) -> list[Piece]:
    """One operation, what it is, and what is to be said of it, in at most so many lines."""
    rest = max(room - names - WORD - 4, 8)
    said = wrap(show(outcome_words(step.outcome, room), glyphs), rest) or [""]
    if len(said) > most:
        said = [*said[: most - 1], truncate(" ".join(said[most - 1 :]), rest, ellipsis=glyphs.ellipsis)]
    pieces: list[Piece] = [
        (f" {fit(show(step.text, glyphs), names, glyphs)} ", ""),
        (f"{WHAT[step.outcome.what]:<{WORD}} ", STYLES[step.outcome.what]),
        (f"{said[0]}\n", "$dim"),
    ]
    return [*pieces, *((f"{'':<{names + WORD + 3}}{line}\n", "$dim") for line in said[1:])]


def _names(steps: Sequence[Step], room: int) -> int:
    """The cells of the operations; the usual ones and those that were typed stand in line as far as that goes."""
    return min(max([LEAST_WIDE if room >= WIDE else LEAST, *(len(step.text) for step in steps)]), MOST)


def asked_lines(place: Place, text: str, room: int, glyphs: Glyphs, absent: Collection[str] = ()) -> list[Piece]:
    """What was typed: each of its steps in full, or what is wrong with it."""
    try:
        steps = cost(place, text, absent)
    except LayoutError as error:
        lines = wrap(show(str(error), glyphs), max(room - 4, 8))
        return [(f" {line}\n", "$warning") for line in lines[:ASKED]]
    shown = steps[-ASKED:]
    most = ASKED // len(shown)
    return [piece for step in shown for piece in step_lines(step, _names(shown, room), room, glyphs, most)]


def costs_content(
    place: Place | None, lines: int, room: int, glyphs: Glyphs, asked: str = "", absent: Collection[str] = ()
) -> Content:
    """The usual operations, as many as there are lines, without the one that was `asked` for."""
    if place is None:
        return content([])
    try:
        steps = [cost(place, text)[0] for text in [text for text in usual(place, absent) if text != asked][:lines]]
    except LayoutError as error:
        words = truncate(show(str(error), glyphs), max(room - 2, 8), ellipsis=glyphs.ellipsis)
        return content([(f" {words}\n", "$dim")])
    return content([piece for step in steps for piece in step_lines(step, _names(steps, room), room, glyphs)])
