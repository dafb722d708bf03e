"""Print the tensors and storages of a running process once, as JSON or as a short summary.

With --graph the autograd graph is read too: the document has all of it, the summary its size and what it keeps alive,
and findings that need it, such as losses that hold their graphs, are looked for.

The agent reads everything anew, the document is printed, and the agent leaves the process again, unless another viewer
is connected to it. Nothing but the document goes to stdout.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tensortui.cli.configuration import add_config_option, thresholds
from tensortui.cli.options import add_attach_options, seconds
from tensortui.cli.target import parse_pid

if TYPE_CHECKING:
    from tensortui.attach import Endpoint
    from tensortui.model import Graph, Sample
    from tensortui.sources.live import LiveSource


WAIT_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui snapshot`."""
    parser.add_argument("pid", metavar="PID", help="the process to look at")
    parser.add_argument("--json", action="store_true", help="print the JSON document (schema 1) instead of a summary")
    parser.add_argument("--graph", action="store_true", help="read the autograd graph too")
    parser.add_argument(
        "--wait", type=seconds, default=WAIT_SECONDS, metavar="S", help="give up reading after S seconds (default 600)"
    )
    add_attach_options(parser)
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attach, read everything once, print it, and leave."""
    pid = parse_pid(arguments.pid)
    limits = thresholds(arguments.config)
    import asyncio

    from tensortui.cli.connecting import attached

    options = {"timeout": arguments.timeout, "budget": arguments.budget}
    endpoint = attached(pid, **options)
    sample, graph = asyncio.run(read(endpoint, graph=arguments.graph, wait=arguments.wait, **options))
    from tensortui.analysis.document import document, dumps

    if arguments.json:
        print(dumps(document(sample, graph, thresholds=limits), indent=2))
    else:
        from tensortui.cli.summary import graph_lines, summary
        from tensortui.cli.table import terminal_width

        lines = graph_lines(sample, graph) if graph is not None else []
        print("\n".join(summary(document(sample, graph, thresholds=limits), terminal_width(), lines)))
    return 0


async def read(
    endpoint: Endpoint, *, graph: bool, wait: float = WAIT_SECONDS, **options: float
) -> tuple[Sample, Graph | None]:
    """Return what the process behind `endpoint` has, read anew; an agent that we brought is taken out again.

    `options` are those of `attach`, should the agent be leaving just now.
    """
    from tensortui.cli.connecting import visit

    async def ask(source: LiveSource, _: Endpoint) -> tuple[Sample, Graph | None]:
        return await _read(source, graph=graph)

    return await visit(endpoint, options, ask, wait=wait, late=f"Process {endpoint.pid} was not read")


async def _read(source: LiveSource, *, graph: bool) -> tuple[Sample, Graph | None]:
    # the graph first: the tensors that only it holds are then part of the sample
    found = await source.graph() if graph else None
    return await source.refresh(), found
