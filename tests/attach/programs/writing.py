"""Blocked in a write to a pipe that nobody reads: a call that may not be interrupted."""

import os

from common import ready

reading, writing = os.pipe()
ready()
while True:
    os.write(writing, bytes(65536))
