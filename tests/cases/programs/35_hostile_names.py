"""Names a terminal must not obey: escape codes, markup, newlines, very long, right-to-left, keys not strings."""

import os
import time

import torch

stash = {
    "\x1b[2J\x1b[31mred": torch.zeros(10),
    "[bold red]markup[/bold red]": torch.zeros(11),
    "[/unbalanced": torch.zeros(12),
    "two\nlines": torch.zeros(13),
    "x" * 5000: torch.zeros(14),
    "\u202eevil": torch.zeros(15),
    "\u4e2d\u6587\u5bbd": torch.zeros(16),
    ("layer", 3): torch.zeros(17),
    None: torch.zeros(18),
    1.5: torch.zeros(19),
    "\ud800": torch.zeros(20),
    "tab\tname": torch.zeros(21),
}
globals()["weird name with spaces"] = torch.zeros(22)
print("READY", os.getpid(), flush=True)
while True:
    time.sleep(0.5)
