"""A transpose cannot be viewed flat; reshape silently copies, contiguous copies only when it must."""

import os
import time

import torch

x = torch.arange(64 * 32, dtype=torch.float32).reshape(64, 32)
xt = x.t()
try:
    xt.view(-1)
    message = ""
except RuntimeError as error:
    message = str(error)
flat = xt.reshape(-1)  # a copy
same = x.reshape(-1)  # no copy
xc = x.contiguous()  # no copy: the same object
xtc = xt.contiguous()  # a copy
heads = torch.zeros(2, 8, 16, 4).transpose(1, 2)  # the layout of attention: (2, 16, 8, 4)
print("READY", os.getpid(), flush=True)
while True:
    time.sleep(0.5)
