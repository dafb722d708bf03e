"""The Findings screen: what is worth telling about the newest sample, each with its evidence and the cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tensortui.analysis.findings import Finding
from tensortui.ui.feed import Feed
from tensortui.ui.finding_lines import about_graph, detail, heading, line, none
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.reading import Reading
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

KEYS = (
    ("enter", "go to the tensor"),
    ("r", "read the graph"),
    (". ,", "scroll details"),
    ("1", "tensors"),
    ("?", "help"),
    ("q", "quit"),
)


class FindingsScreen(Screen[int | None]):
    """A list that follows the feed; leaving it by enter gives the tensor to go to."""

    MANUAL = "findings"
    DEFAULT_CSS = """
    FindingsScreen {
        layout: vertical; background: $background;
        #graph { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
        #heading { height: 1; background: $panel; text-wrap: nowrap; }
        #list {
            height: 1fr; border: none; padding: 0; background: $surface; background-tint: $background 0%;
            scrollbar-size-vertical: 1;
        }
        #list > .option-list--option { padding: 0; }
        #list > .option-list--option-highlighted { background: $cursor; color: $strong; text-style: none; }
        #detail {
            height: auto; min-height: 4; max-height: 50%; padding: 0 1; border-top: solid $border;
            scrollbar-size-vertical: 1;
        }
        #told { height: auto; }
        #none { height: 1fr; content-align: center middle; text-align: center; display: none; color: $dim; }
    }
    FindingsScreen.-none #list, FindingsScreen.-none #heading, FindingsScreen.-none #detail { display: none; }
    FindingsScreen.-none #none { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", "Go to", show=False, id="findings.go", tooltip="show the tensor in the table"),
        Binding("r", "read", "Read the graph", id="findings.read", tooltip="read the graph, and look through it too"),
        Binding("j", "move('down')", "Down", show=False, id="findings.down", tooltip="next finding"),
        Binding("k", "move('up')", "Up", show=False, id="findings.up", tooltip="previous finding"),
        Binding("g", "move('first')", "First", show=False, id="findings.first", tooltip="first finding"),
        Binding("G", "move('last')", "Last", show=False, id="findings.last", tooltip="last finding"),
        Binding(
            "ctrl+d,full_stop",
            "scroll_details(1)",
            "Details down",
            show=False,
            id="findings.details-down",
            key_display=".",
            tooltip="scroll the details down",
        ),
        Binding(
            "ctrl+u,comma",
            "scroll_details(-1)",
            "Details up",
            show=False,
            id="findings.details-up",
            key_display=",",
            tooltip="scroll the details up",
        ),
        Binding("escape", "dismiss", "Back", show=False, id="findings.back", tooltip="back to the tensors"),
    ]

    app: TensortuiApp

    def __init__(self, feed: Feed, glyphs: Glyphs, clock: Callable[[], float]) -> None:
        """Show the findings of `feed`."""
        super().__init__()
        self._feed = feed
        self._glyphs = glyphs
        self._clock = clock
        self._status = StatusLine(feed, glyphs)
        self._tabs = TabBar("Findings")
        self._shown: Sequence[Finding] = ()
        self._told: Finding | None = None  # whose details are shown
        self._reading: Reading | None = None

    def compose(self) -> Iterator[Widget]:
        """The frame of every screen, the list, and what is known of the highlighted one."""
        yield self._status
        yield self._tabs
        yield Static("", id="graph", markup=False)
        yield Static("", id="heading", markup=False)
        yield OptionList(id="list", markup=False)
        yield Static("", id="none", markup=False)
        with VerticalScroll(id="detail", can_focus=False):
            yield Static("", id="told", markup=False)
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Start painting."""
        self._paint()
        self.set_interval(TICK_SECONDS, self.tick)

    def tick(self) -> None:
        """Paint what is new."""
        if self.is_active:
            self._status.refresh_at(self._clock())
            if self._feed.findings is not self._shown:
                self._paint()
            self._paint_graph()
            self._tell()

    def on_resize(self, event: Resize) -> None:
        """Fit the new width."""
        self._status.refresh_at(self._clock())
        self._paint()

    def _paint(self) -> None:
        listing = self.query_one(OptionList)
        held, place = self._highlighted, listing.highlighted or 0
        self._shown = found = self._feed.findings
        self._tabs.tell(found)
        self.set_class(not found, "-none")
        self.query_one("#heading", Static).update(heading(self.size.width, self._glyphs))
        listing.clear_options()
        listing.add_options([Option(line(finding, self.size.width, self._glyphs)) for finding in found])
        if found:
            listing.highlighted = _place_of(held, found, place)
            listing.focus()
        self._paint_graph()
        self._tell()

    def _paint_graph(self) -> None:
        self.query_one("#graph", Static).update(about_graph(self._feed, self._reading, self._clock(), self._glyphs))
        self.query_one("#none", Static).update(none(self._feed))

    @property
    def _highlighted(self) -> Finding | None:
        at = self.query_one(OptionList).highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def _tell(self) -> None:
        finding, before = self._highlighted, self._told
        self._told = finding
        told: Content | str = ""
        if finding is not None:
            told = detail(finding, self._feed, self._clock(), self.size.width - 3, self._glyphs)
        self.query_one("#told", Static).update(told)
        if finding is None or before is None or finding.subject != before.subject:
            self.query_one("#detail").scroll_home(animate=False)

    def on_option_list_option_highlighted(self) -> None:
        """Tell of the finding under the cursor."""
        self._tell()

    def on_option_list_option_selected(self) -> None:
        """Enter or a click."""
        self.action_go()

    def action_move(self, where: str) -> None:
        """The house keys for moving."""
        listing = self.query_one(OptionList)
        getattr(listing, {"down": "action_cursor_down", "up": "action_cursor_up"}.get(where, f"action_{where}"))()

    def action_scroll_details(self, step: int) -> None:
        """A page of the details up or down."""
        part = self.query_one("#detail")
        part.scroll_relative(y=step * max(part.size.height - 1, 1), animate=False)

    def action_go(self) -> None:
        """Back to the table, on the tensor of the finding."""
        finding, sample = self._highlighted, self._feed.sample
        if finding is None or sample is None:
            return
        tid = next((tid for tid in finding.tensors if tid in sample.tensors), None)
        if tid is None:
            self.notify("The tensors of this finding are gone.", markup=False)
        else:
            self.dismiss(tid)

    def action_read(self) -> None:
        """Have the graph read, and looked through with the next sample that is judged."""
        if self._reading is None or not self._reading.under_way:
            self._reading = Reading(self._feed, None, self._clock)
            self._read(self._reading)
            self._paint_graph()

    @work(group="graph", exclusive=True, exit_on_error=False)
    async def _read(self, reading: Reading) -> None:
        await reading.read()
        self._paint_graph()


def _place_of(held: Finding | None, found: Sequence[Finding], place: int) -> int:
    """Where a finding is now: itself, else one about the same; where there is none, the place stays."""
    if held is not None:
        alike = [at for at, one in enumerate(found) if one.subject == held.subject]
        same = [at for at in alike if (found[at].tensors, found[at].storages) == (held.tensors, held.storages)]
        if alike:
            return (same or alike)[0]
    return min(place, len(found) - 1)
