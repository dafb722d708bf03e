"""A healthy loop that deletes its local at once, and says so when somebody else kept it alive.

On CPython 3.12 and before, whoever reads frame.f_locals does.
"""

import os
import time
import weakref

import torch

late = 0


def train():
    global late
    k = 0
    while True:
        batch = torch.zeros(256 * 1024)  # 1 MiB
        w = weakref.ref(batch)
        if k == 1:
            print("READY", os.getpid(), flush=True)
        time.sleep(0.3)  # a tool may look here, while batch is alive
        del batch
        if w() is not None:
            late += 1
            print("HELD BY OBSERVER", late, flush=True)
        time.sleep(0.2)
        k += 1


train()
