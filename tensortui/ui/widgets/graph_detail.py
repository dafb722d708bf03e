"""What is known of the row under the cursor of the graph, in a few lines. Pure: a row in, text out."""

from __future__ import annotations

from textwrap import wrap

from textual.content import Content

from tensortui.analysis.graph import FOLD, LEAF, LINK, NODE, SAVED, Behind, Row, Save, has_own_name, unnoticed, words
from tensortui.analysis.graph.saves import mates
from tensortui.analysis.graph.versions import sharers
from tensortui.analysis.units import format_bytes, format_count, format_many
from tensortui.model import GraphNode, Tensor
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import Piece, content
from tensortui.ui.widgets.graph_lines import leaf_name, shape_text

LABEL = 12
MOST = 3  # of a kind that are named


class Detail:
    """Writes about one row."""

    def __init__(self, behind: Behind, glyphs: Glyphs) -> None:
        """Tell of what is `behind`."""
        self._behind = behind
        self._glyphs = glyphs
        self._room = 80
        self._pieces: list[Piece] = []

    def of(self, row: Row, room: int) -> Content:
        """The lines about `row`, in `room` cells."""
        self._room = max(room, 30)
        self._pieces = []
        node = self._behind.reach.nodes[row.node]
        if row.kind == SAVED and row.save is not None:
            self._saved(node, row.save)
        elif row.kind == FOLD and row.fold is not None:
            same = "node" if row.fold.period == 1 else f"{row.fold.period} nodes"
            if row.fold.whole:
                same = "graph, each with a tensor that keeps it"
            hidden = self._behind.tree.hidden(row.fold)
            size = format_bytes(self._behind.keeping.of(hidden))
            self._title(
                f"{format_count(row.fold.count)} times the same {same}", "the first is above; enter opens the rest"
            )
            self._field("hidden", f"{format_many(len(hidden), 'node')}, which saved {size}")
        elif row.kind in (LEAF, LINK, NODE):
            leaf = self._behind.saves.leaf(node.id)
            if leaf is not None and leaf.tensor is not None:
                self._leaf(node, leaf.tensor)
            else:
                self._node(node)
            if row.kind == LINK:
                self._field("", "it is reached from here too, and shown elsewhere: enter goes there")
        else:
            self._title("not read further", "")
            for reason in words.incomplete(self._behind.graph, self._behind.sample.coverage):
                self._field("", reason)
        return content(self._pieces)

    def _title(self, text: str, more: str) -> None:
        self._pieces += [(show(text, self._glyphs), "bold $strong"), (f"  {show(more, self._glyphs)}", "$dim")]

    def _field(self, label: str, text: str, style: str = "") -> None:
        lines = wrap(show(text, self._glyphs), self._room - LABEL) or [""]
        self._pieces.append((f"\n{label:<{LABEL}}", "$dim"))
        self._pieces.append((f"\n{'':<{LABEL}}".join(lines), style))

    def _node(self, node: GraphNode) -> None:
        keeping = self._behind.keeping
        self._title(node.name, words.function(node))
        own, behind = keeping.own(node.id), keeping.behind(node.id)
        count = len(node.saved)
        if node.freed:
            self._field("freed", "a backward has released what it saved: another backward through it will raise")
        elif count:
            self._field("saved", f"{format_count(count)} {'tensor' if count == 1 else 'tensors'}, {format_bytes(own)}")
        if words.blind(self._behind.graph, self._behind.sample.coverage):
            self._field("keeps", "not known")
        elif behind:
            self._field("keeps", f"{format_bytes(behind)} that only this node and what is behind it keeps")
        else:
            self._field("keeps", "nothing that is not kept by others too")
        made = [one for number in node.tensors if (one := self._behind.sample.tensors.get(number)) is not None]
        if made:
            self._field("made", self._list(made))
        others = len(self._behind.reach.before[node.id])
        if others > 1:
            self._field("reached", f"from {others} nodes")
        if node.hooks:
            self._field("hooks", f"{node.hooks} registered on the node, or on what it made")
        if node.retained:
            self._field("retains", f"{format_many(node.retained, 'gradient')} of what it made, by retain_grad()")
        if node.cut:
            self._field("cut", "what follows it was not all read")

    def _leaf(self, node: GraphNode, tensor: Tensor) -> None:
        self._title(
            leaf_name(tensor), f"{shape_text(tensor)}  {tensor.device or 'n/a'}  a leaf: backward fills its gradient"
        )
        uses = len(self._behind.reach.before[node.id])
        self._field("used by", f"{uses} {'node' if uses == 1 else 'nodes'} here")
        if node.hooks:
            self._field("hooks", f"{node.hooks} registered on it")
        saves = self._behind.saves.savers(tensor)
        if saves:
            self._field("saved by", self._savers(saves))

    def _saved(self, node: GraphNode, save: Save) -> None:
        tensor = save.tensor
        if tensor is None:
            self._title(save.saved.name, f"saved by {node.name}")
            self._field(
                "", "what a hook made of it is no tensor" if save.saved.hook else "it is not in the newest sample"
            )
        else:
            own = has_own_name(tensor)
            self._title(
                name_text(tensor) if own else save.saved.name, f"{shape_text(tensor)}  {tensor.device or 'n/a'}"
            )
        if save.saved.hook:
            by = save.saved.unpacked_by
            self._field("hook", words.packed(by) + (f" ({by})" if by and by not in words.packed(by) else ""))
        if words.is_of_checkpoint(save):
            self._field("kept by", "a checkpoint, an argument of it: forward runs again from here in backward")
        self._versions(save, tensor)
        if tensor is not None:
            self._storage(save, tensor)
        if tensor is not None:
            others = [
                one for one in self._behind.saves.savers(tensor) if (one.node, one.place) != (save.node, save.place)
            ]
            if others:
                self._field("also saved", f"by {self._savers(others)}")

    def _storage(self, save: Save, tensor: Tensor) -> None:
        if save.storage is None:
            self._field("storage", "none: it holds no memory of its own")
            return
        held = "held by more than the graph" if save.elsewhere else "only the graph keeps it"
        part = ""
        if tensor.bytes is not None and save.storage.bytes is not None and tensor.bytes < save.storage.bytes:
            part = f", of which it is {format_bytes(tensor.bytes)}"
        self._field("storage", f"{format_bytes(save.storage.bytes)} on {save.storage.device}{part}: {held}")

    def _versions(self, save: Save, tensor: Tensor | None) -> None:
        then, now = save.saved.version_saved, save.version
        if save.stale:
            self._field("version", f"{self._glyphs.warn} {words.stale(save)}", "bold $warning")
            self._field("changed by", words.by(self._behind.writer(save)))
        elif then is not None and now is not None:
            self._field("version", f"{now}, as when it was saved")
        elif not save.saved.hook or now is not None:
            why = "packed by a hook" if save.saved.hook else "not known"
            self._field("version", f"{'n/a' if now is None else now}; when it was saved: n/a, {why}")
        if tensor is None:
            return
        sharing = sharers(mates(save, self._behind.saves).values(), tensor)
        if sharing:
            self._field("shares it", f"views have one counter: {self._list(sharing)}")
        for one in unnoticed(save, self._behind.saves)[:MOST]:
            self._field(
                f"{self._glyphs.warn} unseen",
                f"{name_text(one)} has a counter of its own, at {one.version}: backward does not notice what it writes",
                "$warning",
            )

    def _savers(self, saves: list[Save]) -> str:
        names = [f"{self._behind.reach.nodes[one.node].name} ({one.saved.name})" for one in saves]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        return ", ".join(names[:MOST]) + more

    def _list(self, tensors: list[Tensor]) -> str:
        names = [f"{name_text(one)} {dims_text(one.shape)}" for one in tensors]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        return ", ".join(names[:MOST]) + more
