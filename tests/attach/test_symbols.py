"""Symbols from memory, and the machine code that goes with them."""

from __future__ import annotations

import ctypes
import os
import shutil

import pytest

from tensortui.attach import procfs
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
