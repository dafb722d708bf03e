"""What stands above the graph: which one it is, how old, what it keeps alive, and what must be known before that."""

from __future__ import annotations

from textual.content import Content

from tensortui.analysis.graph import Behind, words
from tensortui.analysis.text import shorten
from tensortui.analysis.units import format_age, format_bytes, format_count, format_many
from tensortui.ui.columns import name_text
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import Piece, spread
from tensortui.ui.reading import Reading


def head(reading: Reading, behind: Behind, now: float, room: int, glyphs: Glyphs) -> Content:
    """Two lines: which graph this is and how old, and what it keeps alive."""
    tensor = reading.tensor
    age = format_age(now - (reading.read_at or now))
    right: list[Piece] = [("read ", "$dim"), (f"{age} ago ", "")]
    if reading.all or tensor is None:
        roots = len(behind.reach.roots)
        left: list[Piece] = [
            (" every graph", "bold $strong"),
            (f"  {format_count(roots)} of them", "$dim"),
        ]
    else:
        name = shorten(show(name_text(tensor), glyphs), max(room // 2, 20), ellipsis=glyphs.ellipsis)
        left = [(f" {name}", "bold $strong"), (f"  {show(tensor.grad_fn or '', glyphs)}", "")]
    keeping = behind.keeping
    count = sum(1 for _ in behind.saves)
    part = is_part(reading, behind)
    what = " what was read keeps " if part else " the graph keeps "
    kept = [(what, ""), (format_bytes(keeping.kept_bytes), "bold $strong"), (" alive by itself", "")]
    saved = f"of {format_bytes(keeping.saved_bytes)} in {format_many(count, 'saved tensor')}"
    if words.blind(behind.graph, behind.sample.coverage):
        kept, saved = [(" what the graph keeps alive is not known", "")], ""
    keeps: list[list[Piece]] = [kept, [(saved, "$dim")], [(format_many(len(behind.reach.order), "node"), "$dim")]]
    if part:
        depth = words.depth(behind.newest, None if reading.all else tensor)
        extent = f"read in part: {words.extent(len(behind.reach.order), depth)}"
        keeps = [kept, [(extent, "$warning")], [(saved, "$dim")]]  # what there is no room for is what comes last
    return spread([left], [right], room) + "\n" + spread(keeps, [], room)


def is_part(reading: Reading, behind: Behind) -> bool:
    """Whether there is more of the graph that is shown than was read."""
    return words.in_part(behind.graph) if reading.all else behind.reach.cut


def notices(reading: Reading, behind: Behind, glyphs: Glyphs) -> list[Piece]:
    """What must be known before anything of it is believed, one line each."""
    said: list[Piece] = []
    if reading.gone:
        gone = f"{format_many(reading.gone, 'tensor')} of it {'is' if reading.gone == 1 else 'are'} gone"
        said.append((f"{gone}: this graph is no more, or was released; r reads what is there now", "bold $warning"))
    if reading.lost and reading.tensor is not None:
        name, kind = name_text(reading.tensor).partition(" @ ")[0], reading.tensor.grad_fn
        what = f"the newest graph that ends in {kind}" if reading.substitute else "every graph that lived then"
        said.append((f"{name} was gone when the graph was read: this is {what}", "$warning"))
    if reading.tensor is not None and reading.all and reading.tensor.grad_fn is None:
        name, count = name_text(reading.tensor), len(behind.saves.savers(reading.tensor))
        who = "no node" if not count else "1 node" if count == 1 else f"{count} nodes"
        said.append((f"no operation made {name}: this is every graph; {who} saved it, or what is on its storage", ""))
    if behind.stale:
        first = behind.stale[0]
        text = f"{format_many(len(behind.stale), 'saved tensor')} changed since, so that backward will raise (n)"
        if len(behind.stale) == 1:
            text = f"{behind.reach.nodes[first.node].name}: {first.saved.name} {words.stale(first)} (n)"
        said.append((text, "bold $warning"))
    if freed := words.freed(behind.reach):
        said.append((freed, "$warning"))
    for reason in words.incomplete(behind.graph, behind.sample.coverage):
        # What was left out of other graphs matters only to who asks for all of them.
        here = reading.all or behind.reach.cut or not behind.graph.cut
        said.append((reason, "$warning" if here else "$dim"))
    missing = behind.saves.missing
    if missing and not reading.gone:
        said.append((f"{format_many(missing, 'saved tensor')} not in the sample yet", "$dim"))
    return [
        (f"{glyphs.warn} {show(text, glyphs)}" if "warning" in style else show(text, glyphs), style)
        for text, style in said
    ]
