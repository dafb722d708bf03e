"""Data-parallel training of two ranks on this machine: the first one starts the second."""

import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from running import steps
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
torch.manual_seed(0)
os.environ["GLOO_SOCKET_IFNAME"] = "lo"


def main(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
    optimizer = torch.optim.Adam(model.parameters())

    for _ in steps():
        loss = nn.functional.cross_entropy(model(torch.randn(16, 64)), torch.randint(10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)


if len(sys.argv) > 1:
    main(1, sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        second = subprocess.Popen(
            [sys.executable, __file__, meeting], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        main(0, meeting)
