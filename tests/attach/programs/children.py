"""Has children of every kind: says the pid of each after READY, and goes on."""

import multiprocessing
import os
import subprocess
import sys
import time

from common import ready


def main():
    children = []
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=time.sleep, args=(3600,), daemon=True)
        process.start()
        children.append(process.pid)
    # the very same command line, and yet a program of its own
    again = subprocess.Popen(sys.orig_argv, env={**os.environ, "AGAIN": "1"}, stdout=subprocess.DEVNULL)
    ready()
    print(*children, again.pid, flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    if os.environ.get("AGAIN"):
        time.sleep(3600)
    main()
