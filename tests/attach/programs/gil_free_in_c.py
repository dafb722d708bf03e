"""Asleep in a C call with the GIL released; only a signal may end that call early."""

import ctypes
import time

from common import ready

ready()
while True:
    ctypes.CDLL(None).usleep(50_000_000)
    time.sleep(0.01)  # the handler of a signal runs here at the latest
    print("the sleep ended early", flush=True)
