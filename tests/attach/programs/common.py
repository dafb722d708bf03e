"""What every program does: say READY, go on until SIGTERM, then tell what is in it that was not there before."""

import contextlib
import os
import signal
import sys
import threading

BEFORE = None
TORCH = "--torch" in sys.argv  # it opens and closes sockets of its own, and takes long to exit


def _facts():
    main = sys.modules["__main__"]
    return {
        "names": set(vars(main)),
        "modules": {name for name in sys.modules if "tensortui" in name},
        "sys": {name for name in vars(sys) if "tensortui" in name},
        "files": set() if TORCH else {link for link in _links() if "socket" in link or "pipe" in link},
        "threads": {str(len(os.listdir("/proc/self/task")))},
    }


def _links():
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            yield name + os.readlink("/proc/self/fd/" + name)


def _finish(signum, frame):
    after = _facts()
    left = {key: sorted(after[key] - BEFORE[key]) for key in after}
    print("LEFT", {key: value for key, value in left.items() if value}, flush=True)
    os._exit(0) if TORCH else sys.exit(0)


def ready():
    global BEFORE
    signal.signal(signal.SIGTERM, _finish)
    BEFORE = _facts()
    print("READY", flush=True)


def background(function):
    threading.Thread(target=function, daemon=True).start()
