"""The memory of another process, through /proc/PID/mem."""

from __future__ import annotations

import errno
import os
import struct

MASK64 = (1 << 64) - 1
LAST_OFFSET = (1 << 63) - 1  # of a file; no program has memory beyond


class MemoryGoneError(OSError):
    """The memory is no more: the process has ended, or has become another program."""

    def __init__(self) -> None:
        super().__init__(errno.ESTALE, "the memory is gone")


class Memory:
    """Reads and writes the memory of process `pid`; keeps one file open, which keeps meaning the same process."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)

    def read(self, address: int, size: int) -> bytes:
        """`size` bytes at `address`; OSError when they are not all there."""
        if not 0 <= address <= LAST_OFFSET - size:
            raise OSError(errno.EIO, "no such address")
        data = os.pread(self._fd, size, address)
        if len(data) != size:
            raise OSError(errno.EIO, "short read") if data else MemoryGoneError()
        return data

    def write(self, address: int, data: bytes) -> None:
        """Put `data` at `address`, also into pages that the process itself cannot write."""
        done = os.pwrite(self._fd, data, address)
        if done != len(data):
            raise OSError(errno.EIO, "short write") if done else MemoryGoneError()

    def word(self, address: int) -> int:
        """The unsigned 64 bits at `address`."""
        return int(struct.unpack("<Q", self.read(address, 8))[0])

    def put_word(self, address: int, value: int) -> None:
        """Put 64 bits at `address`."""
        self.write(address, struct.pack("<Q", value & MASK64))

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
