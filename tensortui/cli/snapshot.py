"""Print the tensors and storages of a running process once, as JSON or as a short summary.

The agent reads everything anew, the document is printed, and the agent leaves the process again, unless another viewer
is connected to it. Nothing but the document goes to stdout.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

from tensortui.cli.attach import add_attach_options
from tensortui.cli.target import parse_pid

if TYPE_CHECKING:
    from tensortui.attach import Endpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui snapshot`."""
    parser.add_argument("pid", metavar="PID", help="the process to look at")
    parser.add_argument("--json", action="store_true", help="print the JSON document (schema 1) instead of a summary")
    parser.add_argument("--graph", action="store_true", help="with --json: add the autograd graph")
    add_attach_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attach, read everything once, print it, and leave."""
    pid = parse_pid(arguments.pid)
    import asyncio

    from tensortui.attach import attach

    endpoint = attach(pid, timeout=arguments.timeout, budget=arguments.budget / 100)
    document = asyncio.run(read_document(endpoint, graph=arguments.graph))
    if arguments.json:
        json.dump(document, sys.stdout, ensure_ascii=True, allow_nan=False, indent=2)
        print()
    else:
        from tensortui.cli.summary import summary

        width = shutil.get_terminal_size((100, 40)).columns
        print("\n".join(summary(document, width)))
    return 0


async def read_document(endpoint: Endpoint, *, graph: bool) -> dict[str, Any]:
    """Return the JSON document of the process behind `endpoint`; an agent that we brought is taken out again."""
    from tensortui.analysis.document import document
    from tensortui.sources.live import LiveSource

    source = await LiveSource.connect(endpoint, interval=None)
    try:
        sample = await source.refresh()
        return document(sample, await source.graph() if graph else None)
    finally:
        if endpoint.fresh:
            await source.detach()
        else:
            await source.close()
