"""The second line: the screens there are, by number, and where help is."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click
from textual.widgets import Static

from tensortui.ui.markup import Piece, spread


class TabBar(Static):
    """Numbered screen names; the current one stands out by brackets of space and weight, not by colour alone."""

    DEFAULT_CSS = "TabBar { height: 1; background: $panel; color: $dim; text-wrap: nowrap; }"

    def __init__(self, names: Sequence[str], current: str) -> None:
        """Show `names`, of which `current` is open."""
        super().__init__("", markup=False)
        self._names = names
        self._current = current

    def on_resize(self) -> None:
        """Fit the new width."""
        tabs: list[list[Piece]] = [
            [(f" {at} {name} ", "bold reverse $primary" if name == self._current else "$dim")]
            for at, name in enumerate(self._names, 1)
        ]
        hints: list[list[Piece]] = [
            [("? ", "bold $foreground"), ("help ", "$dim")],
            [("^p ", "bold $foreground"), ("commands ", "$dim")],
        ]
        self.update(spread(tabs, hints, self.size.width, gap=" "))

    async def on_click(self, event: Click) -> None:
        """Open help by a click on its hint."""
        if event.x >= self.size.width - 8:
            await self.run_action("app.help")
