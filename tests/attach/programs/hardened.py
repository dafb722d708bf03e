"""May not make memory executable that could be written: what systemd's MemoryDenyWriteExecute asks the kernel for."""

import ctypes
import sys
import time

from common import ready

PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1

if ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
    print("the kernel has no PR_SET_MDWE", flush=True)
    sys.exit(0)
ready()
while True:
    time.sleep(60)
