"""The command palette: every action of the screen, and any tensor by its name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.app import App
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widget import Widget

from tensortui.analysis.text import truncate
from tensortui.ui.columns import COLUMNS
from tensortui.ui.groups import GROUP_MODES
from tensortui.ui.lines import show
from tensortui.ui.screens.help import key_text
from tensortui.ui.screens.tensors import TensorsScreen

if TYPE_CHECKING:
    from tensortui.ui.app import TensortuiApp

MOST_TENSORS = 12
NAME_CELLS = 60


class Commands(Provider):
    """What can be done here, and where one can go."""

    def _actions(self) -> Iterator[tuple[str, str, Any]]:
        """Title, explanation and what to call."""
        screen = self.screen
        nodes: list[App[Any] | Widget] = [screen, self.app]
        if isinstance(screen, TensorsScreen):
            nodes.insert(1, screen.tree_view)
            for mode in GROUP_MODES:
                yield f"Group by {mode}", "group the table", partial(screen.group_by, mode)
            for column in COLUMNS:
                yield (
                    f"Sort by {column.title}",
                    "again: the other way round",
                    partial(screen.tree_view.sort_by, column.key),
                )
        app = cast("TensortuiApp", self.app)
        for node in nodes:
            for binding in app.usable_bindings(screen) if node is app else type(node).BINDINGS:
                if isinstance(binding, Binding):
                    yield (
                        f"{binding.description} ({key_text(binding.key)})",
                        binding.tooltip,
                        partial(node.run_action, binding.action),
                    )

    async def discover(self) -> Hits:
        """Everything, before anything is typed."""
        for title, hint, call in self._actions():
            yield DiscoveryHit(Content(title), call, text=title, help=hint)

    async def search(self, query: str) -> Hits:
        """What fits what was typed; tensors whose name holds it come last."""
        matcher = self.matcher(query)
        for title, hint, call in self._actions():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score + 1, Content(title), call, text=title, help=hint)
        screen = self.screen
        if not isinstance(screen, TensorsScreen) or screen.rows.sample is None or len(query) < 2:
            return
        needle, found, glyphs = query.lower(), 0, screen.glyphs
        for tid, tensor in screen.rows.sample.tensors.items():
            name = next((name for name in tensor.names if needle in name.lower()), None)
            if name is None:
                continue
            shown = "Go to " + truncate(show(name, glyphs), NAME_CELLS, ellipsis=glyphs.ellipsis, keep="both")
            yield Hit(0.5, Content(shown), partial(screen.go_to, tid), text=f"Go to tensor {tid}", help="")
            found += 1
            if found == MOST_TENSORS:
                return
