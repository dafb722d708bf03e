"""The Holders screen: what keeps a tensor alive, each chain from its root, what it means and how to let go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tensortui.model import Tensor
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.looking import heir_of
from tensortui.ui.markup import content
from tensortui.ui.searching import Search
from tensortui.ui.widgets.holder_lines import Chains, detail, head, notices, waiting
from tensortui.ui.widgets.holder_tree import HolderTree
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.tab_bar import TabBar
from tensortui.wire.messages import CHAINS, CHAINS_LIMIT

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

KEYS = (
    ("enter", "open"),
    ("r", "search again"),
    ("m", "more"),
    ("y", "copy"),
    ("esc", "back"),
    ("q", "quit"),
    ("1", "tensors"),
    ("?", "help"),
    ("E", "open all"),
    ("C", "close all"),
)


class HoldersScreen(Screen[int | None]):
    """Searches when it opens and when it is asked to; leaving it gives a search that is under way up."""

    MANUAL = "holders"
    DEFAULT_CSS = """
    HoldersScreen {
        layout: vertical; background: $background;
        #head { height: 2; text-wrap: nowrap; }
        #notice { height: auto; max-height: 6; padding: 0 1; display: none; background: $panel; }
        #notice.-shown { display: block; }
        #state {
            height: 1fr; content-align: center middle; text-align: center; display: none; color: $dim; padding: 0 4;
        }
        #detail { height: 25%; min-height: 7; max-height: 10; padding: 0 1; border-top: solid $border; }
    }
    HoldersScreen.-none HolderTree, HoldersScreen.-none #head, HoldersScreen.-none #detail { display: none; }
    HoldersScreen.-none #notice { display: none; }
    HoldersScreen.-none #state { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "search", "Search again", id="holders.search", tooltip="look for what holds it now"),
        Binding("m", "more", "More chains", id="holders.more", tooltip="look for more chains than the first ones"),
        Binding("y", "copy", "Copy", id="holders.copy", tooltip="copy the chain up to this row as an expression"),
        Binding("escape", "dismiss", "Back", show=False, id="holders.back", tooltip="back, giving the search up"),
    ]

    app: TensortuiApp

    def __init__(self, feed: Feed, tensor: Tensor, glyphs: Glyphs, clock: Callable[[], float]) -> None:
        """Look for what holds `tensor`."""
        super().__init__()
        self._feed = feed
        self._glyphs = glyphs
        self._clock = clock
        self._status = StatusLine(feed, glyphs)
        self._tabs = TabBar("Holders")
        self.tree_view = HolderTree(id="tree")
        self.search = Search(feed, tensor, clock)
        self._chains: Chains | None = None

    def compose(self) -> Iterator[Widget]:
        """The frame of every screen, the chains, and what the one under the cursor means."""
        yield self._status
        yield self._tabs
        yield Static("", id="head", markup=False)
        yield Static("", id="notice", markup=False)
        yield self.tree_view
        yield Static("", id="state", markup=False)
        yield Static("", id="detail", markup=False)
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Begin to search."""
        self.tree_view.focus()
        self.set_interval(TICK_SECONDS, self.tick)
        self._run()
        self.tick()

    # -- searching

    @work(group="holders", exclusive=True, exit_on_error=False)
    async def _run(self) -> None:
        search = self.search
        await search.run()
        if search.found is not None and search.found.chains:
            self._chains = Chains(search.found, self._glyphs)
            self.tree_view.show_chains(self._chains)
        self._paint()

    def action_search(self) -> None:
        """Look for what holds the tensor now, or the one that goes by its name where it is gone."""
        self._again(CHAINS)

    def action_more(self) -> None:
        """Look for more chains."""
        if self.search.full:
            self._again(CHAINS_LIMIT)
        elif not self.search.under_way:
            self.notify("These are all the chains that were found.", markup=False)

    def _again(self, limit: int) -> None:
        search, sample = self.search, self._feed.sample
        if search.under_way:
            return
        if self._feed.ended is not None and search.found is not None:
            self.notify("The source has ended: this is the last that was found.", markup=False)
            return
        tensor = search.tensor
        if search.gone and sample is not None:
            tensor = heir_of(tensor, sample) or tensor
        self.search = Search(self._feed, tensor, self._clock, limit)
        self._chains = None
        self._run()
        self._paint()

    # -- painting

    def tick(self) -> None:
        """Paint what is new."""
        if not self.is_active:
            return
        self._status.refresh_at(self._clock())
        self._tabs.tell(self._feed.findings)
        self._paint()

    def on_resize(self, event: Resize) -> None:
        """Fit the new width."""
        self._status.refresh_at(self._clock())
        self._paint()
        self._tell()

    def _paint(self) -> None:
        search, now, glyphs = self.search, self._clock(), self._glyphs
        chains = self._chains
        self.set_class(chains is None, "-none")
        if chains is None:
            self.query_one("#state", Static).update(waiting(search, now, self._feed.held(now), glyphs))
            return
        self.query_one("#head", Static).update(head(search, chains, now, self.size.width, glyphs))
        said = notices(search, glyphs)
        notice = self.query_one("#notice", Static)
        notice.set_class(bool(said), "-shown")
        notice.update(
            content([(f"{text}\n" if at < len(said) - 1 else text, style) for at, (text, style) in enumerate(said)])
        )

    def _tell(self) -> None:
        row = self.tree_view.row
        told: Content | str = ""
        if row is not None and self._chains is not None:
            told = detail(self._chains, row, self.size.width - 2, self._glyphs)
        self.query_one("#detail", Static).update(told)

    def on_holder_tree_highlighted(self) -> None:
        """Tell of the chain under the cursor."""
        self._tell()

    def action_copy(self) -> None:
        """Copy the chain up to the row under the cursor."""
        row = self.tree_view.row
        if row is None or self._chains is None:
            self.notify("There is no chain to copy.", markup=False)
            return
        self.app.copy_to_clipboard(self._chains.text(self._chains.steps(row)))
        self.notify("The chain up to this row is copied, if this terminal allows it (OSC 52).", markup=False)
