"""Print the tensors and storages of a running process once, as JSON or as a short summary.

The agent reads everything anew, the document is printed, and the agent leaves the process again, unless another viewer
is connected to it. Nothing but the document goes to stdout.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tensortui.cli.options import add_attach_options, seconds
from tensortui.cli.target import parse_pid
from tensortui.errors import TensortuiError, UsageError

if TYPE_CHECKING:
    from tensortui.attach import Endpoint
    from tensortui.model import Graph, Sample
    from tensortui.sources.live import LiveSource


WAIT_SECONDS = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui snapshot`."""
    parser.add_argument("pid", metavar="PID", help="the process to look at")
    parser.add_argument("--json", action="store_true", help="print the JSON document (schema 1) instead of a summary")
    parser.add_argument("--graph", action="store_true", help="with --json: add the autograd graph")
    parser.add_argument(
        "--wait", type=seconds, default=WAIT_SECONDS, metavar="S", help="give up reading after S seconds (default 600)"
    )
    add_attach_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Attach, read everything once, print it, and leave."""
    pid = parse_pid(arguments.pid)
    if arguments.graph and not arguments.json:
        raise UsageError("The graph is part of the JSON document.", "Give `--json` too.")
    import asyncio

    from tensortui.attach import attach

    options = {"timeout": arguments.timeout, "budget": arguments.budget}
    endpoint = attach(pid, **options)
    document = asyncio.run(read_document(endpoint, graph=arguments.graph, wait=arguments.wait, **options))
    if arguments.json:
        from tensortui.analysis.document import dumps

        print(dumps(document, indent=2))
    else:
        from tensortui.cli.summary import summary
        from tensortui.cli.table import terminal_width

        print("\n".join(summary(document, terminal_width())))
    return 0


async def read_document(
    endpoint: Endpoint, *, graph: bool, wait: float = WAIT_SECONDS, **options: float
) -> dict[str, Any]:
    """Return the JSON document of the process behind `endpoint`; an agent that we brought is taken out again.

    `options` are those of `attach`, should the agent be leaving just now.
    """
    import asyncio

    from tensortui.analysis.document import document
    from tensortui.cli.connecting import connect
    from tensortui.cli.progress import telling

    source, endpoint = await connect(endpoint, interval=None, **options)
    try:
        with telling(source):
            sample, found = await asyncio.wait_for(_read(source, graph=graph), wait)
        return document(sample, found)
    except (TimeoutError, asyncio.TimeoutError):
        why = source.held()
        raise TensortuiError(
            f"Process {endpoint.pid} was not read within {wait:g} s" + (f": it is {why}." if why else "."),
            "Give it longer with `--wait S`, or the agent more of its time with `--budget PERCENT`.",
            kind="timeout",
        ) from None
    finally:
        if endpoint.fresh:
            await source.detach(if_alone=True)
        else:
            await source.close()


async def _read(source: LiveSource, *, graph: bool) -> tuple[Sample, Graph | None]:
    # the graph first: the tensors that only it holds are then part of the sample
    found = await source.graph() if graph else None
    return await source.refresh(), found
