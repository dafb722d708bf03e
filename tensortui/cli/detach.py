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

    from tensortui.attach import find_endpoint, permissions, procfs
    from tensortui.attach.errors import GoneError

    endpoint = find_endpoint(pid)
    if endpoint is None:
        if not procfs.exists(pid):
            raise GoneError(pid)
        if not permissions.may_connect(pid):  # what is there cannot be seen
            raise permissions.explain(pid)
        print(f"There is no agent in process {pid}: nothing is to be done.")
        return 0
    if not asyncio.run(_detach(endpoint)):
        raise TensortuiError(
            f"The agent in process {pid} has not confirmed that it leaves.",
            f"The process may be very busy; see whether the agent is still there: `tensortui detach {pid}`.",
            kind="silent",
        )
    print(f"The agent has left process {pid}.")
    return 0


async def _detach(endpoint: Endpoint) -> bool:
    from tensortui.sources.live import LiveSource

    source = await LiveSource.connect(endpoint, interval=None)
    return await source.detach()
