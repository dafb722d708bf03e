"""Symbols from memory, and the machine code that goes with them."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct

import pytest

from tensortui.attach import elf, procfs
from tensortui.attach.elf import Image, NotAnImageError
from tensortui.attach.memory import Memory
from tensortui.attach.stubs import build, code
from tensortui.attach.target import C_SYMBOLS, PYTHON_SYMBOLS, Target


def test_symbols_are_where_the_loader_says():
    target = Target(os.getpid())
    for name in PYTHON_SYMBOLS:
        assert target.symbols[name] == ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    for name in C_SYMBOLS:
        assert target.symbols[name] == ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    target.close()


def test_every_mapped_image_answers_and_none_invents():
    memory = Memory(os.getpid())
    images = 0
    for mapping in procfs.maps(os.getpid()):
        if mapping.offset == 0 and mapping.path.startswith("/") and ".so" in mapping.path:
            try:
                image = Image(memory, mapping.start)
            except NotAnImageError:
                continue
            images += 1
            assert image.lookup("a_name_that_no_library_has") is None
    assert images > 3
    memory.close()


def test_what_is_no_image_is_refused():
    memory = Memory(os.getpid())
    data = ctypes.create_string_buffer(b"no ELF here", 4096)
    with pytest.raises(NotAnImageError):
        Image(memory, ctypes.addressof(data))
    with pytest.raises(OSError):
        memory.read(8, 8)
    memory.close()


def image_with(**tables):
    """An image in memory of ours, and its address; the dynamic section says `tables`, as offsets from that address."""
    image = ctypes.create_string_buffer(1 << 18)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHH6x", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2)
    load = struct.pack("<IIQQQQQQ", elf.PT_LOAD, 5, 0, 0, 0, len(image), len(image), 4096)
    dynamic = struct.pack("<IIQQQQQQ", elf.PT_DYNAMIC, 6, 512, 512, 512, 0, 16 * len(tables) + 16, 8)
    put(image, 0, header + load + dynamic)
    put(image, 512, b"".join(struct.pack("<qQ", getattr(elf, name), offset) for name, offset in tables.items()))
    return image, ctypes.addressof(image)


def put(image, offset, data):
    image[offset : offset + len(data)] = data


@pytest.mark.parametrize("kind", ["DT_HASH", "DT_GNU_HASH"])
def test_symbols_without_an_end_are_given_up(kind):
    """A process may hold anything, and root may be told to attach to it."""
    image, base = image_with(DT_SYMTAB=1024, DT_STRTAB=2048, **{kind: 4096})
    # one bucket and, in the first, a symbol that is followed by itself; in the second no hash says that it is the last
    put(image, 4096, struct.pack("<5I", 1, 2, 1, 0, 1) if kind == "DT_HASH" else struct.pack("<5I", 1, 1, 0, 0, 1))
    memory = CountingMemory(os.getpid())
    assert Image(memory, base).lookup("a_name") is None
    assert memory.reads > elf.LONGEST_CHAIN
    memory.close()


class CountingMemory(Memory):
    reads = 0

    def read(self, address, size):
        self.reads += 1
        assert self.reads < 10 * elf.LONGEST_CHAIN, "it does not end"
        assert size <= elf.MOST_DYNAMIC, "it takes all of our memory"
        return super().read(address, size)


@pytest.mark.parametrize(("at", "value"), [(54, b"\xff" * 4), (64 + 56 + 40, b"\xff" * 8), (32, b"\xff" * 8)])
def test_sizes_and_places_that_cannot_be_are_refused(at, value):
    memory = CountingMemory(os.getpid())
    image, base = image_with()
    put(image, at, value)
    with pytest.raises((NotAnImageError, OSError)):
        Image(memory, base)
    memory.close()


@pytest.mark.skipif(not all(map(shutil.which, ("gcc", "objcopy", "nm"))), reason="needs gcc and binutils")
def test_machine_code_is_what_its_sources_assemble_to():
    for name in build.SYMBOLS:
        raw, offsets = build.assemble(name)
        assert raw == getattr(code, name.upper())
        for symbol, offset in offsets.items():
            assert offset == getattr(code, f"{name.upper()}_{symbol.upper()}")


def test_start_time_is_the_kernels():
    ticks = procfs.start_time(os.getpid())
    uptime = float((procfs.PROC / "uptime").read_text().split()[0])
    assert 0 < ticks / os.sysconf("SC_CLK_TCK") <= uptime
    assert procfs.inner_pid(os.getpid()) == os.getpid() and procfs.inner_uid(os.getpid()) == os.geteuid()
    assert procfs.alive(os.getpid()) and not procfs.alive(2**22 + 1)
