"""Take the agent out of a process, for every viewer that is connected to it.

An agent ends by itself some time after its last viewer has left; this ends it at once.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tensortui.cli.target import parse_pid
from tensortui.errors import TensortuiError

if TYPE_CHECKING:
    from tensortui.attach import Endpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui detach`."""
    parser.add_argument("pid", metavar="PID", help="the process to take the agent out of")


def run(arguments: argparse.Namespace) -> int:
    """End the agent that is in the process."""
    pid = parse_pid(arguments.pid)
    import asyncio

    from tensortui.attach import find_endpoint

    endpoint = find_endpoint(pid)
    if endpoint is None:
        raise TensortuiError(f"There is no agent in process {pid}.", "Nothing is to be done.", kind="no_agent")
    asyncio.run(_detach(endpoint))
    print(f"The agent has left process {pid}.")
    return 0


async def _detach(endpoint: Endpoint) -> None:
    from tensortui.sources.live import LiveSource

    source = await LiveSource.connect(endpoint, interval=None)
    await source.detach()
