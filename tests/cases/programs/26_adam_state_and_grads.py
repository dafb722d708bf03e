"""Where the memory of a plain training step goes: parameters, gradients, two Adam moments, step counters."""

import os
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(1000, 1000)  # 1,001,000 elements
opt = torch.optim.AdamW(model.parameters())
model(torch.randn(4, 1000)).sum().backward()
opt.step()
print("READY", os.getpid(), flush=True)
while True:
    time.sleep(0.5)
