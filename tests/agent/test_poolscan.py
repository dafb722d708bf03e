"""The pool scan finds exactly what lives, on every CPython found, and says so where it cannot."""

from __future__ import annotations

import collections
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tensortui.agent.poolscan import PoolScanner

CODE = """
import collections, gc, sys, weakref
sys.path.insert(0, {root!r})
from tensortui.agent.poolscan import PoolScanner
class Plain:
    def __init__(self, count):
        for number in range(count):
            setattr(self, "a%d" % number, number)
class Slotted:
    __slots__ = ("a", "__weakref__")
decoys = [5, Plain, {{5: Plain}}, {{7, Plain}}, [1, Plain] * 100]
things = [Plain(number % 40) for number in range(2000)] + [Slotted() for _ in range(2000)]
gc.freeze()
things += [Plain(3) for _ in range(500)]
del things[::3]
scanner = PoolScanner()
found = collections.deque()
if not scanner.reason:
    for _ in scanner.scan([weakref.ref(Plain), weakref.ref(Slotted)], found, collections.deque()):
        pass
    assert {{id(ref()) for ref in found}} == set(map(id, things)), (len(found), len(things))
print(scanner.reason)
"""


def test_exactly_the_live_objects_are_found(python: str, root: Path) -> None:
    command = [*python.split(), "-c", CODE.format(root=str(root))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


CHURN = """
import collections, sys, threading, time, weakref
sys.path.insert(0, {root!r})
from tensortui.agent.poolscan import PoolScanner
class Plain: pass
sys.setswitchinterval(1e-5)
over = []
def churn():
    while not over:
        things = [Plain() for _ in range(300)]
        for number in range(300): things[number] = Plain() if number % 3 else [1]
threads = [threading.Thread(target=churn) for _ in range(3)]
for one in threads: one.start()
reasons = {{(scanner := PoolScanner()).reason for _ in range(100)}}  # its own objects are looked at beside all that
end, scans = time.monotonic() + 6, 0
while time.monotonic() < end:
    found = collections.deque()
    for _ in scanner.scan([weakref.ref(Plain)], found, collections.deque()): pass
    assert {{type(thing) for thing in (ref() for ref in found) if thing is not None}} <= {{Plain}}
    scans += 1
over.append(True)
for one in threads: one.join()
print(scans > 3, *reasons)
"""


def test_what_is_freed_while_it_is_looked_at_is_not_taken(root: Path) -> None:
    """Threads are switched as often as possible: without the proof at the moment of taking this crashes."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CHURN.format(root=str(root))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True \n", "")


class Plain:
    """Something to be found."""


@pytest.mark.parametrize("dies", [False, True])
def test_a_type_that_dies_during_the_scan_is_looked_for_no_more(dies: bool) -> None:
    """Another type may have got its address, even one whose instances take no weak reference."""
    things = [Plain() for _ in range(100)]
    scanner = PoolScanner()
    assert scanner.reason == ""
    found: collections.deque[Any] = collections.deque()
    scan = scanner.scan([weakref.ref(Plain)], found, collections.deque())
    next(scan)
    if dies:
        scanner._types[id(Plain)] = weakref.ref(set())  # as if it had
    for _ in scan:
        pass
    assert len(found) == (0 if dies else len(things))


def test_another_allocator_is_told_apart(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(root=str(root))],
        capture_output=True, text=True, check=False, env={"PYTHONMALLOC": "malloc"},
    )  # fmt: skip
    assert done.stderr == ""
    assert "the allocator's layout is not the expected one" in done.stdout
