"""The process to attach to: whether it can be, and where its CPython and C library functions are."""

from __future__ import annotations

import re
import struct
from pathlib import PurePosixPath

from tensortui.attach import elf, permissions, procfs
from tensortui.attach.errors import (
    ArchError,
    GoneError,
    NotAProcessError,
    NotInitializedError,
    NotPythonError,
    StoppedError,
    TracedError,
)
from tensortui.attach.memory import Memory, MemoryGoneError

PYTHON_SYMBOLS = (
    "Py_AddPendingCall",
    "PyRun_SimpleStringFlags",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "Py_IsInitialized",
)
C_SYMBOLS = ("pthread_create", "pthread_self", "pthread_detach", "__errno_location")
LIBC = re.compile(r"libc[.-]|libpthread|ld-musl|libc\.musl")


def check_state(pid: int) -> None:
    """Raise the error that fits when process `pid` cannot be attached to in its present state."""
    try:
        fields = procfs.status(pid)
    except OSError:
        raise permissions.explain(pid) from None
    if int(fields["Tgid"]) != pid:
        raise NotAProcessError(pid, int(fields["Tgid"]))
    if fields["State"][0] in "ZX":
        raise GoneError(pid, "has ended (it is a zombie)")
    if fields.get("TracerPid", "0") != "0":
        raise TracedError(pid, int(fields["TracerPid"]), held=fields["State"][0] == "t")
    if fields["State"][0] == "T":
        raise StoppedError(pid)


class Target:
    """Process `pid`, diagnosed, with its memory open and its symbols found."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        check_state(pid)
        try:
            self.maps = procfs.maps(pid)
            self.memory = Memory(pid)
        except PermissionError:
            raise permissions.explain(pid) from None
        except OSError:
            raise GoneError(pid, "has ended") from None
        self.symbols: dict[str, int] = {}
        try:
            self._find_symbols()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the target's memory."""
        self.memory.close()

    def _images(self) -> list[tuple[int, int]]:
        """(rank, base) of the loaded images, those most likely to hold Python first."""
        try:
            executable = str((procfs.PROC / str(self.pid) / "exe").readlink())
        except OSError:
            executable = ""
        bases: dict[str, int] = {}
        code = set()
        for mapping in self.maps:
            if mapping.inode == "0" or not mapping.path:
                continue
            if mapping.offset == 0:
                bases.setdefault(mapping.path, mapping.start)
            if "x" in mapping.permissions:
                code.add(mapping.path)
        return sorted((_rank(path, executable), base) for path, base in bases.items() if path in code)

    def _find_symbols(self) -> None:
        images = self._images()
        missing = set(PYTHON_SYMBOLS + C_SYMBOLS)
        for rank, base in images:
            if rank <= 1:
                kind = elf.machine(self.memory, base)
                if kind != elf.EM_X86_64 and rank == 1:
                    raise ArchError(self.pid, "32-bit" if kind == -1 else f"ELF machine {kind}")
            try:
                image = elf.Image(self.memory, base)
                found = {name: image.lookup(name) for name in sorted(missing)}
            except MemoryGoneError:
                raise
            except (elf.NotAnImageError, OSError, struct.error):
                continue
            if found.get(PYTHON_SYMBOLS[0]):
                self._check_loaded(image)
            else:
                # a library that only shares a name with CPython's does not count
                found = {name: address for name, address in found.items() if name in C_SYMBOLS}
            self.symbols.update({name: address for name, address in found.items() if address})
            missing -= self.symbols.keys()
            if not missing:
                return
        if not all(name in self.symbols for name in PYTHON_SYMBOLS):
            raise NotPythonError(self.pid)

    def _check_loaded(self, image: elf.Image) -> None:
        """Raise NotInitializedError while the loader has not relocated CPython: its functions would crash."""
        for mapping in self.maps:
            if image.protected and image.protected[0] in range(mapping.start, mapping.end):
                if "w" in mapping.permissions:
                    raise NotInitializedError(self.pid)
                return


def _rank(path: str, executable: str) -> int:
    name = PurePosixPath(path.replace(" (deleted)", "")).name
    if name.startswith("libpython"):
        return 0
    if path == executable:
        return 1
    return 2 if LIBC.match(name) else 3
