"""Asleep in a C call that succeeds, which leaves errno as it was."""

import ctypes
import sys

from common import ready

library = ctypes.CDLL(None, use_errno=True)
ready()
while True:
    ctypes.set_errno(77)
    library.usleep(int(sys.argv[1]))
    print(ctypes.get_errno(), flush=True)
