"""The memory map of this process, read apart from all other work: a file gives up the interpreter lock."""

import os
from typing import Any, Callable, Generator

from tensortui.agent.descriptors import Held
from tensortui.agent.guard import APART

PIECE = 1 << 14  # bytes that are read at once
LINES = 64  # that are parsed between two pieces

Take = Callable[[int, int, str, str], None]  # first address, address behind the last, access modes, path or name


def read_mappings(take: Take) -> Generator[Any, None, None]:
    """Call `take` for each mapping of /proc/self/maps; yields between pieces. Raises OSError where there is none."""
    parts, file = [], Held()  # what the collector counts is made before the lock is given up
    yield APART
    file.take(os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC))
    try:
        while True:
            part = os.read(file.fd, PIECE)
            if not part:
                break
            parts.append(part)
            yield APART
    finally:
        file.close()
    yield  # what follows makes much, which the collector would count
    lines = b"".join(parts).split(b"\n")
    for place, line in enumerate(lines):
        if not place % LINES:
            yield
        words = line.split(None, 5)
        if len(words) > 4:
            low, _, high = words[0].partition(b"-")
            path = os.fsdecode(words[5]).strip() if len(words) > 5 else ""
            take(int(low, 16), int(high, 16), words[1].decode("ascii"), path)
