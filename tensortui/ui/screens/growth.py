"""The Growth screen: what has become more since the viewer attached, or since a moment that was marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.analysis.findings import Finding
from tensortui.analysis.growth import Comparison, Grown, youngest
from tensortui.analysis.units import format_age, format_many
from tensortui.model import LIVE, Tensor
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.growth_lines import SORTS, deepest_pieces, detail, head, steps_piece
from tensortui.ui.lines import show
from tensortui.ui.markup import Piece, content, spread
from tensortui.ui.node_count import Count, NodeCount
from tensortui.ui.states import lost_notice, why_empty
from tensortui.ui.widgets.growth_table import GrowthTable
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

KEYS = (
    ("enter", "youngest"),
    ("m", "mark"),
    ("a", "since when"),
    ("h", "holders"),
    ("s", "sort"),
    ("r", "count nodes"),
    ("q", "quit"),
    ("space", "pause"),
    ("1", "tensors"),
    ("?", "help"),
)
LEAST_HEIGHT = 20  # lines of the terminal from which on there is room for more than the groups


class GrowthScreen(Screen[int | None]):
    """Follows what the feed finds; leaving it by enter gives the tensor to go to."""

    MANUAL = "growth"
    DEFAULT_CSS = """
    GrowthScreen {
        layout: vertical; background: $background;
        #head, #nodes { height: 1; text-wrap: nowrap; }
        #notice { height: auto; padding: 0 1; display: none; color: $strong; background: $panel; }
        #notice.-shown { display: block; }
        #state { height: 1fr; content-align: center middle; text-align: center; display: none; color: $dim; }
        #detail { height: auto; min-height: 7; max-height: 50%; padding: 0 1; border-top: solid $border; }
    }
    GrowthScreen.-none GrowthTable, GrowthScreen.-none #detail { display: none; }
    GrowthScreen.-none #state { display: block; }
    GrowthScreen.-low #detail { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "mark", "Mark", id="growth.mark", tooltip="from now on, show what grows since this moment"),
        Binding("a", "turn", "Since when", id="growth.turn", tooltip="since the mark, or since the viewer attached"),
        Binding("s", "sort", "Sort", id="growth.sort", tooltip="by bytes, or by the number of tensors"),
        Binding("h,H", "app.holders", "Holders", id="growth.holders", tooltip="what keeps the youngest of them alive"),
        Binding("r", "count", "Count nodes", id="growth.count", tooltip="count the nodes of the autograd graphs"),
        Binding("space", "app.pause", "Pause", id="growth.pause", tooltip="no new samples until pressed again"),
        Binding("escape", "dismiss", "Back", show=False, id="growth.back", tooltip="back to the tensors"),
    ]

    app: TensortuiApp

    def __init__(self, feed: Feed, nodes: NodeCount, glyphs: Glyphs, clock: Callable[[], float]) -> None:
        """Show what grows in `feed`; `nodes` outlives this screen."""
        super().__init__()
        self._feed = feed
        self._count = nodes
        self._glyphs = glyphs
        self._clock = clock
        self._status = StatusLine(feed, glyphs)
        self._tabs = TabBar("Growth")
        self.table = GrowthTable(glyphs, id="table")
        self._marked = feed.grown_since_mark is not None
        self._shown: object = None

    def compose(self) -> Iterator[Widget]:
        """The frame of every screen, the groups, and what is known of the one under the cursor."""
        yield self._status
        yield self._tabs
        yield Static("", id="notice", markup=False)
        yield Static("", id="head", markup=False)
        yield Static("", id="nodes", markup=False)
        yield self.table
        yield Static("", id="state", markup=False)
        yield Static("", id="detail", markup=False)
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Start painting."""
        self.table.focus()
        self._paint()
        self.set_interval(TICK_SECONDS, self.tick)

    # -- what is shown

    @property
    def comparison(self) -> Comparison | None:
        """What is compared: since the mark, or since the viewer attached."""
        return self._feed.grown_since_mark if self._marked else self._feed.grown

    @property
    def chosen(self) -> Tensor | None:
        """The youngest tensor of the group under the cursor."""
        row, sample = self.table.row, self._feed.sample
        return youngest(row, sample) if row is not None and sample is not None and not self.has_class("-none") else None

    @property
    def _state_now(self) -> tuple[object, ...]:
        """What the screen is painted from."""
        count = self._count
        return (self.comparison, self._feed.ended, self._feed.paused, count.busy, count.last, count.problem)

    def tick(self) -> None:
        """Paint what is new."""
        if not self.is_active:
            return
        self._status.refresh_at(self._clock())
        self._tabs.tell(self._feed.findings)
        if self._state_now != self._shown or self.comparison is None or self.comparison.rows is None:
            self._paint()

    def on_resize(self, event: Resize) -> None:
        """Fit the new size; what is known of one group gives way to the groups."""
        self.set_class(event.size.height < LEAST_HEIGHT, "-low")
        self._status.refresh_at(self._clock())
        self._paint()

    def _paint(self) -> None:
        found, feed = self.comparison, self._feed
        self._shown = self._state_now
        self._tabs.tell(feed.findings)
        notice = self.query_one("#notice", Static)
        notice.set_class(feed.ended is not None, "-shown")
        if feed.ended is not None:
            notice.update(lost_notice(feed, feed.ended, self._glyphs))
        rows = found.rows if found is not None else None
        self.set_class(not rows, "-none")
        if rows:
            self.table.show_rows(rows, frozenset(tid for one in self._findings for tid in one.tensors))
        else:
            self.query_one("#state", Static).update(self._state(found))
        room = self.size.width
        top: list[list[Piece]] = []
        right: list[list[Piece]] = []
        if found is not None:
            top = head(found, self._marked, _clock_text(found.begun), self._glyphs)
            right = [steps_piece(found)]
        self.query_one("#head", Static).update(spread(top, right, room))
        self.query_one("#nodes", Static).update(spread([self._nodes_pieces()], [], room))

    @property
    def _findings(self) -> list[Finding]:
        return [finding for finding in self._feed.findings if finding.kind == "growth"]

    def _state(self, found: Comparison | None) -> Content:
        feed, sample = self._feed, self._feed.sample
        if sample is None or sample.phase != LIVE:
            return why_empty(feed, self._glyphs)
        if found is None or found.rows is None:
            begun = found.begun if found is not None else sample.taken_at
            watched = format_age(sample.taken_at - begun)
            if feed.ended is not None:
                title, more = "too short", f"the program was watched for {watched}: nothing can be compared"
            elif feed.paused:
                title, more = f"paused after {watched}", "what grows is told when samples come again: space"
            else:
                wait = format_age(found.patience) if found is not None else "a few seconds"
                title, more = f"watching for {watched}", f"what grows can be told after about {wait}"
        else:
            title = "nothing grows"
            more = f"in {format_age(found.now - found.begun)} the number of no group's tensors has risen for good"
            if found.changed:
                more += f";\n{format_many(found.changed, 'group')} had tensors that came and went"
        return content([(f"{title}\n\n", "bold $strong"), (more, "")])

    def _nodes_pieces(self) -> list[Piece]:
        nodes, found = self._count, self.comparison
        pieces: list[Piece] = [(" graph nodes  ", "$dim")]
        if found is not None and found.deepest is not None:
            pieces += deepest_pieces(found.deepest, self._glyphs)
        if nodes.busy:
            return [*pieces, ("counting them", "")]
        if nodes.problem:
            return [*pieces, (f"not counted: {show(nodes.problem, self._glyphs)}", "$warning")]
        if nodes.first is None or nodes.last is None:
            return [*pieces, ("r", "bold"), (" counts them", "$dim")]
        pieces.append((f"{_count_text(nodes.first)}", ""))
        if nodes.last is nodes.first:
            return [*pieces, ("   r counts them again", "$dim")]
        if not (nodes.first.whole and nodes.last.whole):
            return [*pieces, (f", {_count_text(nodes.last)}", ""), (": read in part, so not compared", "$dim")]
        more = nodes.last.nodes - nodes.first.nodes
        said = f"{more:+,}" if more else "as many"
        pieces.append((f", {_count_text(nodes.last)}: ", ""))
        return [
            *pieces,
            (f"{said} in {format_age(nodes.last.at - nodes.first.at)}", "bold $warning" if more > 0 else ""),
        ]

    def _tell(self) -> None:
        row = self.table.row
        told: Content | str = ""
        if row is not None:
            told = content(detail(row, self._finding(row), self.chosen, self._glyphs))
        self.query_one("#detail", Static).update(told)

    def _finding(self, row: Grown) -> Finding | None:
        tensors = frozenset(row.tensors)
        return next((finding for finding in self._findings if not tensors.isdisjoint(finding.tensors)), None)

    def on_growth_table_highlighted(self) -> None:
        """Tell of the group under the cursor."""
        self._tell()

    # -- keys

    def on_growth_table_chosen(self) -> None:
        """Back to the table, on the youngest tensor of the group."""
        tensor = self.chosen
        if tensor is None:
            self.notify("No tensor of this group is in the newest sample.", markup=False)
        else:
            self.dismiss(tensor.id)

    def action_mark(self) -> None:
        """Show what grows since now."""
        if self._feed.grown is None or self._feed.ended is not None:
            why = "There is no sample to begin with yet." if self._feed.ended is None else "The source has ended."
            self.notify(why, markup=False)
            return
        self._feed.mark()
        self._marked = True
        self._paint()

    def action_turn(self) -> None:
        """Between the mark and the whole time."""
        if self._feed.grown_since_mark is None:
            self.notify("No moment is marked: m marks this one.", markup=False)
            return
        self._marked = not self._marked
        self._paint()

    def action_sort(self) -> None:
        """By the next of bytes and tensors."""
        self.table.sort = SORTS[(SORTS.index(self.table.sort) + 1) % len(SORTS)]
        self._paint()

    @work(group="nodes", exit_on_error=False)
    async def action_count(self) -> None:
        """Count the nodes of the graphs."""
        if not self._count.busy:
            await self._count.count()


def _clock_text(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%H:%M:%S} UTC"


def _count_text(count: Count) -> str:
    least = "" if count.whole else "at least "
    return f"{least}{count.nodes:,} at {_clock_text(count.at)}"
