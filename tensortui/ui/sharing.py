"""How the parts of the Layout screen share the lines of the terminal."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from tensortui.ui.widgets.element_grid import HEAD

FRAME = 3  # the status line, the tabs, the keys
LEAST_GRID = 4
LEAST = ((1, 2, 4), (1, 1, 3), (0, 1, 0))  # words, tensors, costs: what each keeps while the others give way
ROOMY = 34  # from this height on the parts stand apart


class Plan(NamedTuple):
    """How many lines each part gets."""

    about: int
    mates: int
    costs: int
    grid: int


def plan(height: int, *, about: int, mates: int, usual: int, asked: int, gone: bool) -> Plan:
    """Share out the lines of a terminal: what is fixed, then a little of everything, then the rest to the grid."""
    roomy = height >= ROOMY
    free = height - FRAME - 2 - gone - (2 + (1 if mates == 1 else 2)) - HEAD - 1 - asked - (3 if roomy else 0)
    most = (5, 10, 9) if height >= 40 else (3, 5, 5) if height >= 28 else (2, 3, 6)
    wanted = [min(about, most[0]), min(mates, most[1]), min(usual, most[2])]
    for least, at in product(LEAST, (0, 2, 1, 2, 1, 2)):
        if sum(wanted) + LEAST_GRID <= free:
            break
        wanted[at] = max(wanted[at] - 1, min(wanted[at], least[at]))
    lines, strips, operations = wanted
    return Plan(lines, strips, operations, max(free - sum(wanted), 1))
