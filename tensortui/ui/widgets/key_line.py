"""The last line: the keys that matter here, as many as fit."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets import Static

from tensortui.ui.markup import Piece, spread


class KeyLine(Static):
    """Shows (key, what it does) pairs, the most useful first."""

    DEFAULT_CSS = "KeyLine { height: 1; background: $panel; color: $dim; text-wrap: nowrap; }"

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        """Show these keys."""
        super().__init__("", markup=False)
        self._keys = keys

    def on_resize(self) -> None:
        """Fit the new width."""
        groups: list[list[Piece]] = [
            [(f" {key}" if at == 0 else key, "bold $foreground"), (f" {label}", "$dim")]
            for at, (key, label) in enumerate(self._keys)
        ]
        self.update(spread(groups, [], self.size.width))
