"""What is being done to the rows of a table, and what of it must begin anew when something comes between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tensortui.ui.groups import View
from tensortui.ui.ordering import Steps
from tensortui.ui.rows import Rows


class Arranging:
    """A newer sample comes first, then another view of it. `view` is what was asked for; the rows follow."""

    def __init__(self, rows: Rows) -> None:
        """Nothing is to be done to `rows` yet."""
        self.view: View = rows.view
        self._rows = rows
        self._update: Callable[[], Steps] | None = None
        self._change: Callable[[], Steps] | None = None

    @property
    def busy(self) -> bool:
        """Whether there is something to do, or being done."""
        return self._update is not None or self._change is not None

    def update(self, steps: Callable[[], Steps]) -> None:
        """Bring the rows up to date by these steps."""
        self._update = steps

    def look(self, opened: bool | None, **view: Any) -> None:
        """Group, sort or filter otherwise, or open or close every group; what was asked for before is given up."""
        self.view = wanted = replace(self.view, **view)
        self._change = lambda: self._rows.change(wanted, opened)

    def steps(self) -> Steps:
        """Do it. Given up half way, it begins anew the next time."""
        if self._update is not None:
            yield from self._update()
            self._update = None
        if self._change is not None:
            yield from self._change()
            self._change = None
