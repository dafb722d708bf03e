"""Read the local variables of running frames in place: `f_locals` would keep them alive until the function returns.

The fast locals are found by calibration on a frame of our own. Everything here must happen `Alone`: a frame and its
slots are only certain to be what they were as long as no other thread runs.
"""

import _thread
import ctypes
import sys
from types import CellType, CodeType, FrameType
from typing import Any, Dict, Iterator, List, Optional, Tuple

WORD = ctypes.sizeof(ctypes.c_size_t)
MAX_SLOTS = 512
_TAGGED_INT = 3  # 3.14: slots are tagged references; both low bits mean an integer that is no object


def _words(address: int, count: int) -> List[int]:
    return list((ctypes.c_size_t * count).from_address(address))


def _object(address: int) -> Any:
    """Return the object at `address`, which must be alive: takes a reference of our own."""
    return ctypes.cast(address, ctypes.py_object).value


def slot_names(code: CodeType) -> Tuple[str, ...]:
    """Return the names of the fast locals in the order of their slots."""
    plain = code.co_varnames
    if sys.version_info >= (3, 11):  # a captured argument shares the slot of its variable
        cells = tuple(one for one in code.co_cellvars if one not in plain)
    else:
        cells = code.co_cellvars
    return plain + cells + code.co_freevars


class Locals:
    """Where this interpreter keeps the fast locals of a frame. `usable` is False where that is not certain."""

    def __init__(self) -> None:
        """Calibrate on frames of our own."""
        self.reason = ""
        self._pointer = 0  # offset of the pointer to the inner frame in the frame object; 0: the slots lie in it
        self._slots = 0
        self.usable = False
        if sys.implementation.name != "cpython" or not (3, 9) <= sys.version_info[:2] <= (3, 14):
            self.reason = "names of local variables cannot be read on this interpreter"
        elif (3, 11) <= sys.version_info < (3, 11, 2):
            # These still list a frame while its variables are being freed.
            self.reason = "names of local variables are not read before Python 3.11.2"
        elif hasattr(sys, "_is_gil_enabled"):
            import sysconfig

            if sysconfig.get_config_var("Py_GIL_DISABLED"):
                self.reason = "names of local variables cannot be read without the global interpreter lock"
        if not self.reason:
            try:
                self.usable = self._calibrate()
            except Exception:
                self.usable = False
            if not self.usable:
                self.reason = "names of local variables cannot be read: the layout of frames is unknown"

    def _calibrate(self) -> bool:
        first, second, third = _Mark(), _Mark(), _Mark()
        found = _probe(first, second, third)
        if found is None:
            return False
        self._pointer, self._slots = found
        return self._check(first, second, 5, third)

    def _check(self, a: Any, b: Any, number: int, c: Any) -> bool:
        """Read this frame, with a captured variable and an unset one, and compare."""
        captured = _Mark()

        def capture() -> Any:
            return captured

        if number < 0:
            unset = a  # noqa: F841
        frame = sys._getframe()
        names = slot_names(frame.f_code)
        words = dict(zip(names, self._read(frame, len(names))))
        for name, value in (("a", a), ("b", b), ("number", number), ("c", c), ("capture", capture)):
            if words[name] & ~_TAGGED_INT != id(value):
                return False  # before anything is taken for an object
        found = dict(self.of(frame))
        return (
            found.get("a") is a
            and found.get("b") is b
            and found.get("c") is c
            and found.get("captured") is captured
            and found.get("capture") is capture
            and found.get("number") is number
            and "unset" not in found
        )

    def _read(self, frame: FrameType, count: int) -> List[int]:
        base = id(frame)
        if self._pointer:
            base = _words(base + self._pointer, 1)[0]
        return _words(base + self._slots, count)

    def of(self, frame: FrameType) -> Iterator[Tuple[str, Any]]:
        """Yield the set local variables of `frame`. The caller is `Alone` and drops each value before that ends."""
        names = slot_names(frame.f_code)[:MAX_SLOTS]
        if not names:
            return
        for name, word in zip(names, self._read(frame, len(names))):
            if not word or word & _TAGGED_INT == _TAGGED_INT:
                continue
            value = _object(word & ~_TAGGED_INT)
            if type(value) is CellType:
                try:
                    value = value.cell_contents
                except ValueError:
                    continue
            yield name, value


class _Mark:
    """Something with an address that nothing else has."""


def _probe(a: Any, b: Any, c: Any) -> Optional[Tuple[int, int]]:
    """Find the three arguments, in their order, in or behind the frame of this very call: (pointer, slots)."""
    want = [id(a), id(b), id(c)]
    frame = sys._getframe()
    size = sys.getsizeof(frame) // WORD
    inside = _words(id(frame), size)
    if sys.version_info < (3, 11):
        for place in range(2, size - 2):
            if inside[place : place + 3] == want:
                return 0, place * WORD
        return None
    inner = inside[3]  # the frame object: its head, f_back, f_frame
    if inner % WORD or inner < 1 << 16:
        return None
    behind = _words(inner, 16)
    for place in range(4, 14):
        if [one & ~1 for one in behind[place : place + 3]] == want:
            return 3 * WORD, place * WORD
    return None


def stacks() -> Dict[int, FrameType]:
    """Return the innermost frame of every thread but this one. Hold it no longer than one piece."""
    frames = sys._current_frames()
    frames.pop(_thread.get_ident(), None)
    return frames


def thread_names() -> Dict[int, str]:
    """Return the names of the threads that `threading` knows, read from its table without a call into it."""
    threading = sys.modules.get("threading")
    main: Optional[int] = None
    names: Dict[int, str] = {}
    if threading is None:
        return names
    space = vars(threading)
    main_thread = space.get("_main_thread")
    active = space.get("_active")
    if type(active) is not dict:
        return names
    for ident, thread in list(active.items()):
        if type(ident) is not int:
            continue
        try:
            name = object.__getattribute__(thread, "__dict__").get("_name")
        except AttributeError:
            continue
        if thread is main_thread:
            main = ident
        names[ident] = name if type(name) is str else ""
    if main is not None:
        names[main] = ""  # no name is shown for the main thread
    return names
