"""The second line: the screens there are, by number, and where help is."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click
from textual.widgets import Static

from tensortui.analysis import findings
from tensortui.analysis.findings import Finding
from tensortui.ui.markup import Piece, cells, spread

SCREENS = {1: "Tensors", 2: "Layout", 3: "Graph", 6: "Findings", 7: "Growth"}
OTHERS = {"Holders": (("h", "Holders"),)}  # in the bar only while they are open: they are of one tensor
HINTS: list[tuple[str, list[Piece]]] = [
    ("app.help", [("? ", "bold $foreground"), ("help ", "$dim")]),
    ("app.command_palette", [("^p ", "bold $foreground"), ("commands ", "$dim")]),
]


class TabBar(Static):
    """Numbered screen names; the current one stands out by weight and its block, not by colour alone."""

    DEFAULT_CSS = "TabBar { height: 1; background: $panel; color: $dim; text-wrap: nowrap; }"

    def __init__(self, current: str) -> None:
        """Show every screen, of which `current` is open."""
        super().__init__("", markup=False)
        self._current = current
        self._found: Sequence[Finding] = ()
        self._tabs: list[list[Piece]] = []

    def tell(self, found: Sequence[Finding]) -> None:
        """Say beside their screen how many findings there are."""
        if found is not self._found:
            self._found = found
            self._paint()

    def on_resize(self) -> None:
        """Fit the new width."""
        self._paint()

    def _paint(self) -> None:
        grave = any(finding.severity != "note" for finding in self._found)
        counts = {"Findings": f"{findings.count(self._found)} found " if self._found else ""}
        self._tabs = []
        for at, name in (*SCREENS.items(), *OTHERS.get(self._current, ())):
            style = "bold reverse $primary" if name == self._current else "$dim"
            count = (counts.get(name, ""), style if name == self._current else "bold $warning" if grave else "")
            self._tabs.append([(f" {at} {name} ", style), count])
        self.update(spread(self._tabs, [hint for _, hint in HINTS], self.size.width, gap=" "))

    async def on_click(self, event: Click) -> None:
        """Open what was clicked on: a screen, or what a hint speaks of."""
        right = 0
        for at, tab in zip(SCREENS, self._tabs, strict=False):
            right += cells(tab) + 1
            if event.x < right:
                await self.run_action(f"app.show({at})")
                return
        left = self.size.width
        for action, hint in HINTS:
            left -= cells(hint) + 1
            if event.x >= left:
                await self.run_action(action)
                return
