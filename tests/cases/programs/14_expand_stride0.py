"""expand: 256 MiB apparent, 4 KiB real; writing in place is refused."""

import os
import time

import torch

mask_row = torch.zeros(1, 1024)
mask = mask_row.expand(65536, 1024)
try:
    mask.add_(1)
    message = ""
except RuntimeError as error:
    message = str(error)
eye = torch.eye(4).expand(3, 4, 4)
scalar = torch.tensor(1.0).expand(10, 10)
print("READY", os.getpid(), flush=True)
while True:
    time.sleep(0.5)
