"""Forks when told to; the child goes on as a busy program of its own."""

import os
import signal
import sys

from common import ready


def serve():
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(1)
            os.close(2)
            while True:
                pass
        print(child, flush=True)


ready()
serve()
