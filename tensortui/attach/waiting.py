"""Waiting for what another process does: nobody wakes us, so we look, ever less often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

FIRST_PAUSE, LONGEST_PAUSE = 0.0001, 0.01

T = TypeVar("T")


def poll(condition: Callable[[], T], seconds: float) -> T | None:
    """Wait for `condition` to become true; its value, or None after `seconds`."""
    end = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
