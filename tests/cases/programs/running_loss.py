"""A loop that sums its losses for a report and never detaches: each step's graph hangs behind the sum."""

import os
import time

import torch

torch.set_num_threads(1)


def main():
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    total = 0
    end = time.monotonic() + 100
    print("READY", os.getpid(), flush=True)
    while time.monotonic() < end:
        loss = model(torch.randn(16, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss
        time.sleep(0.01)


main()
