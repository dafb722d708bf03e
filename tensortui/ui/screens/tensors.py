"""The Tensors screen: totals, the table of storages and their tensors, and the details of one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from tensortui.analysis.filtering import Filter, FilterError, parse
from tensortui.model import LIVE, Tensor
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.groups import GROUP_MODES
from tensortui.ui.lines import show, tensors_text
from tensortui.ui.rows import Rows
from tensortui.ui.screens.columns import ColumnsScreen
from tensortui.ui.states import coverage, lost_notice, why_empty
from tensortui.ui.widgets.filter_bar import FILTER, SEARCH, Entry, FilterBar
from tensortui.ui.widgets.inspector import Inspector
from tensortui.ui.widgets.key_line import KeyLine
from tensortui.ui.widgets.output_pane import OutputPane
from tensortui.ui.widgets.status_line import TICK_SECONDS, StatusLine
from tensortui.ui.widgets.tab_bar import TabBar
from tensortui.ui.widgets.tensor_tree import TensorTree
from tensortui.ui.widgets.totals_line import TotalsLine

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

WIDE = 130  # from this width on the details stand beside the table
KEYS = (
    ("f", "filter"),
    ("/", "search"),
    ("s", "sort"),
    ("b", "group"),
    ("enter", "open"),
    ("i", "details"),
    ("h", "holders"),
    ("q", "quit"),
    ("2", "layout"),
    ("6", "findings"),
    ("7", "growth"),
    ("3", "graph"),
    ("space", "pause"),
    ("c", "columns"),
    ("y", "copy"),
    ("e", "export"),
    ("?", "help"),
    ("w", "coverage"),
    ("o", "output"),
    ("[ ]", "pan"),
    ("D", "detach"),
)


class TensorsScreen(Screen[None]):
    """Paints what the feed holds, at most four times a second, and only when something differs."""

    MANUAL = "tensors"
    DEFAULT_CSS = """
    TensorsScreen {
        layout: vertical; background: $background;
        #notice { height: auto; padding: 0 1; display: none; color: $strong; background: $panel; }
        #notice.-shown { display: block; }
        #hint { height: auto; padding: 0 1; display: none; color: $warning; background: $panel; }
        #hint.-shown { display: block; }
        #body { height: 1fr; }
        #body.-stacked { layout: vertical; }
        #empty {
            width: 1fr; height: 1fr; content-align: center middle; color: $dim; text-align: center; display: none;
        }
    }
    TensorsScreen.-empty #body, TensorsScreen.-empty FilterBar, TensorsScreen.-empty TotalsLine { display: none; }
    TensorsScreen.-empty #empty { display: block; }
    TensorsScreen Inspector { display: none; }
    TensorsScreen.-inspect Inspector { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "filter", "Filter", id="tensors.filter", tooltip="show only some tensors"),
        Binding("slash", "search", "Search", id="tensors.search", key_display="/", tooltip="find a tensor by its name"),
        Binding("n", "find(1)", "Next", show=False, id="tensors.next", tooltip="next one found"),
        Binding("N", "find(-1)", "Previous", show=False, id="tensors.previous", tooltip="previous one found"),
        Binding("b", "group", "Group by", id="tensors.group", tooltip="group by storage, category, holder or shape"),
        Binding("i", "inspect", "Details", id="tensors.inspect", tooltip="details of the selected tensor"),
        Binding("h,H", "app.holders", "Holders", id="tensors.holders", tooltip="what keeps the selected tensor alive"),
        Binding(
            "ctrl+d,full_stop",
            "scroll_details(1)",
            "Details down",
            show=False,
            id="tensors.details-down",
            key_display=".",
            tooltip="scroll the details down",
        ),
        Binding(
            "ctrl+u,comma",
            "scroll_details(-1)",
            "Details up",
            show=False,
            id="tensors.details-up",
            key_display=",",
            tooltip="scroll the details up",
        ),
        Binding("c", "columns", "Columns", id="tensors.columns", tooltip="choose the columns and their order"),
        Binding("space", "app.pause", "Pause", id="tensors.pause", tooltip="no new samples until pressed again"),
        Binding("y", "copy", "Copy", id="tensors.copy", tooltip="copy the selected tensor as JSON"),
        Binding("e", "export", "Export", id="tensors.export", tooltip="write the whole sample to a JSON file"),
        Binding("o", "output", "Output", show=False, id="tensors.output", tooltip="what the program prints"),
        Binding(
            "w",
            "coverage",
            "Coverage",
            show=False,
            id="tensors.coverage",
            tooltip="whether every tensor was seen, and if not, why",
        ),
        Binding(
            "escape", "back", "Back", show=False, id="tensors.back", tooltip="close details, then clear the filter"
        ),
    ]

    app: TensortuiApp

    def __init__(self, feed: Feed, glyphs: Glyphs, clock: Callable[[], float], log: Path | None = None) -> None:
        """Show what `feed` brings; `log` is the file that the program's output goes to."""
        super().__init__()
        self.feed = feed
        self.rows = Rows(feed.thresholds)
        self.glyphs = glyphs
        self._clock = clock
        self._status = StatusLine(feed, glyphs)
        self._tabs = TabBar("Tensors")
        self._totals = TotalsLine(glyphs)
        self._bar = FilterBar(glyphs)
        self.tree_view = TensorTree(self.rows, glyphs, clock, id="tree")
        self._inspector = Inspector(self.rows, feed, glyphs)
        self._output = OutputPane(log, glyphs)
        self._filter_text = ""
        self._filter_before = ""
        self._filter_whole: Filter | None = None
        self._error = ""
        self._needle = ""
        self._search_from: tuple[str, Any] | None = None
        self._fresh = True  # the next sample is the first that is whole: nothing of it is news

    def compose(self) -> Iterator[Widget]:
        """Lines at the top, the table with the details beside or below it, keys at the bottom."""
        yield self._status
        yield self._tabs
        yield Static("", id="notice", markup=False)
        yield self._totals
        yield self._bar
        yield Static("", id="hint", markup=False)
        with Horizontal(id="body"):
            yield self.tree_view
            yield self._inspector
        yield Static("", id="empty", markup=False)
        yield self._output
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Start painting."""
        self.tree_view.focus()
        self.tree_view.choose_columns(self.app.columns)
        self.set_interval(TICK_SECONDS, self.tick)
        self.tick()
        self._notices()

    # -- painting

    def tick(self) -> None:
        """Paint what is new. Nothing happens while another screen covers this one."""
        if not self.is_active:
            return
        self._status.refresh_at(self._clock())
        self._tabs.tell(self.feed.findings)
        self._output.follow()
        if self.tree_view.busy:
            return
        if self.feed.dirty:
            self._take()
        else:
            self.tree_view.expire_marks()

    def _take(self) -> None:
        change = self.feed.take()
        sample = self.feed.sample
        if sample is not None and sample is not self.rows.sample:
            self.tree_view.take(sample, self.feed.accounts, change, None if self._fresh else change)
            self._fresh = sample.phase != LIVE
            self._totals.show_totals(self.feed.accounts.totals)
        self._notices()

    def _notices(self) -> None:
        ended = self.feed.ended
        notice = self.query_one("#notice", Static)
        notice.set_class(ended is not None, "-shown")
        if ended is not None:
            notice.update(lost_notice(self.feed, ended, self.glyphs))
        sample = self.feed.sample
        empty = sample is None or (not sample.tensors and not self.rows.ghosts)
        self.set_class(empty, "-empty")
        if empty:
            self.query_one("#empty", Static).update(why_empty(self.feed, self.glyphs))

    def _say(self) -> None:
        whole = len(self.rows.sample.tensors) if self.rows.sample is not None else 0
        self._bar.show(self._filter_text, self.tree_view.view, shown=self.rows.shown, whole=whole)
        hint = self.query_one("#hint", Static)
        hint.set_class(bool(self._error), "-shown")
        if self._error:
            meanwhile = f"the rows are those of {self._filter_before!r}" if self._filter_whole else "all rows stay"
            error = self._error if self._error.endswith((".", "?")) else f"{self._error}."
            hint.update(f"{self.glyphs.warn} {show(error, self.glyphs)} Meanwhile {show(meanwhile, self.glyphs)}.")

    def _show_details(self) -> None:
        if self.has_class("-inspect"):
            self._inspector.show_record(self.tree_view.selected or self.tree_view.storage or self.tree_view.group)

    def on_resize(self, event: Resize) -> None:
        """Put the details beside the table or below it."""
        narrow = event.size.width < WIDE
        self.query_one("#body", Horizontal).set_class(narrow, "-stacked")
        self._inspector.set_class(narrow, "-below")
        self._status.refresh_at(self._clock())
        self._say()

    # -- what the table says

    def on_tensor_tree_highlighted(self) -> None:
        """Follow the cursor with the details, and tell the source what is on screen."""
        self._show_details()
        self.feed.watching.show(tensor.id for tensor in self.tree_view.visible_tensors())

    def on_tensor_tree_opened(self) -> None:
        """Show the details of the tensor that was opened."""
        self.action_inspect()

    def on_tensor_tree_arranged(self) -> None:
        """Say the new order, and how many rows show."""
        self._say()

    # -- filter and search

    def action_filter(self) -> None:
        """Type a filter."""
        self._filter_before = self._filter_text
        self._filter_whole = self.tree_view.view.filter
        self._bar.start(FILTER, self._filter_text)
        self._say()

    def action_search(self) -> None:
        """Type a part of a name."""
        self._search_from = self.tree_view.place
        self._bar.start(SEARCH, "")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter, or go to what is found, as it is typed."""
        if not self._bar.typing:
            return
        if self._bar.kind == FILTER:
            self.set_filter(event.value)
        elif event.value:
            self._needle = event.value
            self.tree_view.search(event.value, 1, here=True)

    def on_entry_left(self, event: Entry.Left) -> None:
        """Back to the table."""
        if not self._bar.typing:
            return
        kept = event.kept and not (self._error and self._bar.kind == FILTER)
        if event.kept and not kept and self._bar.entry.has_focus:
            return  # what is wrong about it is on screen: it can be mended, or left
        if not kept:
            if self._bar.kind == FILTER:
                self.set_filter(self._filter_before)
            else:
                self.tree_view.return_to(self._search_from)
        self._bar.stop()
        self.set_focus(self.tree_view)
        self._say()
        if self._bar.kind == SEARCH and kept and self._needle:
            self._found(self.tree_view.search(self._needle, 1, here=True))

    def set_filter(self, text: str) -> None:
        """Filter by `text`; one that cannot be understood says why and does nothing."""
        self._filter_text = text
        chosen: Filter | None
        try:
            chosen = parse(text)
        except FilterError as error:
            self._error = error.cause
            # Half a term, as a rule: until it is whole, the rows are those from before the typing.
            chosen = self._filter_whole
        else:
            self._error = ""
        self.tree_view.look(filter=chosen or None)
        self._say()

    def action_find(self, step: int) -> None:
        """Go to the next or previous tensor found."""
        if self._needle:
            self._found(self.tree_view.search(self._needle, step))
        else:
            self.action_search()

    def _found(self, found: bool) -> None:
        if not found:
            words = f"No name here holds {show(self._needle, self.glyphs)!r}."
            self.notify(words, markup=False, severity="warning")

    # -- the other keys

    def action_group(self) -> None:
        """Group by the next of storage, category, holder, shape."""
        self.group_by(GROUP_MODES[(GROUP_MODES.index(self.tree_view.view.group_by) + 1) % len(GROUP_MODES)])

    def group_by(self, mode: str) -> None:
        """Group by `mode`."""
        self.tree_view.look(group_by=mode)

    def action_inspect(self) -> None:
        """Show or hide the details."""
        self.toggle_class("-inspect")
        self._show_details()

    def action_scroll_details(self, step: int) -> None:
        """Scroll the details."""
        self._inspector.scroll_relative(y=step * max(self._inspector.size.height - 2, 1), animate=False)

    def action_back(self) -> None:
        """Close the details; with none open, clear the filter."""
        if self.has_class("-inspect"):
            self.remove_class("-inspect")
        elif self._filter_text:
            self.set_filter("")

    def action_columns(self) -> None:
        """Choose the columns."""
        self.app.push_screen(ColumnsScreen(self.tree_view.shown_columns), self._columns_chosen)

    def _columns_chosen(self, keys: tuple[str, ...] | None) -> None:
        if keys is not None:
            self.app.columns = keys
            self.tree_view.choose_columns(keys)

    def action_copy(self) -> None:
        """Copy the selected tensor as JSON to the clipboard of the terminal."""
        tensor = self.tree_view.selected
        if tensor is None:
            self.notify("Select a tensor first: those of a storage are under it.", markup=False)
            return
        from tensortui.ui.export import tensor_json

        self.app.copy_to_clipboard(tensor_json(tensor, self.rows.storage(tensor.storage), self.rows.accounts))
        self.notify("The selected tensor is copied as JSON, if this terminal allows it (OSC 52).", markup=False)

    @work(group="export", exit_on_error=False)
    async def action_export(self) -> None:
        """Write the JSON document of the sample to a file of the current directory."""
        sample = self.feed.sample
        if sample is None:
            self.notify("There is no sample to write yet.", markup=False)
            return
        from tensortui.ui.export import export

        self.notify(f"Writing {tensors_text(len(sample.tensors))} to a JSON file.", markup=False)
        try:
            path = await asyncio.to_thread(export, sample, Path.cwd())
        except OSError as error:
            why = show(error.strerror or str(error), self.glyphs)
            self.notify(f"The JSON file could not be written: {why}.", severity="error", markup=False)
        else:
            name = show(path.name, self.glyphs)
            self.notify(f"This sample was written as JSON into the directory you started in: {name}", markup=False)

    def action_output(self) -> None:
        """Show or hide what the program prints."""
        self._output.display = not self._output.display
        self._output.follow()

    @property
    def any_selected(self) -> Tensor | None:
        """The selected tensor, or the first one on the selected storage."""
        tensor, storage = self.tree_view.selected, self.tree_view.storage
        if tensor is not None or storage is None:
            return tensor
        account = self.rows.accounts.account(storage.id)
        return self.rows.tensor(account.tensors[0]) if account is not None and account.tensors else None

    def go_to(self, tid: int) -> None:
        """Put the cursor on a tensor; a filter that leaves it out is cleared."""
        if not self.tree_view.go_to(tid):
            self.tree_view.aim(tid)  # the rows may be of an older sample: another screen was in front
            sample, wanted = self.feed.sample, self.tree_view.rows.view.filter
            tensor = sample.tensors.get(tid) if sample is not None else None
            if sample is None or tensor is None or (wanted and not wanted.matches(tensor, sample.storages)):
                self.set_filter("")
        self.tree_view.focus()

    def action_coverage(self) -> None:
        """Say whether every tensor was seen."""
        title, text = coverage(self.feed.sample, self.glyphs)
        self.notify(text, title=title, markup=False, timeout=15)
