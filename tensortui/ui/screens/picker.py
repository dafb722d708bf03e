"""The process picker: which Python processes there are, and which can be attached to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tensortui.analysis.text import pad
from tensortui.analysis.units import format_age, format_bytes
from tensortui.errors import TensortuiError
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import fit, show
from tensortui.ui.markup import Piece, content, spread
from tensortui.ui.widgets.key_line import KeyLine

if TYPE_CHECKING:
    from tensortui.ui.app import Picker, TensortuiApp

REFRESH_SECONDS = 2.0
KEYS = (("enter", "attach"), ("a", "all or torch only"), ("r", "look again"), ("?", "help"), ("q", "quit"))
NO_GPU = "-"
ENDED = "ended"
AGE_SLACK = 1.0  # seconds by which two readings of a start may differ


class ProcessLike(Protocol):
    """What the picker reads of a process; None is what could not be seen."""

    @property
    def pid(self) -> int: ...  # noqa: D102
    @property
    def command(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def role(self) -> str: ...  # noqa: D102
    @property
    def age(self) -> float: ...  # noqa: D102
    @property
    def threads(self) -> int | None: ...  # noqa: D102
    @property
    def python(self) -> tuple[int, int] | None: ...  # noqa: D102
    @property
    def torch(self) -> bool | None: ...  # noqa: D102
    @property
    def rank(self) -> int | None: ...  # noqa: D102
    @property
    def world_size(self) -> int | None: ...  # noqa: D102
    @property
    def attachable(self) -> bool: ...  # noqa: D102
    @property
    def why_not(self) -> str: ...  # noqa: D102
    @property
    def agent(self) -> bool: ...  # noqa: D102
    @property
    def stopped(self) -> bool: ...  # noqa: D102
    @property
    def gpu_memory(self) -> int | None: ...  # noqa: D102


TITLES = (("pid", 8, True), ("age", 7, True), ("rank", 6, True), ("threads", 7, True), ("GPU memory", 10, True),
          ("torch", 5, False), ("attach", 8, False))  # fmt: skip
NARROW = ("rank", "threads")  # give way below WIDE
WIDE = 100


def columns(room: int) -> list[tuple[str, int, bool]]:
    """The columns before the command in a line of `room` cells."""
    return [column for column in TITLES if room >= WIDE or column[0] not in NARROW]


def heading(room: int) -> Content:
    """The column titles."""
    cells = [pad(title, width, right=right) for title, width, right in columns(room)]
    return content([(" " + "  ".join([*cells, "command"]), "$dim")])


def state(process: ProcessLike) -> str:
    """Whether a process can be attached to, in a word or two."""
    if process.agent:
        return "stopped" if process.stopped else "agent in"
    return "ready" if process.attachable else "cannot"


def line(process: ProcessLike, room: int, glyphs: Glyphs, *, ended: bool = False) -> Content:
    """The line of one process, or of one that has `ended` while it was chosen."""
    rank = "" if process.rank is None else f"{process.rank}"
    if rank and process.world_size is not None:
        rank += f"/{process.world_size}"
    values = {
        "pid": str(process.pid),
        "age": format_age(process.age),
        "rank": rank,
        "threads": "n/a" if process.threads is None else str(process.threads),
        "GPU memory": NO_GPU if process.gpu_memory is None else format_bytes(process.gpu_memory),
        "torch": "n/a" if process.torch is None else "yes" if process.torch else "no",
        "attach": ENDED if ended else state(process),
    }
    styles = {"agent in": "$primary", "stopped": "$warning", "ready": "$success", "cannot": "$error", ENDED: "$dim"}
    pieces: list[Piece] = [(" ", "")]
    for title, width, right in columns(room):
        style = "$strong" if title == "pid" else styles.get(values[title], "") if title == "attach" else ""
        pieces += [(pad(values[title], width, right=right), style), ("  ", "")]
    used = sum(width + 2 for _, width, _ in columns(room)) + 1
    command = fit(
        show(process.title, glyphs), max(room - used - 1, 10), glyphs, keep="start" if process.role else "both"
    )
    pieces.append((command, "" if process.attachable and not ended else "$dim"))
    return content(pieces)


class PickerScreen(Screen[None]):
    """A list that looks again every two seconds and keeps the highlighted process, also when that ends meanwhile."""

    MANUAL = "picker"
    AUTO_FOCUS = ""  # an empty list would swallow enter; it has the focus as soon as there is something in it
    DEFAULT_CSS = """
    PickerScreen {
        layout: vertical; background: $background;
        .line { height: 1; text-wrap: nowrap; }
        #title { background: $panel; }
        #heading { background: $panel; }
        #list {
            height: 1fr; border: none; padding: 0; background: $surface; background-tint: $background 0%;
            scrollbar-size-vertical: 1;
        }
        #list > .option-list--option { padding: 0; }
        #list > .option-list--option-highlighted { background: $cursor; color: $strong; text-style: none; }
        #detail { height: auto; min-height: 2; max-height: 8; padding: 0 1; border-top: solid $border; }
        #none { height: 1fr; content-align: center middle; text-align: center; display: none; color: $dim; }
    }
    PickerScreen.-none #list, PickerScreen.-none #heading { display: none; }
    PickerScreen.-none #none { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Attach", show=False, id="picker.attach", tooltip="attach to the process"),
        Binding("j", "move('down')", "Down", show=False, id="picker.down", tooltip="next process"),
        Binding("k", "move('up')", "Up", show=False, id="picker.up", tooltip="previous process"),
        Binding("g", "move('first')", "First", show=False, id="picker.first", tooltip="first process"),
        Binding("G", "move('last')", "Last", show=False, id="picker.last", tooltip="last process"),
        Binding("a", "all", "All", id="picker.all", tooltip="show Python processes without torch too, or hide them"),
        Binding("r", "look", "Look again", id="picker.look", tooltip="look for processes now"),
    ]

    app: TensortuiApp

    def __init__(self, picker: Picker, glyphs: Glyphs) -> None:
        """List and attach by means of `picker`."""
        super().__init__()
        self._picker = picker
        self._glyphs = glyphs
        self._processes: list[ProcessLike] = []
        self._ended: tuple[int, ProcessLike] | None = None  # the chosen one, and its place, if it has ended
        self._everything = False
        self._looked = False
        self._chosen = False  # enter came before the list
        self._attaching: int | None = None
        self._failure: tuple[int, TensortuiError] | None = None  # and the process that it is about

    def compose(self) -> Iterator[Widget]:
        """A title, the list, what is known of the highlighted process, the keys."""
        yield Static("", id="title", classes="line", markup=False)
        yield Static("", id="heading", classes="line", markup=False)
        yield OptionList(id="list", markup=False)
        yield Static("looking for Python processes", id="none", markup=False)
        yield Static("", id="detail", markup=False)
        yield KeyLine(KEYS)

    def on_mount(self) -> None:
        """Look now and from then on."""
        self.set_class(True, "-none")
        self.set_interval(REFRESH_SECONDS, self._again)
        self.action_look()

    def on_screen_resume(self) -> None:
        """Back from a process: the list may be old."""
        if self._looked:
            self.action_look()

    def _again(self) -> None:
        if self.is_current and self._attaching is None and not self._under_way():
            self.action_look()

    def _under_way(self) -> bool:
        """Whether the processes are being listed: where that takes long, one more would end it before it is shown."""
        return any(worker.group == "processes" and worker.is_running for worker in self.workers)

    def action_look(self) -> None:
        """List the processes, in a thread: some of it waits for the kernel."""
        self._look()

    @work(group="processes", exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        try:
            found: Sequence[ProcessLike] = await asyncio.to_thread(self._picker.processes)
        except Exception as error:  # whatever it is: the list stays as it was, and says why
            why = f"the processes could not be listed: {show(str(error) or repr(error), self._glyphs)}"
            self.query_one("#none", Static).update(why)
            self.query_one("#detail", Static).update(content([(why, "$error")]))
            return
        self._looked = True
        self._take(found)
        self._paint()
        if self._chosen:
            self.action_choose()

    def _take(self, found: Sequence[ProcessLike]) -> None:
        """Show what was found. The highlighted process stays: no other may come under the cursor by itself."""
        held, at = self._highlighted, self.query_one(OptionList).highlighted
        ended = None
        if held is not None and at is not None:
            same = (p for p in found if p.pid == held.pid and p.age >= held.age - AGE_SLACK)
            if self._has_ended(held) or next(same, None) is None:
                ended = (at, held)
        self._ended, self._processes = ended, list(found)

    @property
    def _shown(self) -> list[ProcessLike]:
        shown = [p for p in self._processes if self._everything or p.torch is not False]
        if self._ended is not None:
            at, process = self._ended
            shown.insert(at, process)
        return shown

    def _has_ended(self, process: ProcessLike) -> bool:
        return self._ended is not None and process is self._ended[1]

    def _row_id(self, process: ProcessLike) -> str:
        return f"{process.pid}-{ENDED}" if self._has_ended(process) else str(process.pid)

    def _paint(self) -> None:
        listing = self.query_one(OptionList)
        shown = self._shown
        self.set_class(not shown, "-none")
        room = self.size.width - 1
        hidden = len(self._processes) - len(shown) + (self._ended is not None)
        right: list[list[Piece]] = [[(f"{len(shown) - (self._ended is not None)} shown ", "")]]
        if hidden:
            right.append([(f"{hidden} without torch hidden (a)", "$dim")])
        title: list[list[Piece]] = [[(" tensortui", "bold $primary")], [("choose a process", "bold $strong")]]
        self.query_one("#title", Static).update(spread(title, right, self.size.width))
        self.query_one("#heading", Static).update(heading(room))
        if self._looked and not shown:
            more = f"\n\n{hidden} Python processes without torch are hidden: press a to see them" if hidden else ""
            self.query_one("#none", Static).update(
                f"no Python process with torch is running\n\ntensortui demo starts one to look at{more}"
            )
        lines = {self._row_id(p): line(p, room, self._glyphs, ended=self._has_ended(p)) for p in shown}
        if list(lines) == [option.id for option in listing.options]:
            for at, text in enumerate(lines.values()):  # in place: the list stays where it was scrolled to
                listing.replace_option_prompt_at_index(at, text)
        else:
            held = listing.highlighted_option
            listing.clear_options()
            listing.add_options([Option(text, id=name) for name, text in lines.items()])
            names = list(lines)
            # Another process with the number of one that has ended is another row.
            same = [name for name in (f"{held.id}-{ENDED}", held.id) if name in names] if held is not None else names
            listing.highlighted = names.index(same[0]) if same else None
        if shown and self.focused is None:
            listing.focus()
        self._tell()

    @property
    def _highlighted(self) -> ProcessLike | None:
        listing = self.query_one(OptionList)
        if listing.highlighted is None or listing.highlighted >= listing.option_count:
            return None
        name = listing.get_option_at_index(listing.highlighted).id
        return next((p for p in self._shown if self._row_id(p) == name), None)

    def _tell(self) -> None:
        pieces: list[Piece] = []
        process = self._highlighted
        if self._attaching is not None:
            pieces.append((f"attaching to {self._attaching} ...", "bold $primary"))
        elif process is not None and self._has_ended(process):
            pieces.append((f"{show(process.command, self._glyphs)[:400]}\n", ""))
            pieces.append((f"{self._glyphs.lost} process {process.pid} has ended", "bold $error"))
            pieces.append((": choose another", ""))
        elif process is not None and self._failure is not None and self._failure[0] == process.pid:
            error = self._failure[1]
            pieces.append((f"{self._glyphs.lost} {show(error.cause, self._glyphs)}\n", "bold $error"))
            pieces.append((show(error.next_step, self._glyphs), ""))
        elif process is not None:
            pieces.append((f"{show(process.command, self._glyphs)[:400]}\n", ""))
            if process.agent and process.stopped:
                words = f"the agent in it does not answer while it is stopped; `kill -CONT {process.pid}` continues it"
                pieces.append((f"{self._glyphs.warn} {words}", "$warning"))
            elif process.agent:
                pieces.append(("the agent is in it already: attaching joins it", "$dim"))
            elif process.attachable:
                pieces.append(("enter puts the agent in; the program goes on, and nothing of it remains after", "$dim"))
            else:
                pieces.append((f"{self._glyphs.warn} {show(process.why_not, self._glyphs)}", "$warning"))
        self.query_one("#detail", Static).update(content(pieces))

    def on_resize(self, event: Resize) -> None:
        """Fit the new width."""
        self._paint()

    def on_option_list_option_highlighted(self) -> None:
        """Tell of the process under the cursor."""
        self._tell()

    def on_option_list_option_selected(self) -> None:
        """Enter or a click."""
        self.action_choose()

    def action_move(self, where: str) -> None:
        """The house keys for moving."""
        listing = self.query_one(OptionList)
        getattr(listing, {"down": "action_cursor_down", "up": "action_cursor_up"}.get(where, f"action_{where}"))()

    def action_all(self) -> None:
        """Show or hide Python processes without torch."""
        self._everything = not self._everything
        self._paint()
        listing = self.query_one(OptionList)
        if listing.highlighted is None and listing.option_count:
            listing.highlighted = 0

    def action_choose(self) -> None:
        """Attach to the highlighted process."""
        process = self._highlighted
        self._chosen = not self._looked
        if process is not None and self._has_ended(process):
            self.notify(f"Process {process.pid} has ended: choose another.", markup=False, severity="warning")
        elif process is not None and self._attaching is None:
            self._enter(process.pid)

    @work(group="connect", exclusive=True, exit_on_error=False)
    async def _enter(self, pid: int) -> None:
        self._attaching, self._failure = pid, None
        self._tell()
        try:
            source = await self._picker.attach(pid)
        except TensortuiError as error:
            self._failure = (pid, error)
        except OSError as error:
            cause = f"Process {pid} could not be attached to: {error}."
            self._failure = (pid, TensortuiError(cause, "It goes on as before."))
        else:
            await self.app.show_source(source)
        finally:
            self._attaching = None
            if self.is_attached:
                self._tell()
