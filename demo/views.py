"""Views of every kind on a few storages: slices, transposes, expansions, and copies that look like views.

What to look for: which names share a storage, which of them are contiguous, and how little of `big` is still in use.
"""

from __future__ import annotations

import os
import time

import torch

x = torch.arange(2048, dtype=torch.float32).view(64, 32)
transposed = x.t()
every_other = x[::2, 1::2]
window = x.unfold(0, 8, 4)
diagonal = x.diagonal()
mask = torch.ones(1, 1024).expand(65536, 1024)
flat_view = x.view(-1)
hidden_copy = x.t().reshape(-1)
image = torch.zeros(8, 3, 32, 32).contiguous(memory_format=torch.channels_last)
big = torch.zeros(4096, 4096)
row = big[3]
del big


if __name__ == "__main__":
    print(f"READY {os.getpid()}", flush=True)
    for _ in range(10_000):
        x.add_(1)
        time.sleep(0.5)
