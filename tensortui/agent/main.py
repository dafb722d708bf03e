"""Entry point of the agent: `start(options)` is called once, in a raw thread of its own, inside the target."""

import _thread
import atexit
import os
import sys
from typing import Any, Dict

from tensortui.agent import labels
from tensortui.agent.loop import Agent

EXIT_WAIT = 1.0  # what the target's exit may wait for the last word
NO_LOCK = "this Python runs without the global interpreter lock, and reading tensors is safe only under it"


def start(options: Dict[str, Any]) -> None:
    """Run the agent until it is detached, idle, or the target exits; never prints.

    Raises OSError where no socket can be had: the bootstrap catches it and tells the one who attached.
    """
    locked = getattr(sys, "_is_gil_enabled", None)
    if locked is not None and not locked():
        raise OSError(NO_LOCK)
    agent = Agent(options)
    over = _thread.allocate_lock()
    over.acquire()
    pid = os.getpid()

    # The modules of the agent are emptied as soon as its thread ends, which this function causes and then outlives:
    # it must use no global of this module.
    getpid, detail, wait = os.getpid, exit_detail, EXIT_WAIT

    def at_exit() -> None:
        if getpid() == pid and over.locked():
            agent.stop("exit", detail())
            over.acquire(timeout=wait)

    atexit.register(at_exit)
    try:
        agent.run()
    except BaseException:
        pass
    finally:
        try:
            atexit.unregister(at_exit)  # compares it with the program's own, whose `__eq__` may raise
        except BaseException:
            pass
        finally:
            over.release()


def exit_detail() -> str:
    """Return the type of the exception that ends the target, "" where it ends well."""
    kind = getattr(sys, "last_type", None)
    return labels.type_name(kind) if isinstance(kind, type) else ""
