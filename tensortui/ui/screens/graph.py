"""The Graph screen: what is behind a tensor, what each node saved, whether it is still good, what it keeps alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.analysis.graph import Save
from tensortui.analysis.units import format_age
from tensortui.model import Tensor
from tensortui.ui.columns import name_text
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.looking import heir_of
from tensortui.ui.markup import Piece, content
from tensortui.ui.reading import Reading
from tensortui.ui.widgets.graph_detail import Detail
from tensortui.ui.widgets.graph_head import head, notices
from tensortui.ui.widgets.graph_tree import GraphTree
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

KEYS = (
    ("enter", "open"),
    ("r", "read anew"),
    ("n", "stale"),
    ("u", "who saved it"),
    ("a", "all"),
    ("H", "holders"),
    ("q", "quit"),
    ("1", "tensors"),
    ("?", "help"),
    ("E", "open all"),
    ("C", "close all"),
)
PATIENT = 1.0  # seconds after which it is said what the reading waits for


class GraphScreen(Screen[int | None]):
    """Reads the graph when it opens and when it is asked to; leaving it by enter gives the tensor to go to."""

    MANUAL = "graph"
    DEFAULT_CSS = """
    GraphScreen {
        layout: vertical; background: $background;
        #head { height: 2; text-wrap: nowrap; }
        #notice { height: auto; max-height: 6; padding: 0 1; display: none; background: $panel; }
        #notice.-shown { display: block; }
        #state {
            height: 1fr; content-align: center middle; text-align: center; display: none; color: $dim; padding: 0 4;
        }
        #detail { height: 25%; min-height: 6; max-height: 10; padding: 0 1; border-top: solid $border; }
    }
    GraphScreen.-none GraphTree, GraphScreen.-none #head, GraphScreen.-none #detail { display: none; }
    GraphScreen.-none #notice { display: none; }
    GraphScreen.-none #state { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "read", "Read anew", id="graph.read", tooltip="read the graph as it is now"),
        Binding("n", "stale(1)", "Next stale", id="graph.next", tooltip="next saved tensor that was changed since"),
        Binding(
            "N", "stale(-1)", "Previous stale", show=False, id="graph.previous", tooltip="previous one changed since"
        ),
        Binding(
            "u",
            "savers(1)",
            "Who saved it",
            id="graph.savers",
            tooltip="next node that saved this tensor or its storage",
        ),
        Binding(
            "U", "savers(-1)", "Who saved it", show=False, id="graph.savers-back", tooltip="previous node that saved it"
        ),
        Binding("H", "app.holders", "Holders", id="graph.holders", tooltip="what keeps the tensor of this row alive"),
        Binding("a", "turn", "All", id="graph.all", tooltip="every graph, or only the tensor's"),
        Binding("escape", "dismiss", "Back", show=False, id="graph.back", tooltip="back to the tensors"),
    ]

    app: TensortuiApp

    def __init__(self, feed: Feed, tensor: Tensor | None, glyphs: Glyphs, clock: Callable[[], float]) -> None:
        """Show the graph behind `tensor`, or every graph."""
        super().__init__()
        self._feed = feed
        self._tensor = tensor
        self._glyphs = glyphs
        self._clock = clock
        self._status = StatusLine(feed, glyphs)
        self._tabs = TabBar("Graph")
        self.tree_view = GraphTree(glyphs, id="tree")
        self.reading = Reading(feed, tensor, clock)
        self._detail: Detail | None = None
        self._asked = tensor  # whose savers are marked
        self._busy = False

    def compose(self) -> Iterator[Widget]:
        """The frame of every screen, the tree, and what is known of the row under the cursor."""
        yield self._status
        yield self._tabs
        yield Static("", id="head", markup=False)
        yield Static("", id="notice", markup=False)
        yield self.tree_view
        yield Static("", id="state", markup=False)
        yield Static("", id="detail", markup=False)
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Read the graph."""
        self.tree_view.focus()
        self.set_interval(TICK_SECONDS, self.tick)
        self._read()
        self.tick()

    # -- reading

    @work(group="graph", exclusive=True, exit_on_error=False)
    async def _read(self) -> None:
        reading = self.reading
        await reading.read()
        if reading.behind is not None:
            self._show(anew=True)
            self._first_row()
        self._paint()

    def action_read(self) -> None:
        """Read the graph as it is now."""
        if self.reading.under_way:
            return
        if self._feed.ended is not None and self.reading.behind is not None:
            self.notify("The source has ended: this is the last graph there is.", markup=False)
            return
        sample = self._feed.sample
        tensor = self._tensor
        if tensor is not None and sample is not None and tensor.id not in sample.tensors:
            tensor = heir_of(tensor, sample) or tensor
        self._begin(tensor, every=self.reading.every)

    def _begin(self, tensor: Tensor | None, *, every: bool) -> None:
        self._tensor = tensor
        self.reading = Reading(self._feed, tensor, self._clock, every=every)
        self._read()
        self._paint()

    @work(group="graph-update", exclusive=True, exit_on_error=False)
    async def _update(self) -> None:
        if not self._busy:
            self._busy = True
            try:
                if await self.reading.update():
                    self._show(anew=False)
                    self._paint()
            finally:
                self._busy = False

    def _show(self, *, anew: bool) -> None:
        behind = self.reading.behind
        if behind is not None:
            self._detail = Detail(behind, self._glyphs)
            self.tree_view.show_graph(behind, anew=anew)
            self._mark()

    def _first_row(self) -> None:
        """Begin where the news is: who saved it, or its leaf, for a tensor that no node made; else what is stale."""
        behind = self.reading.behind
        if behind is None:
            return
        tensor = self._tensor if self.reading.all else None
        places: list[tuple[int, int | None]] = []
        if tensor is not None:
            places += [(save.node, save.place) for save in behind.saves.savers(tensor)]
            places += [(node.id, None) for node in behind.graph.nodes if node.leaf == tensor.id]
        places += [(save.node, save.place) for save in behind.stale]
        for node, place in places[:1]:
            self.tree_view.go_to(node, place)

    # -- painting

    def tick(self) -> None:
        """Paint what is new."""
        if not self.is_active:
            return
        self._status.refresh_at(self._clock())
        self._tabs.tell(self._feed.findings)
        if not self._busy and self.reading.behind is not None:
            self._update()
        self._paint()

    def on_resize(self, event: Resize) -> None:
        """Fit the new width."""
        self._status.refresh_at(self._clock())
        self._paint()
        self._tell()

    def _paint(self) -> None:
        reading, now = self.reading, self._clock()
        behind = reading.behind
        self.set_class(behind is None, "-none")
        if behind is None:
            self.query_one("#state", Static).update(self._state(reading, now))
            return
        self.query_one("#head", Static).update(head(reading, behind, now, self.size.width, self._glyphs))
        said = notices(reading, behind, self._glyphs)
        notice = self.query_one("#notice", Static)
        notice.set_class(bool(said), "-shown")
        notice.update(
            content([(f"{text}\n" if at < len(said) - 1 else text, style) for at, (text, style) in enumerate(said)])
        )

    def _state(self, reading: Reading, now: float) -> Content:
        if reading.problem is not None:
            title, detail = reading.problem
            lines = "\n".join(show(line, self._glyphs) for line in detail.split("\n"))
            return content([(f"{show(title, self._glyphs)}\n\n", "bold $strong"), (lines, "")])
        waited = now - reading.begun
        pieces: list[Piece] = [("reading the graph", "bold $strong")]
        if waited >= PATIENT:
            pieces.append(
                (f"\n\n{format_age(waited)} so far: it is read in small steps, and only while no backward runs", "")
            )
            if held := self._feed.held(now):
                pieces.append((f"\n{self._glyphs.warn} {show(held, self._glyphs)}", "bold $warning"))
        return content(pieces)

    def _tell(self) -> None:
        row = self.tree_view.row
        told: Content | str = ""
        if row is not None and self._detail is not None:
            told = self._detail.of(row, self.size.width - 2)
        self.query_one("#detail", Static).update(told)

    def on_graph_tree_highlighted(self) -> None:
        """Tell of the row under the cursor."""
        self._tell()

    # -- going places

    def on_graph_tree_chosen(self) -> None:
        """Back to the table, on the tensor of the row."""
        row, behind, sample = self.tree_view.row, self.reading.behind, self._feed.sample
        if row is None or behind is None or sample is None:
            return
        save = row.save if row.save is not None else behind.saves.leaf(row.node)
        tid = save.saved.tensor if save is not None else None
        if tid is None:
            self.notify("No tensor is known of this row.", markup=False)
        elif tid not in sample.tensors:
            self.notify("This tensor is not in the newest sample: it is gone, or too new.", markup=False)
        else:
            self.dismiss(tid)

    @property
    def chosen(self) -> Tensor | None:
        """The tensor of the row under the cursor, or else the one that the screen was opened for."""
        row, behind = self.tree_view.row, self.reading.behind
        save = None if row is None or behind is None else row.save or behind.saves.leaf(row.node)
        return save.tensor if save is not None and save.tensor is not None else self._tensor

    def action_stale(self, step: int) -> None:
        """Go to the next saved tensor that was changed since."""
        behind = self.reading.behind
        if behind is not None and not self._go(behind.stale, step):
            self.notify("Nothing that was saved here has been changed since, as far as can be told.", markup=False)

    def action_savers(self, step: int) -> None:
        """Go to the next node that saved the tensor under the cursor, or else the one the screen was opened for."""
        behind, row = self.reading.behind, self.tree_view.row
        if behind is None:
            return
        save = None if row is None else row.save if row.save is not None else behind.saves.leaf(row.node)
        if save is not None and save.tensor is not None:
            self._asked = save.tensor
        if self._asked is None:
            self.notify("Select a saved tensor or a leaf first.", markup=False)
        elif self._go(self._mark(), step):
            return
        else:
            name = show(name_text(self._asked), self._glyphs)
            self.notify(f"No node that was read saved {name}, or anything on its storage.", markup=False)

    def _mark(self) -> Sequence[Save]:
        """Mark who saved the tensor that is asked about."""
        behind = self.reading.behind
        savers = behind.saves.savers(self._asked) if behind is not None and self._asked is not None else []
        self.tree_view.mark([(save.node, save.place) for save in savers])
        return savers

    def _go(self, saves: Sequence[Save], step: int) -> bool:
        if not saves:
            return False
        row = self.tree_view.row
        here = None if row is None or row.save is None else (row.node, row.save.place)
        places = [(save.node, save.place) for save in saves]
        at = (places.index(here) + step) % len(places) if here in places else 0
        self.tree_view.go_to(*places[at])
        return True

    def action_turn(self) -> None:
        """Between every graph that was read and the tensor's own; where it has none, read every graph."""
        if self.reading.none_behind and not self.reading.under_way:
            self._begin(self._tensor, every=True)
        elif self.reading.behind is not None:
            self._turn()

    @work(group="graph", exclusive=True, exit_on_error=False)
    async def _turn(self) -> None:
        was = self.reading.all
        await self.reading.turn()
        if self.reading.all is not was:
            self._show(anew=True)
            self._paint()
        else:
            self.notify("Every graph that was read is here already.", markup=False)
