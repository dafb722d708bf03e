"""The Findings screen: what is worth telling about the newest sample, each with its evidence and the cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tensortui.analysis.findings import Finding
from tensortui.analysis.text import pad
from tensortui.analysis.units import format_bytes
from tensortui.ui.columns import dims_text, name_text
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import fit, show
from tensortui.ui.markup import Piece, content
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

KEYS = (("enter", "go to the tensor"), ("1", "tensors"), ("?", "help"), ("q", "quit"))
STYLES = {"error": "bold $error", "warning": "bold $warning", "note": "$dim"}
WORD = 9  # the longest severity, and its sign
KIND = 18
WIDE = 100
TENSORS = 6
NONE = """no findings

the tensors and storages of the newest sample were looked through,
not the autograd graphs behind them, which may keep memory too:
press 3 on a tensor, or look with `tensortui snapshot PID --graph`"""


def kind_cells(room: int) -> int:
    """The width of the kind's column; none where the title needs the room."""
    return KIND if room >= WIDE else 0


def heading(room: int, glyphs: Glyphs) -> Content:
    """The column titles."""
    lead = len(glyphs.warn) + 1
    return content([(f" {pad('severity', lead + WORD)}{pad('kind', kind_cells(room))}what", "$dim")])


def line(finding: Finding, room: int, glyphs: Glyphs) -> Content:
    """The line of one finding: its severity, its kind, its title."""
    sign = " " * len(glyphs.warn) if finding.severity == "note" else glyphs.warn
    kind = kind_cells(room)
    title = fit(show(finding.title, glyphs), max(room - len(sign) - WORD - kind - 2, 10), glyphs)
    return content(
        [
            (f" {sign} {pad(finding.severity, WORD)}", STYLES[finding.severity]),
            (pad(finding.kind, kind), "$dim"),
            (title, ""),
        ]
    )


def detail(finding: Finding, feed: Feed, glyphs: Glyphs) -> Content:
    """All that is known of one finding."""
    pieces: list[Piece] = [
        (f"{finding.kind}  ", "$dim"),
        (f"{show(finding.title, glyphs)}\n", "bold $strong"),
        (f"{show(finding.advice, glyphs)}\n", ""),
    ]
    for key, value in finding.evidence.items():
        text = format_bytes(value) if "bytes" in key and isinstance(value, int) else _plain(value)
        pieces += [(f"\n{key.replace('_', ' '):<16}", "$dim"), (show(text, glyphs), "")]
    sample = feed.sample
    tensors = [sample.tensors.get(tid) for tid in finding.tensors[:TENSORS]] if sample is not None else []
    for tensor in tensors:
        if tensor is not None:
            pieces += [("\ntensor          ", "$dim"), (show(name_text(tensor), glyphs), "")]
            pieces.append((f"  {dims_text(tensor.shape)}", "$dim"))
    if len(finding.tensors) > TENSORS:
        pieces.append((f"\n{'':<16}and {len(finding.tensors) - TENSORS} more", "$dim"))
    return content(pieces)


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class FindingsScreen(Screen[int | None]):
    """A list that follows the feed; leaving it by enter gives the tensor to go to."""

    MANUAL = "findings"
    DEFAULT_CSS = """
    FindingsScreen {
        layout: vertical; background: $background;
        #heading { height: 1; background: $panel; text-wrap: nowrap; }
        #list {
            height: 1fr; border: none; padding: 0; background: $surface; background-tint: $background 0%;
            scrollbar-size-vertical: 1;
        }
        #list > .option-list--option { padding: 0; }
        #list > .option-list--option-highlighted { background: $cursor; color: $strong; text-style: none; }
        #detail { height: auto; min-height: 4; max-height: 50%; padding: 0 1; border-top: solid $border; }
        #none { height: 1fr; content-align: center middle; text-align: center; display: none; color: $dim; }
    }
    FindingsScreen.-none #list, FindingsScreen.-none #heading, FindingsScreen.-none #detail { display: none; }
    FindingsScreen.-none #none { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", "Go to", show=False, id="findings.go", tooltip="show the tensor in the table"),
        Binding("j", "move('down')", "Down", show=False, id="findings.down", tooltip="next finding"),
        Binding("k", "move('up')", "Up", show=False, id="findings.up", tooltip="previous finding"),
        Binding("g", "move('first')", "First", show=False, id="findings.first", tooltip="first finding"),
        Binding("G", "move('last')", "Last", show=False, id="findings.last", tooltip="last finding"),
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

    def compose(self) -> Iterator[Widget]:
        """The frame of every screen, the list, and what is known of the highlighted one."""
        yield self._status
        yield self._tabs
        yield Static("", id="heading", markup=False)
        yield OptionList(id="list", markup=False)
        yield Static("", id="none", markup=False)
        yield Static("", id="detail", markup=False)
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

    def on_resize(self, event: Resize) -> None:
        """Fit the new width."""
        self._status.refresh_at(self._clock())
        self._paint()

    def _paint(self) -> None:
        listing = self.query_one(OptionList)
        held = self._highlighted
        self._shown = found = self._feed.findings
        self._tabs.tell(found)
        self.set_class(not found, "-none")
        self.query_one("#none", Static).update(NONE if self._feed.judged is not None else "looking")
        self.query_one("#heading", Static).update(heading(self.size.width, self._glyphs))
        listing.clear_options()
        listing.add_options([Option(line(finding, self.size.width, self._glyphs)) for finding in found])
        if found:
            same = (at for at, one in enumerate(found) if held is not None and _what(one) == _what(held))
            listing.highlighted = next(same, 0)
            listing.focus()
        self._tell()

    @property
    def _highlighted(self) -> Finding | None:
        at = self.query_one(OptionList).highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def _tell(self) -> None:
        finding = self._highlighted
        told = detail(finding, self._feed, self._glyphs) if finding is not None else ""
        self.query_one("#detail", Static).update(told)

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


def _what(finding: Finding) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return (finding.kind, finding.tensors, finding.storages)
