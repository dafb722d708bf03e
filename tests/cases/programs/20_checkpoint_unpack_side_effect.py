"""Activation checkpointing: the graph holds placeholders; asking for _saved_* runs the user's forward again.

Each line on stdin is answered with how often the checkpointed forward has run.
"""

import os
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

calls = []
block = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))


def run(inp):
    calls.append(time.time())
    return block(inp)


x = torch.randn(256, 512, requires_grad=True)
plain = block(x).sum()
ck = checkpoint(run, x, use_reentrant=False).sum()
print("READY", os.getpid(), flush=True)
for _ in sys.stdin:
    print(len(calls), flush=True)
