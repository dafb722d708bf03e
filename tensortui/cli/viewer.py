"""Opening the screens: the only module of the command line that loads Textual, and only when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensortui.attach import Endpoint


def view(endpoint: Endpoint, *, log: Path | None = None) -> None:
    """Show the viewer on the process behind `endpoint` until it is quit; `log` is where its output goes."""
    raise NotImplementedError


def choose(*, timeout: float, budget: float) -> None:
    """Show the process picker, attach to what is chosen, and show the viewer."""
    raise NotImplementedError
