"""An agent in this very process, for programs that want to be looked at: `tensortui.listen()`."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tensortui.attach.bootstrap import bootstrap_source
from tensortui.attach.errors import AgentSilentError
from tensortui.attach.rendezvous import Endpoint, await_agent, find_endpoint

LISTEN_SECONDS = 5.0
STAYS = 10.0 * 365 * 86400  # until the process ends


def listen(*, budget: float = 0.01) -> Endpoint:
    """Start an agent in this process and return where it listens; the one that is here already, if there is one.

    Attach to it with `tensortui attach PID`. It stays until the process ends, or until a viewer detaches it.
    """
    pid = os.getpid()
    started = time.monotonic()
    there = find_endpoint(pid)
    if there is not None:
        return there
    handle, path = tempfile.mkstemp(prefix="tensortui-")
    os.close(handle)
    report = Path(path)
    try:
        # the same text as everywhere, so that what runs is never a module of ours that the program could have changed
        exec(bootstrap_source(budget=budget, idle_exit=STAYS, report_path=path), {})
        endpoint = await_agent(pid, lambda: report.read_bytes().rstrip(b"\0").decode(errors="replace"), LISTEN_SECONDS)
        if endpoint is None:
            raise AgentSilentError(pid, LISTEN_SECONDS)
        return replace(endpoint, fresh=True, how="listen", seconds=time.monotonic() - started)
    finally:
        with contextlib.suppress(OSError):
            report.unlink()
