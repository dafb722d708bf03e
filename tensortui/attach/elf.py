"""Dynamic symbols of a loaded ELF image, read from the target's memory.

No file of the target is opened, so deleted, renamed and stripped binaries and other mount namespaces make no
difference: the dynamic symbol table is always mapped.
"""

from __future__ import annotations

import struct

from tensortui.attach.memory import Memory

EM_X86_64 = 62
PT_LOAD, PT_DYNAMIC, PT_GNU_RELRO = 1, 2, 0x6474E552
PAGE = 0x1000
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
MOST_DYNAMIC = 1 << 16  # bytes
LONGEST_CHAIN = 4096  # symbols of one hash; a process may hold anything, a chain without an end too
SYMBOL_TYPES = (0, 1, 2)  # none, object, function


class NotAnImageError(Exception):
    """There is no 64-bit ELF image with dynamic symbols at this address."""


def machine(memory: Memory, base: int) -> int:
    """The machine the image at `base` is for, or -1 when it is not a 64-bit ELF image."""
    header = memory.read(base, 64)
    if header[:4] != b"\x7fELF" or header[4] != 2:
        return -1
    return int(struct.unpack_from("<H", header, 18)[0])


class Image:
    """A loaded image at `base`."""

    def __init__(self, memory: Memory, base: int) -> None:
        self._memory = memory
        if machine(memory, base) != EM_X86_64:
            raise NotAnImageError
        bias, tags, protected = self._headers(base)
        if DT_SYMTAB not in tags or DT_STRTAB not in tags:
            raise NotAnImageError
        self._bias = bias
        # what the loader write-protects once it has relocated the image, in whole pages as it does
        self.protected = range(*(bias + edge & -PAGE for edge in protected))

        def absolute(value: int) -> int:
            return value if value >= base else value + bias  # musl and the vdso leave them unrelocated

        self._symbols, self._strings = absolute(tags[DT_SYMTAB]), absolute(tags[DT_STRTAB])
        self._gnu = absolute(tags[DT_GNU_HASH]) if DT_GNU_HASH in tags else None
        self._sysv = absolute(tags[DT_HASH]) if DT_HASH in tags else None

    def _headers(self, base: int) -> tuple[int, dict[int, int], tuple[int, int]]:
        header = self._memory.read(base, 64)
        (offset,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        if size != PROGRAM_HEADER.size:
            raise NotAnImageError
        table = self._memory.read(base + offset, size * count)
        dynamic, first, protected = None, 0, (0, 0)
        for kind, _, file_offset, address, _, _, length, _ in PROGRAM_HEADER.iter_unpack(table):
            if kind == PT_LOAD and file_offset == 0:
                first = address
            elif kind == PT_DYNAMIC:
                dynamic = (address, length)
            elif kind == PT_GNU_RELRO:
                protected = (address, address + length)
        if dynamic is None or dynamic[1] > MOST_DYNAMIC:
            raise NotAnImageError
        bias = base - first
        tags: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<qQ", self._memory.read(bias + dynamic[0], dynamic[1] & ~15)):
            if tag == 0:
                break
            tags[tag] = value
        return bias, tags, protected

    def _address(self, index: int, name: bytes) -> int | None:
        entry = self._memory.read(self._symbols + 24 * index, 24)
        string, info, _, section, value, _ = struct.unpack("<IBBHQQ", entry)
        if section == 0 or not value or info & 15 not in SYMBOL_TYPES:
            return None
        if self._memory.read(self._strings + string, len(name) + 1) != name + b"\0":
            return None
        return self._bias + int(value)

    def lookup(self, symbol: str) -> int | None:
        """The address of `symbol` in the target, or None when the image does not define it."""
        name = symbol.encode()
        if self._gnu is not None:
            return self._lookup_gnu(self._gnu, name)
        if self._sysv is not None:
            return self._lookup_sysv(self._sysv, name)
        return None

    def _u32(self, address: int) -> int:
        return int(struct.unpack("<I", self._memory.read(address, 4))[0])

    def _lookup_gnu(self, table: int, name: bytes) -> int | None:
        wanted = 5381
        for byte in name:
            wanted = (wanted * 33 + byte) & 0xFFFFFFFF
        buckets, first, bloom, _ = struct.unpack("<IIII", self._memory.read(table, 16))
        bucket = table + 16 + 8 * bloom
        chain = bucket + 4 * buckets
        index = self._u32(bucket + 4 * (wanted % buckets)) if buckets else 0
        for _ in range(LONGEST_CHAIN):
            if not index or index < first:
                break
            value = self._u32(chain + 4 * (index - first))
            if value | 1 == wanted | 1:
                address = self._address(index, name)
                if address is not None:
                    return address
            if value & 1:
                break
            index += 1
        return None

    def _lookup_sysv(self, table: int, name: bytes) -> int | None:
        wanted = 0
        for byte in name:
            wanted = (wanted << 4) + byte
            high = wanted & 0xF0000000
            wanted = (wanted ^ (high >> 24)) & ~high & 0xFFFFFFFF
        buckets = self._u32(table)
        index = self._u32(table + 8 + 4 * (wanted % buckets)) if buckets else 0
        for _ in range(LONGEST_CHAIN):
            if not index:
                break
            address = self._address(index, name)
            if address is not None:
                return address
            index = self._u32(table + 8 + 4 * (buckets + index))
        return None
