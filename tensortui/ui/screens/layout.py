"""The Layout screen: where a tensor lies in its storage, the address of an element, and what operations would cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from tensortui.analysis.layout import LayoutError, element
from tensortui.analysis.layout.asking import parse
from tensortui.model import Tensor
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.looking import Look
from tensortui.ui.markup import content
from tensortui.ui.sharing import LEAST_GRID, ROOMY, plan
from tensortui.ui.widgets.ask_line import AskLine
from tensortui.ui.widgets.cost_table import asked_lines, costs_content, usual
from tensortui.ui.widgets.element_facts import facts_content, find
from tensortui.ui.widgets.element_grid import HEAD, OFFSETS, WALK, grid_content
from tensortui.ui.widgets.filter_bar import Entry
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.layout_head import about, head_content
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.storage_ribbon import ribbon_content
from tensortui.ui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

KEYS = (
    ("arrows", "move"),
    ("i", "index, byte"),
    ("c", "cost"),
    ("o", "order"),
    ("esc", "back"),
    ("q", "quit"),
    ("?", "help"),
    ("[ ]", "other tensor"),
    ("d", "dims"),
    ("H", "holders"),
    ("+ -", "slice"),
)
SAID = 3  # lines of an answer, or of what is wrong with a question


class LayoutScreen(Screen[int | None]):
    """Follows one tensor; leaving gives the tensor that was looked at last."""

    MANUAL = "layout"
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    LayoutScreen {
        layout: vertical; background: $background; overflow: hidden;
        #head, #ribbon, #grid, #facts, #said, #asked, #usual { text-wrap: nowrap; }
        #head, #ribbon, #asked, #usual, #facts { height: auto; }
        #middle { height: 1fr; }
        #grid { width: 1fr; height: auto; }
        #side { width: 46%; height: auto; }
        #said { height: auto; display: none; color: $warning; }
        #said.-shown { display: block; }
    }
    LayoutScreen.-roomy #ribbon, LayoutScreen.-roomy #middle, LayoutScreen.-roomy #cost { margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Up", show=False, id="layout.up", tooltip="one element up"),
        Binding("down,j", "move(1, 0)", "Down", show=False, id="layout.down", tooltip="one element down"),
        Binding("left,h", "move(0, -1)", "Left", show=False, id="layout.left", tooltip="one element to the left"),
        Binding("right,l", "move(0, 1)", "Right", show=False, id="layout.right", tooltip="one element to the right"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="layout.page-up", tooltip="one page of rows up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="layout.page-down", tooltip="one page of rows down"),
        Binding("home,g", "edge(0)", "First", show=False, id="layout.first", tooltip="the first element"),
        Binding("end,G", "edge(-1)", "Last", show=False, id="layout.last", tooltip="the last element"),
        Binding(
            "i,slash",
            "ask('index')",
            "Index",
            id="layout.index",
            key_display="i",
            tooltip="go to an index, a byte, an offset or an address",
        ),
        Binding("c", "ask('cost')", "Cost", id="layout.cost", tooltip="what an operation on this tensor would cost"),
        Binding(
            "o", "order", "Order", id="layout.order", tooltip="offsets, or the order in which memory comes to them"
        ),
        Binding("d", "dims", "Dims", id="layout.dims", tooltip="show the next two dimensions"),
        Binding("plus", "slice(1)", "Next slice", show=False, id="layout.next", key_display="+", tooltip="next slice"),
        Binding(
            "minus", "slice(-1)", "Last slice", show=False, id="layout.before", key_display="-", tooltip="slice before"
        ),
        Binding(
            "right_square_bracket",
            "mate(1)",
            "Next tensor",
            show=False,
            id="layout.next-tensor",
            key_display="]",
            tooltip="next tensor on this storage",
        ),
        Binding(
            "left_square_bracket",
            "mate(-1)",
            "Tensor before",
            show=False,
            id="layout.tensor-before",
            key_display="[",
            tooltip="tensor before it on this storage",
        ),
        Binding("H", "app.holders", "Holders", id="layout.holders", tooltip="what keeps this tensor alive"),
        Binding("n", "heir", "Its name", show=False, id="layout.heir", tooltip="if it is gone: what has its name now"),
        Binding("escape", "back", "Back", show=False, id="layout.back", tooltip="back to the tensors"),
    ]

    app: TensortuiApp

    def __init__(self, tensor: Tensor, feed: Feed, glyphs: Glyphs, clock: Callable[[], float]) -> None:
        """Look at a tensor of `feed`."""
        super().__init__()
        self.look = Look(tensor)
        self._feed = feed
        self._glyphs = glyphs
        self._clock = clock
        self._status = StatusLine(feed, glyphs)
        self._tabs = TabBar("Layout")
        self._index = AskLine("element", "i", self.look.example, glyphs, id="index")
        self._cost = AskLine("what would it cost", "c", "view(-1) or t().contiguous()", glyphs, id="cost")
        self._mode = OFFSETS
        self._seen: object = None
        self._grid_rows = LEAST_GRID
        self._said = ""
        self._before: tuple[int, tuple[int, ...], str] = (tensor.id, (), "")  # what an index that is left goes back to

    def compose(self) -> Iterator[Widget]:
        """The frame of every screen, and the parts from the storage to the operations."""
        yield self._status
        yield self._tabs
        yield Static("", id="head", markup=False)
        yield Static("", id="ribbon", markup=False)
        with Horizontal(id="middle"):
            yield Static("", id="grid", markup=False)
            with Vertical(id="side"):
                yield self._index
                yield Static("", id="said", markup=False)
                yield Static("", id="facts", markup=False)
        yield self._cost
        yield Static("", id="asked", markup=False)
        yield Static("", id="usual", markup=False)
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Start painting."""
        self._take()
        self.paint()
        self.set_interval(TICK_SECONDS, self.tick)

    def tick(self) -> None:
        """Paint what is new."""
        if not self.is_active:
            return
        self._status.refresh_at(self._clock())
        self._tabs.tell(self._feed.findings)
        if self._feed.sample is not self._seen and self._take():
            self.paint()

    def _take(self) -> bool:
        self._seen = sample = self._feed.sample
        return sample is not None and self.look.take(sample, self._feed.accounts)

    def on_resize(self, event: Resize) -> None:
        """Share out the new size."""
        self._status.refresh_at(self._clock())
        self.paint()

    def paint(self) -> None:
        """Write every part anew, for the size of the terminal."""
        look, glyphs, room = self.look, self._glyphs, self.size.width
        if not room:
            return
        text = self._cost.entry.value if self._cost.typing else self._cost.asked
        place = look.place
        asked = asked_lines(place, text, room, glyphs, look.absent) if text and place is not None else []
        lines = sum(piece.count("\n") for piece, _ in asked)
        share = plan(
            self.size.height,
            about=len(about(look, room, glyphs)),
            mates=max(len(look.mates), 1),
            usual=len(usual(place, look.absent)) if place is not None else 0,
            asked=lines,
            gone=look.gone,
        )
        self._grid_rows = share.grid
        self.set_class(self.size.height >= ROOMY, "-roomy")
        side = room * 46 // 100
        grid = max(room - side, 20)
        told = wrap(show(self._said, glyphs), max(side - 3, 16))[:SAID]
        facts = max(share.grid + HEAD - 1 - len(told), 1)
        for name, part in (
            ("head", head_content(look, share.about, room, glyphs)),
            ("ribbon", ribbon_content(look, share.mates, room, glyphs)),
            ("grid", grid_content(look, share.grid, grid - 1, self._mode, glyphs)),
            ("facts", facts_content(look, facts, side - 1, glyphs)),
            ("asked", content(asked)),
            ("usual", costs_content(place, share.costs, room, glyphs, text.strip(), look.absent)),
        ):
            widget = self.query_one(f"#{name}", Static)
            widget.display = bool(part)
            widget.update(part.rstrip("\n"))
        self._index.display = self._cost.display = place is not None
        self._index.suggest(look.example)
        said = self.query_one("#said", Static)
        said.set_class(bool(told), "-shown")
        said.update(content([(" " + "\n ".join(told), "")]))

    # -- the element under the cursor

    def action_move(self, down: int, across: int) -> None:
        """Move the cursor in the grid."""
        self.look.move(down, across)
        self._forget()
        self.paint()

    def _forget(self) -> None:
        """What was asked about an element is no longer what is shown."""
        self._said = ""
        if not self._index.typing:
            self._index.stop("")

    def action_page(self, step: int) -> None:
        """Move by as many rows as there are."""
        self.action_move(step * self._grid_rows, 0)

    def action_edge(self, at: int) -> None:
        """Go to the first or the last element."""
        place = self.look.place
        if place is not None:
            self._forget()
            self.look.go(tuple(0 if at == 0 else max(size - 1, 0) for size in place.shape))
            self.paint()

    def action_order(self) -> None:
        """Show the order of memory instead of offsets, or back."""
        self._mode = WALK if self._mode == OFFSETS else OFFSETS
        self.paint()

    def action_dims(self) -> None:
        """Show two other dimensions."""
        self.look.turn()
        self.paint()

    def action_slice(self, step: int) -> None:
        """Go along the dimensions that are not shown."""
        self.look.slice(step)
        self._forget()
        self.paint()

    # -- what is typed

    def action_ask(self, what: str) -> None:
        """Type an index, or an operation."""
        if self.look.place is not None:
            self._before = self.look.tid, self.look.index, self._said
            (self._index if what == "index" else self._cost).start()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Answer as it is typed."""
        if self._cost.typing:
            self.paint()
        elif self._index.typing:
            self._find(event.value)

    def on_entry_left(self, event: Entry.Left) -> None:
        """The typing is over."""
        for line in (self._index, self._cost):
            if line.typing:
                if line is self._index:
                    self._find(line.entry.value) if event.kept else self._go_back()
                line.stop(line.entry.value.strip() if event.kept else line.asked)
        self.set_focus(None)
        self.paint()

    def _go_back(self) -> None:
        """To the element that was shown before an index was typed, and what was said of it."""
        tid, index, self._said = self._before
        shape = self.look.tensor.shape or ()
        if tid == self.look.tid and len(index) == len(shape) and all(map(int.__lt__, index, shape)):
            self.look.go(index)

    def _find(self, text: str) -> None:
        look = self.look
        try:
            if not text.strip() or look.place is None:
                self._said = ""
                return
            index, self._said = find(parse(text), look)
            if index is not None:
                look.go(element(look.place, index).index)
        except LayoutError as error:
            self._said = str(error)
        finally:
            self.paint()

    # -- other tensors

    def action_mate(self, step: int) -> None:
        """Look at another tensor on the same storage."""
        tensor = self.look.neighbour(step)
        if tensor is None:
            self.notify("No other tensor lies on this storage.", markup=False)
        else:
            self._choose(tensor)

    def action_heir(self) -> None:
        """Where the tensor is gone, look at the one that has its name now."""
        if self.look.heir is not None:
            self._choose(self.look.heir)

    def _choose(self, tensor: Tensor) -> None:
        self._forget()
        self.look.choose(tensor)
        self._take()
        self.paint()

    @property
    def chosen(self) -> int | None:
        """The tensor to go back to; None where it is gone."""
        return None if self.look.gone else self.look.tid

    def action_back(self) -> None:
        """Back to the table, on the tensor that was looked at."""
        self.dismiss(self.chosen)
