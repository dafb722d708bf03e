"""From a process to an agent in it, and to a connection that has been welcomed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from tensortui.attach import attach
from tensortui.errors import TensortuiError

if TYPE_CHECKING:
    from tensortui.attach import Endpoint
    from tensortui.sources.live import LiveSource

Answer = TypeVar("Answer")
RETRY_SECONDS = 3.0
RETRY_PAUSE = 0.02


def attached(pid: int, *, timeout: float = 5.0, budget: float = 0.01) -> Endpoint:
    """Return an agent in process `pid`, put there if none is; whoever interrupts that leaves none behind."""
    return attach(pid, timeout=timeout, budget=budget, unwanted=_take_out)


def _take_out(endpoint: Endpoint) -> None:
    """Take out an agent that we have just brought, unless another viewer has found it by now."""
    from tensortui.sources.live import LiveSource

    async def detach() -> None:
        source = await LiveSource.connect(endpoint, interval=None)
        await source.detach(if_alone=True)

    with contextlib.suppress(TensortuiError):  # without a viewer it ends by itself
        asyncio.run(detach())


async def connect(
    endpoint: Endpoint, *, interval: float | None = 1.0, timeout: float = 5.0, budget: float = 0.01
) -> tuple[LiveSource, Endpoint]:
    """Connect to the agent at `endpoint`; should it be leaving just then, attach again, and return where that led.

    An agent that its last viewer has detached, or that was idle for long enough, takes connections to its very end.
    """
    from tensortui.sources.live import ConnectionFailedError, LiveSource

    end = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            return await LiveSource.connect(endpoint, interval=interval), endpoint
        except ConnectionFailedError:
            if endpoint.fresh or time.monotonic() > end:
                raise
        await asyncio.sleep(RETRY_PAUSE)
        endpoint = await asyncio.to_thread(attach, endpoint.pid, timeout=timeout, budget=budget)


async def visit(
    endpoint: Endpoint,
    options: Mapping[str, float],
    ask: Callable[[LiveSource, Endpoint], Awaitable[Answer]],
    *,
    wait: float,
    late: str,
    step: Callable[[], str] | None = None,
) -> Answer:
    """Return what `ask` finds out from the agent at `endpoint`; an agent that we brought is taken out again.

    Meanwhile it is told how far that is, as `step` says it. After `wait` seconds it is given up, and `late` is said to
    be so. `options` are those of `attach`, should the agent be leaving just now.
    """
    from tensortui.cli.progress import telling

    source, endpoint = await connect(endpoint, interval=None, **options)
    try:
        with telling(source, step):
            return await asyncio.wait_for(ask(source, endpoint), wait)
    except (TimeoutError, asyncio.TimeoutError):
        why = source.held()
        raise TensortuiError(
            f"{late} within {wait:g} s" + (f": it is {why}." if why else "."),
            "Give it longer with `--wait S`, or the agent more of its time with `--budget PERCENT`.",
            kind="timeout",
        ) from None
    finally:
        if endpoint.fresh:
            await source.detach(if_alone=True)
        else:
            await source.close()
