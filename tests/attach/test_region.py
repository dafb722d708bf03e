"""The machine code of the region, run in this very process: the source runs once, and never once it is cancelled."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from types import SimpleNamespace

import pytest

from tensortui.attach import region
from tensortui.attach.memory import Memory
from tensortui.attach.stubs import code

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@pytest.fixture
def made():
    """A region, its code mapped so that it can be called, and how often the source has run."""
    space = mmap.mmap(-1, region.SOURCE + mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    space[: len(code.REGION)] = code.REGION
    address = ctypes.addressof(ctypes.c_char.from_buffer(space))
    memory = Memory(os.getpid())
    made = region.Region(SimpleNamespace(memory=memory), address)
    made.runs = []
    run = CALLBACK(lambda source, flags: made.runs.append(ctypes.string_at(source)) or 0)
    made.put(region.RUN, ctypes.cast(run, ctypes.c_void_p).value)
    made.put(region.SOURCE_POINTER, address + region.SOURCE)
    made.pending = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address + code.REGION_PENDING)
    yield made
    memory.close()
    assert run


def test_source_runs_once(made):
    made.prepare(b"source")
    assert (made.pending(None), made.pending(None)) == (0, 0)
    assert made.runs == [b"source"]
    assert (made.get(region.RAN_BY), made.get(region.FINISHED), made.get(region.RETURNED)) == (1, 1, 2)
    assert not made.cancel()


def test_cancelled_source_does_not_run_and_is_accounted_for(made):
    made.prepare(b"source")
    assert made.cancel()
    assert made.pending(None) == 0
    assert made.runs == []
    assert (made.get(region.RAN_BY), made.get(region.FINISHED), made.get(region.RETURNED)) == (0, 0, 1)
    made.prepare(b"another")
    made.pending(None)
    assert made.runs == [b"another"]


@pytest.mark.parametrize(("outcome", "cancelled"), [(0, True), (1, False), (2, False)])
def test_who_is_about_to_run_is_waited_for(made, outcome, cancelled):
    """A thread can be taken off its processor between its announcement and its look at what was cancelled."""
    made.prepare(b"source")
    made.put(region.RAN_BY, region.ANNOUNCED)
    decide = threading.Timer(0.02, made.put, (region.RAN_BY, outcome))
    decide.start()
    assert made.cancel() == cancelled
    decide.join()


def test_place_for_errno_where_the_c_library_has_none(made):
    where = ctypes.PYFUNCTYPE(ctypes.c_void_p)(made.base + code.REGION_NOWHERE)()
    assert made.base + region.DATA + region.ERRNO_LOCATION < where < made.base + region.DATA + region.REPORT
