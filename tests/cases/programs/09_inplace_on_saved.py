"""exp saves its result at version 0; the result is then changed in place to version 1, so that backward raises."""

import os
import time

import torch

x = torch.ones(1000, requires_grad=True)
w = torch.exp(x)
loss = w.sum()
w.add_(1)
try:
    torch.autograd.backward(loss, retain_graph=True)
    message = ""
except RuntimeError as error:
    message = str(error)
print("READY", os.getpid(), flush=True)
while True:
    time.sleep(0.5)
