"""Opening the screens: the only module of the command line that loads Textual, and only when it is called."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from tensortui.errors import TensortuiError

if TYPE_CHECKING:
    from tensortui.analysis.findings import Thresholds
    from tensortui.attach import Endpoint
    from tensortui.sources.protocol import Source
    from tensortui.ui.app import TensortuiApp


def view(
    endpoint: Endpoint,
    arguments: argparse.Namespace,
    thresholds: Thresholds,
    *,
    log: Path | None = None,
    timeout: float = 5.0,
    budget: float = 0.01,
) -> None:
    """Show the viewer on the process behind `endpoint` until it is quit; `log` is where its output goes."""
    from tensortui.attach import no_socket_left
    from tensortui.cli.connecting import connect
    from tensortui.ui.app import TensortuiApp

    async def source() -> Source:
        return (await connect(endpoint, timeout=timeout, budget=budget))[0]

    options = {"ascii_only": arguments.ascii, "light": arguments.light, "thresholds": thresholds}
    with no_socket_left(endpoint):
        run_until_quit(TensortuiApp(source, log=log, **options))


def choose(arguments: argparse.Namespace, thresholds: Thresholds, *, timeout: float, budget: float) -> None:
    """Show the process picker, attach to what is chosen, and show the viewer."""
    from tensortui.attach import attach, no_socket_left
    from tensortui.cli.connecting import connect
    from tensortui.cli.ps import processes
    from tensortui.ui.app import Picker, TensortuiApp

    async def source(pid: int) -> Source:
        endpoint = await asyncio.to_thread(attach, pid, timeout=timeout, budget=budget)
        on_leaving.enter_context(no_socket_left(endpoint))
        return (await connect(endpoint, timeout=timeout, budget=budget))[0]

    options = {"ascii_only": arguments.ascii, "light": arguments.light, "thresholds": thresholds}
    with contextlib.ExitStack() as on_leaving:
        run_until_quit(TensortuiApp(picker=Picker(processes, source), **options))


def run_until_quit(app: TensortuiApp) -> None:
    """Run the application. Should it crash, Textual has printed the traceback already."""
    from tensortui.cli.ending import ends_in_order

    with ends_in_order(app.exit):
        app.run()
    if app.return_code:
        raise TensortuiError("The viewer stopped on an error of its own (above).", "The process it showed goes on.")
