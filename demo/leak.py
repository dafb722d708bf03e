"""An evaluation loop that keeps the logits of every step, so memory grows by 256 KiB each time.

What to look for: `history['logits'][k]`, one more tensor a step, all of one shape; the total climbs and never falls.
"""

from __future__ import annotations

import os
import time

import torch

history: dict[str, list[torch.Tensor]] = {"logits": []}


def main() -> None:
    model = torch.nn.Linear(256, 256)
    print(f"READY {os.getpid()}", flush=True)
    for _ in range(10_000):
        with torch.no_grad():
            history["logits"].append(model(torch.randn(256, 256)))
        if len(history["logits"]) > 400:
            history["logits"].clear()
        time.sleep(0.5)


if __name__ == "__main__":
    main()
