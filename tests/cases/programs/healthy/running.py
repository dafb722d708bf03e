"""The loop that every healthy program runs: step after step, until it is ended, or after a minute at the latest."""

import os
import time
from collections.abc import Iterator

SECONDS = 60.0


def steps(pause: float = 0.005) -> Iterator[int]:
    """Count the steps; say READY after the first three, when optimizers have their state."""
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1
        if number == 3:
            print("READY", os.getpid(), flush=True)
        time.sleep(pause)
