"""The lines of the graph as pieces of text, each with the name of its style. Pure: rows in, glyphs out."""

from __future__ import annotations

from tensortui.analysis.graph import FOLD, LEAF, LINK, NODE, SAVED, Behind, Fold, Row, Save, has_own_name, known, words
from tensortui.analysis.text import shorten, width
from tensortui.analysis.units import format_bytes, format_count
from tensortui.model import GraphNode, Tensor
from tensortui.ui.columns import dims_text, dtype_text, name_text
from tensortui.ui.glyphs import ASCII, Glyphs
from tensortui.ui.lines import fit, show

Piece = tuple[str, str]
Line = list[Piece]
BYTES = 10
STATES = ((150, 44), (110, 30), (0, 15))  # from this width on, so many cells for what is said of the versions
INDENT, DEEPEST = 2, 12
TITLES = ("saved", "keeps", "state")


def state_cells(room: int) -> int:
    """The width of the last column."""
    return next(cells for least, cells in STATES if room >= least)


def heading(room: int, glyphs: Glyphs) -> Line:
    """The column titles."""
    cells = state_cells(room)
    name = room - 2 * (BYTES + 1) - cells - 2
    pieces: Line = [(fit("   node, and what it saved", name, glyphs), "header")]
    pieces += [(f" {fit(title, BYTES, glyphs, right=True)}", "header") for title in TITLES[:2]]
    return [*pieces, (f"  {fit(TITLES[2], cells, glyphs)}", "header")]


class GraphLines:
    """Draws the rows of one graph."""

    def __init__(self, behind: Behind, glyphs: Glyphs) -> None:
        """Draw what is `behind` with `glyphs`."""
        self.behind = behind
        self.glyphs = glyphs
        self._arrow = "->" if glyphs is ASCII else "→"

    def row(self, row: Row, room: int, marked: bool = False) -> Line:
        """The line of a row; `marked` where it saved the tensor that is asked for."""
        cells = state_cells(room)
        name = room - 2 * (BYTES + 1) - cells - 2
        lead = " " * (1 + INDENT * min(row.depth, DEEPEST))
        arrow = " " if row.opened is None else self.glyphs.opened if row.opened else self.glyphs.closed
        if row.begins and row.opened is None:
            arrow = self.glyphs.view
        elif row.begins:
            lead = f"{lead[:-INDENT]}{self.glyphs.view} "
        left: Line = [(f"{lead}{arrow} ", "dim"), *self._label(row, name - len(lead) - 2)]
        if marked:
            left[0] = (f"{self.glyphs.equals}{left[0][0][1:]}", "marked")
        pieces = _cut(left, name, self.glyphs)
        for text, style in self._sizes(row):
            pieces.append((f" {fit(text, BYTES, self.glyphs, right=True)}", style))
        text, style = self._state(row, cells)
        return [*pieces, ("  ", ""), (fit(text, cells, self.glyphs), style)]

    # -- the label

    def _label(self, row: Row, room: int) -> Line:
        node = self.behind.reach.nodes[row.node]
        if row.kind == NODE:
            return self._node(node)
        if row.kind == SAVED and row.save is not None:
            return self._saved(row.save, room)
        if row.kind == LEAF:
            return self._leaf(node, room)
        if row.kind == LINK:
            where = "shown below" if row.below else "shown above"
            return [(f"{self._arrow} ", "dim"), *self._named(node, room - 16), (f"  {where}", "dim")]
        if row.kind == FOLD and row.fold is not None:
            return self._fold(row.fold)
        return [(f"{self.glyphs.ellipsis} more, which was not read", "warning")]

    def _named(self, node: GraphNode, room: int) -> Line:
        """A node in a few words: a leaf by its tensor."""
        if self.behind.saves.leaf(node.id) is not None:
            return self._leaf(node, room)
        return [(show(node.name, self.glyphs), "")]

    def _node(self, node: GraphNode) -> Line:
        pieces: Line = [(show(node.name, self.glyphs), "name")]
        made = [tensor for one in node.tensors if (tensor := self.behind.sample.tensors.get(one)) is not None]
        names = [show(tensor.names[0], self.glyphs) for tensor in made if has_own_name(tensor)]
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            pieces.append((f"  made {names[0]}{more}", "made"))
        if said := words.function(node):
            pieces.append((f"  {show(said, self.glyphs)}", "dim"))
        return pieces

    def _leaf(self, node: GraphNode, room: int) -> Line:
        save = self.behind.saves.leaf(node.id)
        if save is None or save.tensor is None:
            return [(show(node.name, self.glyphs), "dim"), ("  a leaf that is not in the sample", "dim")]
        glyph = self.glyphs.category.get(save.tensor.category, "?")
        shape = shape_text(save.tensor)
        name = shorten(
            show(leaf_name(save.tensor), self.glyphs), room - width(shape) - 4, ellipsis=self.glyphs.ellipsis
        )
        return [(f"{glyph} ", save.tensor.category), (name, ""), (f"  {shape}", "dim")]

    def _saved(self, save: Save, room: int) -> Line:
        glyph = self.glyphs.category["saved"]
        name = show(save.saved.name, self.glyphs)
        pieces: Line = [(f"{glyph} ", "saved"), (f"{name}  ", "dim")]
        if save.tensor is None:
            return [*pieces, ("packed" if save.saved.hook else "not in the sample", "dim")]
        shape = shape_text(save.tensor)
        tensor = known(save, self.behind.saves)
        left = max(room - width(name) - width(shape) - 6, 8)
        pieces += [(shape, ""), ("  ", "")]
        if tensor is None and not save.elsewhere:
            return [*pieces, ("graph alone" if left >= width("graph alone") else "", "dim")]
        lead = "" if tensor in (None, save.tensor) else "view of " if "view" in save.tensor.flags else "with "
        who = shorten(
            show(name_text(tensor or save.tensor), self.glyphs), left - len(lead), ellipsis=self.glyphs.ellipsis
        )
        return [*pieces, (f"{lead}{who}", "dim")]

    def _fold(self, fold: Fold) -> Line:
        first = show(self.behind.reach.nodes[fold.nodes[0]].name, self.glyphs)
        times = format_count(fold.count - 1)
        if fold.whole:
            return [(f"{self.glyphs.ellipsis} {times} more graphs that read like the one above", "fold")]
        if fold.period == 1:
            return [(f"{self.glyphs.ellipsis} {times} more {first}", "fold")]
        return [(f"{self.glyphs.ellipsis} the same {fold.period} nodes {times} more times, from {first} on", "fold")]

    # -- the columns

    def _sizes(self, row: Row) -> tuple[Piece, Piece]:
        keeping, none = self.behind.keeping, ("", "")
        if row.kind == NODE:
            own, behind = keeping.own(row.node), keeping.behind(row.node)
            return (format_bytes(own) if own else "", "bytes"), (format_bytes(behind) if behind else "", "dim")
        if row.kind == FOLD and row.fold is not None:
            own = keeping.of(self.behind.tree.hidden(row.fold))
            return (format_bytes(own) if own else "", "dim"), none
        save = row.save if row.kind == SAVED else self.behind.saves.leaf(row.node) if row.kind == LEAF else None
        if save is None or save.storage is None:
            return none, none
        if not save.first:
            return (f"{self.glyphs.equals} above", "dim"), none
        size = (format_bytes(save.bytes), "") if row.kind == SAVED else none
        return size, none if save.elsewhere else (format_bytes(save.bytes), "dim")

    def _state(self, row: Row, cells: int) -> Piece:
        node = self.behind.reach.nodes[row.node]
        if row.kind == NODE:
            return ", ".join(filter(None, ("freed" if node.freed else "", words.hooks(node)))), "dim"
        if row.kind == LEAF:
            return (words.hooks(node) or "leaf"), "dim"
        return self._version(row.save, cells) if row.kind == SAVED and row.save is not None else ("", "")

    def _version(self, save: Save, cells: int) -> Piece:
        then, now = save.saved.version_saved, save.version
        if save.stale:
            short = f"v{_number(then)}, now v{_number(now)}"
            said = (f"{self.glyphs.warn} {one}" for one in (words.stale(save), f"{short}: will raise"))
            return next((one for one in said if width(one) <= cells), f"{self.glyphs.warn} {short}"), "warning"
        if save.saved.hook:
            return show(words.packed(save.saved.unpacked_by), self.glyphs), "dim"
        if words.is_of_checkpoint(save):
            return "for its rerun", "dim"
        if then is None or now is None:
            return "version n/a", "dim"
        return f"v{then} = v{now}", "dim"


def leaf_name(tensor: Tensor) -> str:
    """What a leaf is called: those that only the graph holds are not named after who saved them."""
    return name_text(tensor) if has_own_name(tensor) else f"unnamed #{tensor.id}"


def shape_text(tensor: Tensor) -> str:
    """Shape and dtype."""
    return f"{dims_text(tensor.shape)} {dtype_text(tensor.dtype)}"


def _number(version: int | None) -> str:
    return "n/a" if version is None else str(version)


def _cut(pieces: Line, room: int, glyphs: Glyphs) -> Line:
    """`pieces` in exactly `room` cells."""
    out: Line = []
    for text, style in pieces:
        cells = width(text)
        if cells >= room:
            out.append((fit(text, room, glyphs), style))
            return out
        out.append((text, style))
        room -= cells
    return [*out, (" " * room, "")]
