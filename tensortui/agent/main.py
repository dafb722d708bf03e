"""Entry point of the agent: `start(options)` is called once, in a raw thread of its own, inside the target."""

import _thread
import atexit
import os
import sys
from typing import Any, Dict

from tensortui.agent.loop import Agent

EXIT_WAIT = 1.0  # what the target's exit may wait for the last word


def start(options: Dict[str, Any]) -> None:
    """Run the agent until it is detached, idle, or the target exits; never prints.

    Raises OSError where no socket can be had: the bootstrap catches it and tells the one who attached.
    """
    agent = Agent(options)
    over = _thread.allocate_lock()
    over.acquire()
    pid = os.getpid()

    def at_exit() -> None:
        if os.getpid() == pid:
            agent.stop("exit", exit_detail())
            over.acquire(timeout=EXIT_WAIT)

    atexit.register(at_exit)
    try:
        agent.run()
    except BaseException:
        pass
    finally:
        over.release()
        atexit.unregister(at_exit)


def exit_detail() -> str:
    """Return the type of the exception that ends the target, "" where it ends well."""
    kind = getattr(sys, "last_type", None)
    return kind.__name__ if isinstance(kind, type) else ""
