"""The few ptrace requests we need, on x86_64 Linux.

A tracer is a thread, not a process: every call for one tracee has to come from the thread that seized it, and when
that thread ends the kernel lets go of whatever it still holds.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

CONT, GETREGS, SETREGS, DETACH = 7, 12, 13, 17
GETREGSET, SETREGSET, SEIZE, INTERRUPT = 0x4204, 0x4205, 0x4206, 0x4207
GET_RSEQ_CONFIGURATION = 0x420F
NT_X86_XSTATE = 0x202
EVENT_STOP = 128
WAIT_ALL = 0x40000000  # __WALL: threads too
USER_CODE_64 = 0x33
NO_SYSTEM_CALL = (1 << 64) - 1

_NAMES = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
_libc: Any = None


class Registers(ctypes.Structure):
    """struct user_regs_struct."""

    _fields_ = [(name, ctypes.c_uint64) for name in _NAMES]

    r15: int
    r14: int
    r13: int
    r12: int
    rbp: int
    rbx: int
    r11: int
    r10: int
    r9: int
    r8: int
    rax: int
    rcx: int
    rdx: int
    rsi: int
    rdi: int
    orig_rax: int
    rip: int
    cs: int
    eflags: int
    rsp: int

    def copy(self) -> Registers:
        """The same values in a structure of their own."""
        return Registers.from_buffer_copy(self)


class _Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    base: int
    length: int


def request(number: int, tid: int, address: int = 0, data: int = 0) -> None:
    """One ptrace request; OSError when the kernel refuses it."""
    global _libc  # noqa: PLW0603 - loading it at import time would cost every start of the command line
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
        _libc.ptrace.restype = ctypes.c_long
        _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if _libc.ptrace(number, tid, address, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def registers(tid: int) -> Registers:
    """The general registers of a stopped thread."""
    values = Registers()
    request(GETREGS, tid, 0, ctypes.addressof(values))
    return values


def set_registers(tid: int, values: Registers) -> None:
    """Set the general registers of a stopped thread."""
    request(SETREGS, tid, 0, ctypes.addressof(values))


def vector_state(tid: int) -> bytes:
    """The xsave area of a stopped thread."""
    buffer = ctypes.create_string_buffer(0x8000)
    vector = _Vector(ctypes.addressof(buffer), len(buffer))
    request(GETREGSET, tid, NT_X86_XSTATE, ctypes.addressof(vector))
    return buffer.raw[: vector.length]


def set_vector_state(tid: int, state: bytes) -> None:
    """Set the xsave area of a stopped thread."""
    buffer = ctypes.create_string_buffer(state, len(state))
    vector = _Vector(ctypes.addressof(buffer), len(state))
    request(SETREGSET, tid, NT_X86_XSTATE, ctypes.addressof(vector))


def restartable_sequences(tid: int) -> int:
    """The address of the stopped thread's `struct rseq`; 0 where it has none, or the kernel does not say."""
    configuration = (ctypes.c_uint64 * 3)()
    try:
        request(GET_RSEQ_CONFIGURATION, tid, ctypes.sizeof(configuration), ctypes.addressof(configuration))
    except ProcessLookupError:
        raise
    except OSError:
        return 0
    return configuration[0]
