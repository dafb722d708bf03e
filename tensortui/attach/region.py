"""The region: the memory of ours in the target, and how it comes there.

One page of code, then data, the saved vector state, a stack for the borrowed thread, and the source. It stays when
the agent has gone, and the next attach finds it by its code and uses it again, so that many attaches cost no more
memory than one.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from typing import NamedTuple

from tensortui.attach import procfs, threads
from tensortui.attach.errors import NoRoomError, NoThreadError, NotInitializedError, SyscallRefusedError
from tensortui.attach.hijack import Retry, Window
from tensortui.attach.loader import REPORT_SIZE
from tensortui.attach.memory import Memory, MemoryGoneError
from tensortui.attach.stubs import code
from tensortui.attach.target import Target
from tensortui.attach.waiting import poll

PAGE = 0x1000
DATA = PAGE
VECTOR_STATE = DATA + 0x1000
VECTOR_STATE_LIMIT = 0x4000
STACK_TOP = DATA + 0x20000
SOURCE = DATA + 0x20000
SOURCE_ROOM = 0x40000  # pages that are never touched cost nothing

# Offsets in the data page; stubs/region.S uses the same. The saved registers lie before them.
FUNCTION, ARGUMENTS, RESULT, DONE = 0x90, 0x98, 0xB8, 0xC0
ENSURE, RUN, RELEASE, SOURCE_POINTER, THREAD_STATE, RUN_RESULT = 0xC8, 0xD0, 0xD8, 0xE0, 0xE8, 0xF0
THREAD_ID, SELF, DETACH, INITIALIZED = 0xF8, 0x100, 0x108, 0x110
CLAIM, RAN_BY, FINISHED, RETURNED = 0x118, 0x120, 0x128, 0x130
QUEUED, BORROWED, SIZE, QUEUED_BEFORE, CANCELLED = 0x138, 0x140, 0x148, 0x150, 0x158
ERRNO_LOCATION, REPORT = 0x160, 0x400
ANNOUNCED = 3  # in RAN_BY: about to run, unless it was cancelled

GAP_FROM, GAP_TO, GAP_MARGIN = 0x100000000, 0x7FFFFFFF0000, 0x2000000
STAGE_SIZE = code.STAGE_CONSTANTS + 12 * 8
ATTEMPTS = 40
ANNOUNCED_SECONDS = 1.0  # two instructions, unless the thread is taken off its processor between them
IDLE_SECONDS = 0.5  # what a killed attacher has left under way is over by then, or takes long
NO_SLEEPER = "none sleeps in a call that can be interrupted"


class Call(NamedTuple):
    """What a borrowed thread is to call: one C function."""

    function: int
    arguments: tuple[int, int, int, int]


class Region:
    """The region at `base` in the target."""

    def __init__(self, target: Target, base: int) -> None:
        self.target, self.base = target, base
        self._memory: Memory = target.memory

    def get(self, offset: int) -> int:
        """A word of the data page."""
        return self._memory.word(self.base + DATA + offset)

    def put(self, offset: int, value: int) -> None:
        """Set a word of the data page."""
        self._memory.put_word(self.base + DATA + offset, value)

    @property
    def report_address(self) -> int:
        """Where the bootstrap writes why the agent could not start."""
        return self.base + DATA + REPORT

    def report(self) -> str:
        """Why the agent could not start, empty while there is nothing to say."""
        text = self._memory.read(self.report_address, REPORT_SIZE)
        return text.partition(b"\0")[0].decode(errors="replace").strip()

    def prepare(self, source: bytes) -> None:
        """Put `source` in, and the words back to where they start. The region must be idle."""
        self.put(CANCELLED, 1)
        self._memory.write(self.base + SOURCE, source + b"\0")
        self._memory.write(self.report_address, bytes(REPORT_SIZE))
        for offset in (THREAD_STATE, RUN_RESULT, RAN_BY, FINISHED, CLAIM, CANCELLED):
            self.put(offset, 0)

    def cancel(self) -> bool:
        """See to it that the source never runs; False when it has run, or runs now."""
        self.put(CANCELLED, 1)
        poll(lambda: self.get(RAN_BY) != ANNOUNCED, ANNOUNCED_SECONDS)
        return not self.get(RAN_BY)

    def queue(self, window: Window, vector_state: bytes, call: Call) -> None:
        """Send the thread in `window` through the stub: one call, then back to where it was."""
        back = window.back
        saved = (
            *(back.r15, back.r14, back.r13, back.r12, back.rbp, back.rbx, back.r11, back.r10, back.r9, back.r8),
            *(back.rax, back.rcx, back.rdx, back.rsi, back.rdi, back.eflags & ~0x100, back.rsp, back.rip),
        )
        for index, value in enumerate(saved):
            self.put(8 * index, value)
        symbols = self.target.symbols
        queued = self.get(QUEUED)
        words = {
            FUNCTION: call.function,
            RESULT: 0,
            ENSURE: symbols["PyGILState_Ensure"],
            RUN: symbols["PyRun_SimpleStringFlags"],
            RELEASE: symbols["PyGILState_Release"],
            SOURCE_POINTER: self.base + SOURCE,
            SELF: symbols.get("pthread_self", 0),
            DETACH: symbols.get("pthread_detach", 0),
            INITIALIZED: symbols["Py_IsInitialized"],
            ERRNO_LOCATION: symbols.get("__errno_location", self.base + code.REGION_NOWHERE),
        }
        words.update({ARGUMENTS + 8 * index: value for index, value in enumerate(call.arguments)})
        # In this order, so that whenever we die the next attacher can tell whether the call was made: see idle().
        words.update({QUEUED_BEFORE: queued, BORROWED: window.tid, DONE: 0, QUEUED: queued + 1})
        for offset, value in words.items():
            self.put(offset, value)
        self._memory.write(self.base + VECTOR_STATE, vector_state)
        window.go(self.base + code.REGION_ENTRY, self.base + STACK_TOP)

    def refused(self) -> None:
        """The call queued last was refused, or not made: nothing will return from it."""
        self.put(QUEUED, self.get(QUEUED_BEFORE))

    def result(self) -> int:
        """What the C function returned, as an int."""
        return ctypes.c_int32(self.get(RESULT) & 0xFFFFFFFF).value

    def idle(self) -> bool:
        """Whether nothing of an earlier attach can still use the region; its attacher may have died at any moment."""
        borrowed = self.get(BORROWED)
        if not settled(self.target, borrowed, self.base, self.get(SIZE)):
            return False
        # A borrowed thread that is elsewhere, its call not done, was never sent on its way (or has been put back).
        if borrowed and (not self.get(DONE) or self.result()):
            self.refused()
            self.put(RESULT, 0)
            self.put(DONE, 1)
        return self.get(QUEUED) == self.get(RETURNED)


def settled(target: Target, tid: int, start: int, size: int) -> bool:
    """Whether thread `tid` has neither its code nor its stack in [start, start + size).

    Seen asleep elsewhere, else by a look at its registers.
    """
    inside = range(start, start + size)

    def away() -> bool:
        call = threads.sleeping_in(target.pid, tid)
        return call is not None and call.address not in inside and call.stack not in inside

    if not tid or poll(away, 0.005):
        return True
    if tid not in procfs.threads(target.pid):
        return True
    try:
        with Window(target.pid, target.memory, tid, None) as window:
            return window.registers.rip not in inside and window.registers.rsp not in inside
    except Retry:
        return tid not in procfs.threads(target.pid)


def find(target: Target, source: bytes) -> Region | None:
    """The region that an earlier attach left, when it is idle and has room for `source`."""
    for mapping, following in itertools.pairwise(target.maps):
        if (
            mapping.permissions == "r-xp"
            and mapping.inode == "0"
            and mapping.end - mapping.start == PAGE
            and following.start == mapping.end
            and following.permissions == "rw-p"
            and target.memory.read(mapping.start, len(code.REGION)) == code.REGION
        ):
            region = Region(target, mapping.start)
            size = region.get(SIZE)
            fits = SOURCE + len(source) < size <= following.end - mapping.start
            if fits and poll(region.idle, IDLE_SECONDS):
                return region
    return None


def create(target: Target, source: bytes) -> Region:
    """Have the target map a region, by a borrowed thread that runs the first stage."""
    size = (SOURCE + max(SOURCE_ROOM, len(source) + 1) + PAGE - 1) & ~(PAGE - 1)
    padding = _padding(target)
    before = target.memory.read(padding, STAGE_SIZE)
    for attempt in range(ATTEMPTS):
        base = _gap(target, size)
        candidates = threads.sleepers(target.pid, may_allocate=False)
        if not candidates and attempt >= 3:
            candidates = threads.running_main(target.pid)
        if not candidates:
            time.sleep(0.002)  # one may go to sleep
            continue
        _, tid, system_call = candidates[attempt % min(len(candidates), 4)]
        try:
            with Window(target.pid, target.memory, tid, system_call) as window:
                target.memory.write(padding, _stage(window, base, size))
                window.go(padding, window.registers.rsp)
        except Retry:
            continue
        mapped = poll(lambda: _mapped(target, base), 1.0)  # noqa: B023 - used before the next turn
        if settled(target, tid, padding, STAGE_SIZE):
            target.memory.write(padding, before)
        if not mapped:
            raise SyscallRefusedError(target.pid)
        region = Region(target, base)
        region.put(SIZE, size)
        target.memory.write(base, code.REGION)
        return region
    raise NoThreadError(target.pid, NO_SLEEPER)


def _stage(window: Window, base: int, size: int) -> bytes:
    back = window.back
    values = (
        base,
        size - PAGE,
        *(back.rdi, back.rsi, back.rdx, back.r10, back.r8, back.r9, back.rax, back.rcx, back.r11),
    )
    constants = b"".join(value.to_bytes(8, "little") for value in (*values, back.rip))
    return code.STAGE[: code.STAGE_CONSTANTS] + constants


def _mapped(target: Target, base: int) -> bool:
    return any(mapping.start == base + DATA and mapping.permissions == "rw-p" for mapping in procfs.maps(target.pid))


def _padding(target: Target) -> int:
    """Zero bytes between the end of a library's code and the end of its last executable page."""
    for mapping in target.maps:
        if mapping.permissions.startswith("r-x") and mapping.inode != "0":
            try:
                tail = target.memory.read(mapping.end - PAGE, PAGE)
            except MemoryGoneError:
                raise
            except OSError:
                continue
            zeros = len(tail) - len(tail.rstrip(b"\0"))
            if zeros >= STAGE_SIZE + 64:
                return mapping.end - (zeros - 32 & ~15)
    if "pthread_create" not in target.symbols:  # not even the C library is there yet
        raise NotInitializedError(target.pid)
    raise NoRoomError(target.pid, "no library has padding after its code")


def _gap(target: Target, size: int) -> int:
    """A free range of addresses, well away from its neighbours."""
    previous = GAP_FROM
    for mapping in procfs.maps(target.pid):
        if mapping.start > GAP_TO:
            break
        if mapping.start - previous > size + 2 * GAP_MARGIN:
            return (previous + GAP_MARGIN) & ~(PAGE - 1)
        previous = max(previous, mapping.end)
    raise NoRoomError(target.pid, "no free address range")
