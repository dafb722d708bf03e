"""The rows of the chains of holders, and what is said above and below them. Pure: chains in, pieces of text out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from textwrap import wrap

from textual.content import Content

from tensortui.analysis.holders import WORDS, Group, expression, grouped, headline, meaning
from tensortui.analysis.text import shorten, truncate, width
from tensortui.analysis.units import format_age, format_bytes
from tensortui.model import Holders, HolderStep
from tensortui.ui.columns import dims_text, dtype_text, name_text
from tensortui.ui.glyphs import ASCII, Glyphs
from tensortui.ui.lines import fit, show
from tensortui.ui.markup import Piece, content, spread
from tensortui.ui.searching import Search

Line = list[Piece]
CHAIN, STEP, TAIL = "chain", "step", "tail"
HOW = 30  # cells of the last column
INDENT, DEEPEST = 2, 12
LABEL = 9
SURE = ("unreachable", "unknown", "C++")  # kinds at which the program's own words end


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a chain, one of its steps, or the end that it has in common with the chain `like`."""

    kind: str
    chain: int
    step: int = 0
    like: int = 0

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells it from the others."""
        return self.kind, self.chain, self.step


class Chains:
    """The chains that a search found, in the order in which they are shown."""

    def __init__(self, found: Holders, glyphs: Glyphs) -> None:
        """Show what was `found` with `glyphs`."""
        self.found = found
        self.arrow = "->" if glyphs is ASCII else "→"
        self._glyphs = glyphs
        self._groups: Sequence[Group] = grouped(found.chains)
        order = [at for group in self._groups for at in group.chains]
        self._number = {at: number for number, at in enumerate(order, 1)}

    def rows(self, shut: Collection[int]) -> list[Row]:
        """Every row but those of the chains that are shut."""
        rows: list[Row] = []
        for group in self._groups:
            for at in group.chains:
                rows.append(Row(CHAIN, at))
                if at in shut:
                    continue
                count = len(self.found.chains[at])
                own = count - group.tail if at != group.chains[0] else count
                rows += [Row(STEP, at, step) for step in range(own)]
                if own < count:
                    rows.append(Row(TAIL, at, own, group.chains[0]))
        return rows

    def steps(self, row: Row) -> tuple[HolderStep, ...]:
        """The chain up to a row: the whole of it for its title."""
        chain = self.found.chains[row.chain]
        return chain[: row.step + 1] if row.kind == STEP else chain

    def text(self, steps: Sequence[HolderStep]) -> str:
        """An expression as it may stand on this terminal."""
        return show(expression(steps, self.arrow), self._glyphs)

    def heading(self, room: int) -> Line:
        """The column titles."""
        name = room - HOW - 2
        title = fit("   what holds it, from the root on", name, self._glyphs)
        return [(title, "header"), (f"  {fit('how', HOW, self._glyphs)}", "header")]

    def line(self, row: Row, room: int, shut: Collection[int]) -> Line:
        """The line of a row."""
        glyphs, name = self._glyphs, room - HOW - 2
        chain = self.found.chains[row.chain]
        if row.kind == CHAIN:
            arrow = glyphs.closed if row.chain in shut else glyphs.opened
            lead = f" {arrow} {self._number[row.chain]:<2} "
            left = truncate(self.text(chain), room - width(lead) - 1, ellipsis=glyphs.ellipsis, keep="both")
            return [(lead, "dim"), (left, "name"), (" " * max(room - width(lead) - width(left), 0), "")]
        lead = " " * (6 + INDENT * min(row.step, DEEPEST))
        if row.kind == TAIL:
            like, rest = self._number[row.like], chain[row.step :]
            text, how = f"ends like {like}: {self.text(rest)}", "1 holder" if len(rest) == 1 else f"{len(rest)} holders"
            style = "dim"
        else:
            step = chain[row.step]
            text, how = show(step.label, glyphs), WORDS[step.kind]
            style = "warning" if step.kind in SURE else ""
        left = fit(truncate(text, name - len(lead), ellipsis=glyphs.ellipsis, keep="both"), name - len(lead), glyphs)
        return [(lead, ""), (left, style), (f"  {fit(how, HOW, glyphs)}", "dim")]


def detail(chains: Chains, row: Row, room: int, glyphs: Glyphs) -> Content:
    """What the chain of a row means, how to let go, and where in it the row is."""
    steps, chain = chains.steps(row), chains.found.chains[row.chain]
    told = meaning(chain)
    pieces: list[Piece] = [(chains.text(steps), "bold $strong")]
    if row.kind == STEP:
        pieces.append((f"  {WORDS[chain[row.step].kind]}", "$dim"))
    for label, text in (("means", told.means), ("let go", told.cure)):
        lines = wrap(show(text.replace("→", chains.arrow), glyphs), max(room - LABEL, 20)) or [""]
        pieces.append((f"\n{label:<{LABEL}}", "$dim"))
        pieces.append((f"\n{'':<{LABEL}}".join(lines), "" if label == "means" else "$strong"))
    return content(pieces)


def head(search: Search, chains: Chains, now: float, room: int, glyphs: Glyphs) -> Content:
    """Two lines: the tensor and how old this is; the first chain as an expression, and how many others there are."""
    tensor, count = search.tensor, len(chains.found.chains)
    right: list[Piece] = [("searched ", "$dim"), (f"{format_age(now - (search.ended_at or now))} ago ", "")]
    name = shorten(show(name_text(tensor), glyphs), max(room // 2, 20), ellipsis=glyphs.ellipsis)
    facts = f"{dims_text(tensor.shape)} {dtype_text(tensor.dtype)} {tensor.device or 'n/a'}"
    left: list[list[Piece]] = [[(f" {name}", "bold $strong")], [(show(facts, glyphs), "")]]
    first = spread([*left, [(format_bytes(tensor.bytes), "$dim")]], [right], room)
    more = "" if count == 1 else "  and 1 other chain" if count == 2 else f"  and {count - 1} other chains"
    lead = " kept by "
    left_over = max(room - len(lead) - len(more) - 1, 10)
    text = truncate(chains.text(chains.found.chains[0]), left_over, ellipsis=glyphs.ellipsis, keep="both")
    return first + "\n" + content([(lead, ""), (text, "bold $strong"), (more, "$dim")])


def notices(search: Search, glyphs: Glyphs) -> list[Piece]:
    """What must be known before anything of it is believed, one line each."""
    found = search.found
    said: list[Piece] = []
    if found is None:
        return said
    if search.gone:
        text = "the tensor is gone by now: r looks at what goes by its name, if anything does"
        said.append((f"{glyphs.warn} {text}", "bold $warning"))
    if search.full:
        said.append((f"these are the first {len(found.chains)} chains that were found: m looks for more", ""))
    if not found.complete and not found.reasons:
        said.append((f"{glyphs.warn} not everything could be followed: there may be more chains", "$warning"))
    said += [(f"{glyphs.warn} {show(reason, glyphs)}", "$warning") for reason in found.reasons]
    return said


def waiting(search: Search, now: float, held: str, glyphs: Glyphs) -> Content:
    """What stands in place of the chains while there are none."""
    if search.problem is not None:
        title, rest = (show(text, glyphs) for text in search.problem)
        return content([(f"{title}\n\n", "bold $strong"), (rest, "")])
    if search.found is not None:
        reasons = "\n".join(show(reason, glyphs) for reason in search.found.reasons)
        return content([(f"{headline(search.found)}\n\n", "bold $strong"), (reasons or "r looks again", "")])
    name = shorten(show(name_text(search.tensor), glyphs), 50, ellipsis=glyphs.ellipsis)
    said = show(search.said, glyphs) or "the search goes in small steps, so that the program is not held up"
    pieces: list[Piece] = [
        (f"looking for what keeps {name} alive\n\n", "bold $strong"),
        (f"{said}\n", ""),
        (f"{format_age(now - search.begun)} so far; esc gives it up", "$dim"),
    ]
    if held:
        pieces.append((f"\n{glyphs.warn} {show(held, glyphs)}", "bold $warning"))
    return content(pieces)
