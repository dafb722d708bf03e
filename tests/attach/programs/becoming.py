"""Becomes another program when it is told to."""

import os
import signal
import time

from common import ready

signal.signal(signal.SIGUSR1, lambda *_: os.execv("/bin/sleep", ["sleep", "60"]))
ready()
while True:
    time.sleep(60)
