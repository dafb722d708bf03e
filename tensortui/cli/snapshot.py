"""Print the tensors and storages of a running process once, as JSON or as a short summary.

The agent reads everything anew, the document is printed, and the agent leaves the process again, unless another viewer
is connected to it. Nothing but the document goes to stdout.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tensortui.cli.options import add_attach_options
from tensortui.cli.target import parse_pid
from tensortui.errors import UsageError

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
    if arguments.graph and not arguments.json:
        raise UsageError("The graph is part of the JSON document.", "Give `--json` too.")
    import asyncio

    from tensortui.attach import attach

    options = {"timeout": arguments.timeout, "budget": arguments.budget}
    document = asyncio.run(read_document(attach(pid, **options), graph=arguments.graph, **options))
    if arguments.json:
        from tensortui.analysis.document import dumps

        print(dumps(document, indent=2))
    else:
        from tensortui.cli.summary import summary
        from tensortui.cli.table import terminal_width

        print("\n".join(summary(document, terminal_width())))
    return 0


async def read_document(endpoint: Endpoint, *, graph: bool, **options: float) -> dict[str, Any]:
    """Return the JSON document of the process behind `endpoint`; an agent that we brought is taken out again.

    `options` are those of `attach`, should the agent be leaving just now.
    """
    from tensortui.analysis.document import document
    from tensortui.cli.connecting import connect

    source, endpoint = await connect(endpoint, interval=None, **options)
    try:
        # the graph first: the tensors that only it holds are then part of the sample
        found = await source.graph() if graph else None
        return document(await source.refresh(), found)
    finally:
        if endpoint.fresh:
            await source.detach(if_alone=True)
        else:
            await source.close()
