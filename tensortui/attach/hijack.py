"""One short ptrace window on one thread: stop it, look, send it somewhere, let go.

No breakpoint is set, no other thread is stopped, and nothing runs while we trace: the thread is only ever let go at
a place from which it finds its own way back, so our death at any moment leaves the target well.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
import time
from types import TracebackType

from tensortui.attach import permissions, procfs, ptrace, threads
from tensortui.attach.errors import ArchError, GoneError, StoppedError, ThreadStuckError
from tensortui.attach.memory import Memory
from tensortui.attach.ptrace import Registers

STOP_SECONDS = 2.0
SYSCALL_INSTRUCTION = b"\x0f\x05"
SEQUENCE = 8  # offset in struct rseq of the address of the sequence that the thread is in
# What the kernel leaves in rax of a system call that it would start anew by itself.
ERESTART, ERESTART_BLOCK = (-512, -513, -514), -516


class Retry(Exception):  # noqa: N818 - no failure: another thread may do
    """This thread is no longer what it was chosen for."""


class Window:
    """`with Window(pid, memory, tid, system_call) as window:` holds the thread stopped.

    `system_call` is the one the thread was seen asleep in; Retry when it is elsewhere by now (None: anywhere will do).
    `registers` is the thread as it was stopped, `back` what it has to continue with.
    """

    def __init__(self, pid: int, memory: Memory, tid: int, system_call: int | None) -> None:
        self.pid, self.tid = pid, tid
        self._memory = memory
        self._wanted = system_call
        self._held = self._stopped = False
        self.registers = self.back = Registers()

    def __enter__(self) -> Window:
        try:
            ptrace.request(ptrace.SEIZE, self.tid)
        except OSError as error:
            if error.errno == errno.EPERM:
                raise permissions.explain(self.pid) from None
            raise Retry("the thread has gone") from None
        self._held = True
        try:
            with contextlib.suppress(OSError):  # refused of one that is ending, for whose end we then wait
                ptrace.request(ptrace.INTERRUPT, self.tid)
            self._wait_for_stop(time.monotonic() + STOP_SECONDS)
            self._stopped = True
            if self.tid not in procfs.threads(self.pid):
                raise Retry("its id is by now that of another process's thread")
            self.registers = ptrace.registers(self.tid)
            self.back = self._way_back()
        except BaseException as error:
            self.release()
            _retry_if_ended(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        _retry_if_ended(error)

    def _wait_for_stop(self, deadline: float) -> None:
        spins = 0
        while True:
            tid, state = os.waitpid(self.tid, ptrace.WAIT_ALL | os.WNOHANG)
            if not tid:
                spins += 1
                if spins > 300:
                    time.sleep(0.00005)
                    if time.monotonic() > deadline:
                        raise ThreadStuckError(self.pid, self.tid)
                continue
            if os.WIFEXITED(state) or os.WIFSIGNALED(state):
                self._held = False
                if self.tid == self.pid:
                    raise GoneError(self.pid, "ended meanwhile")
                raise Retry("the thread ended")
            number, event = os.WSTOPSIG(state), state >> 16
            if event == ptrace.EVENT_STOP and number == signal.SIGTRAP:
                return
            if event == ptrace.EVENT_STOP:
                self._stopped = True
                raise StoppedError(self.pid)
            # a signal of the target's own, on its way: let it through and stop after it
            ptrace.request(ptrace.CONT, self.tid, 0, 0 if event else number)

    def _way_back(self) -> Registers:
        """What the kernel would let the thread continue with if we had not been there."""
        now = self.registers
        if now.cs != ptrace.USER_CODE_64:
            raise ArchError(self.pid, "it runs 32-bit code")
        back = now.copy()
        inside = ctypes.c_int64(now.orig_rax).value >= 0
        if self._wanted is not None and (not inside or now.orig_rax != self._wanted):
            raise Retry("the thread woke up")
        if not inside:
            if self._in_sequence(now.rip):
                raise Retry("in a restartable sequence, which it would not restart if it came back from elsewhere")
            return back
        if self._memory.read(now.rip - 2, 2) != SYSCALL_INSTRUCTION:
            raise Retry("not at a system call instruction")
        result = ctypes.c_int64(now.rax).value
        if result in ERESTART:
            back.rip, back.rax = now.rip - 2, now.orig_rax
        elif result == ERESTART_BLOCK:
            back.rip, back.rax = now.rip - 2, threads.RESTART_SYSCALL
        elif result == -errno.EINTR and now.orig_rax in threads.REWOUND and not self._signal_pending():
            back.rip, back.rax = now.rip - 2, now.orig_rax
        return back  # else the call had just finished: its result stays

    def _in_sequence(self, address: int) -> bool:
        area = ptrace.restartable_sequences(self.tid)
        sequence = self._memory.word(area + SEQUENCE) if area else 0
        if not sequence:
            return False
        _, start, length, _ = struct.unpack("<4Q", self._memory.read(sequence, 32))
        return bool(start <= address < start + length)

    def _signal_pending(self) -> bool:
        fields = procfs.status(self.pid, self.tid)
        pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
        return bool(pending & ~int(fields["SigBlk"], 16))

    def go(self, address: int, stack: int) -> None:
        """Let the thread go on at `address` with its stack at `stack`."""
        values = self.registers.copy()
        values.rip, values.rsp, values.orig_rax, values.rax = address, stack, ptrace.NO_SYSTEM_CALL, 0
        self._detach(values)

    def restore(self, back: Registers, vector_state: bytes) -> None:
        """Let the thread go on with `back` and `vector_state`, wherever it is now."""
        ptrace.set_vector_state(self.tid, vector_state)
        values = back.copy()
        values.orig_rax = ptrace.NO_SYSTEM_CALL
        self._detach(values)

    def _detach(self, values: Registers) -> None:
        ptrace.set_registers(self.tid, values)
        self._held = False
        ptrace.request(ptrace.DETACH, self.tid)

    def release(self) -> None:
        """Let the thread go on as it was. Does nothing once it has been sent on its way."""
        if not self._held:
            return
        # A thread that never stopped goes on untouched, and is let go when the thread that runs us ends.
        self._held = False
        if self._stopped:
            with contextlib.suppress(OSError):
                ptrace.request(ptrace.DETACH, self.tid)


def _retry_if_ended(error: BaseException | None) -> None:
    """A thread can end under our hands: its process is killed, or becomes another program."""
    if isinstance(error, (ProcessLookupError, ChildProcessError)):
        raise Retry("the thread ended") from None
