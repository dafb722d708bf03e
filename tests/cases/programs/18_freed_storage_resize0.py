"""A resharded parameter: still of shape (4096, 1024), its storage resized to 0 bytes. Reading it would fault."""

import os
import time

import torch

full = torch.zeros(4096, 1024)  # 16 MiB while unsharded
unsharded_view = full[:2048]
local_shard = torch.zeros(2048 * 512)
full.untyped_storage().resize_(0)
print("READY", os.getpid(), flush=True)
while True:
    time.sleep(0.5)
