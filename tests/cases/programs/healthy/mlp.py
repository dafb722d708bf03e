"""A plain training loop, with a running average of the loss and a scheduler."""

import torch
from running import steps
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(2048, 64)
targets = torch.randint(10, (2048,))
model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
average = 0.0

for _ in steps():
    rows = torch.randint(len(inputs), (64,))
    loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    average += 0.1 * (loss.item() - average)
