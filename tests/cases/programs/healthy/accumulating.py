"""The losses of several crops of one batch are added up for one backward; a validation pass comes now and then."""

import time

import torch
from running import steps
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
best = float("inf")

for number in steps():
    total = 0.0
    for _crop in range(8):
        total = total + nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(10, (16,)))
        time.sleep(0.002)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    if number % 20 == 0:
        model.eval()
        with torch.no_grad():
            outputs = [model(torch.randn(16, 64)) for _ in range(4)]
            best = min(best, torch.cat(outputs).square().mean().item())
        model.train()
