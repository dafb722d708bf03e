"""Choosing a thread to borrow: one that sleeps in a system call which the kernel restarts without a trace.

Left out on purpose: write and send (short counts), ioctl (up to the driver), receives with MSG_WAITALL, and, for
a call that allocates memory, low-level locks of the C library (the sleeper may hold another one that malloc needs).
"""

from __future__ import annotations

from typing import NamedTuple

from tensortui.attach import procfs

RESTART_SYSCALL = 219  # how a sleep that was restarted once shows
FUTEX = 202
RECVFROM, RECVMSG = 45, 47
MSG_WAITALL = 0x100
FUTEX_WAIT, FUTEX_WAIT_BITSET = 0, 9
LOW_LEVEL_LOCK = 2  # the value a contended glibc lock is waited for with

# Smaller is better.
RANKS = {
    230: 0,  # clock_nanosleep
    RESTART_SYSCALL: 1,
    35: 1,  # nanosleep
    7: 1,  # poll
    271: 1,  # ppoll
    270: 1,  # pselect6
    23: 1,  # select
    61: 2,  # wait4
    247: 2,  # waitid
    34: 2,  # pause
    FUTEX: 3,
    0: 4,  # read
    43: 4,  # accept
    288: 4,  # accept4
}
# These return EINTR after any stop; they are started anew unless a signal is really pending.
REWOUND = {
    232: 6,  # epoll_wait
    281: 6,  # epoll_pwait
    441: 6,  # epoll_pwait2
    RECVFROM: 7,
    RECVMSG: 7,
}


class Sleeper(NamedTuple):
    """A thread that may be borrowed, and the system call in which it sleeps (None: a running main thread)."""

    rank: float
    tid: int
    system_call: int | None


def sleeping_in(pid: int, tid: int) -> procfs.SystemCall | None:
    """The system call in which the thread sleeps, or None."""
    try:
        if procfs.state(pid, tid) != "S":
            return None
        call = procfs.system_call(pid, tid)
    except OSError:
        return None
    return call if call.number is not None else None


def sleepers(pid: int, *, may_allocate: bool) -> list[Sleeper]:
    """The threads that may be borrowed, the best first; the main thread after others that are as good."""
    found = []
    for tid in procfs.threads(pid):
        call = sleeping_in(pid, tid)
        if call is None or call.number is None:
            continue
        rank = _rank(call, may_allocate=may_allocate)
        if rank is not None:
            found.append(Sleeper(rank + (0.5 if tid == pid else 0), tid, call.number))
    return sorted(found)


def running_main(pid: int) -> list[Sleeper]:
    """The main thread, when it is on a processor: it may be stopped too, but not to allocate memory."""
    return [Sleeper(0, pid, None)] if procfs.state(pid, pid) == "R" else []


def restartable_sleep(pid: int, tid: int) -> bool:
    """Whether the thread sleeps in a system call that ends by itself only when what it waits for comes."""
    call = sleeping_in(pid, tid)
    return call is not None and call.number in RANKS


def _rank(call: procfs.SystemCall, *, may_allocate: bool) -> int | None:
    number = call.number
    assert number is not None
    if number == FUTEX:
        operation = call.arguments[1] & 0x7F
        if operation not in (FUTEX_WAIT, FUTEX_WAIT_BITSET):
            return None
        if operation == FUTEX_WAIT and call.arguments[2] == LOW_LEVEL_LOCK:
            return None if may_allocate else 8
    if number == RECVFROM and call.arguments[3] & MSG_WAITALL:
        return None
    if number == RECVMSG and call.arguments[2] & MSG_WAITALL:
        return None
    return RANKS.get(number, REWOUND.get(number))
