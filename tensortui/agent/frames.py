"""Read the local variables of running frames in place: `f_locals` would keep them alive until the function returns.

The fast locals are found by calibration on a frame of our own. Everything here must happen `Alone`: a frame and its
slots are only certain to be what they were as long as no other thread runs.
"""

import ctypes
import operator
import sys
from itertools import chain
from types import CellType, CodeType, FrameType
from typing import Any, Callable, Dict, List, Optional, Tuple

from tensortui.agent.guard import ONLY_TRUE, Alone, DisturbedError, Stillness, not_alone
from tensortui.agent.inline import attribute
from tensortui.agent.memory import WORD, is_pointer

MAX_SLOTS = 512
MAX_DEPTH = 1_000  # frames of one thread
TRIES = 5  # to calibrate, where threads are switched in the middle of it
_TAGGED_INT = 3  # 3.14: slots are tagged references; both low bits mean an integer that is no object, no others: unset


def _words(address: int, count: int) -> List[int]:
    return list((ctypes.c_size_t * count).from_address(address))


def _reference_taker() -> Callable[[int], Any]:
    """Return a C function that takes a reference to the object at an address, which must be alive."""
    take = ctypes.PyDLL(None)["PyObject_SelfIter"]  # gives back what it is given, in every version
    take.restype, take.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return take


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
        """Calibrate on frames of our own. Loading the library may give up the interpreter lock."""
        not_alone()
        self.reason = ""
        self._pointer = 0  # offset of the pointer to the inner frame in the frame object; 0: the slots lie in it
        self._slots = 0
        self.usable = False
        self._take = _reference_taker()
        if sys.implementation.name != "cpython" or not (3, 9) <= sys.version_info[:2] <= (3, 14):
            self.reason = "names of local variables cannot be read on this interpreter"
        elif (3, 11) <= sys.version_info < (3, 11, 2):
            # These still list a frame while its variables are being freed.
            self.reason = "names of local variables are not read before Python 3.11.2"
        elif "t" in getattr(sys, "abiflags", ""):  # not from sysconfig: that reads files
            self.reason = "names of local variables cannot be read without the global interpreter lock"
        if not self.reason:
            for _ in range(TRIES):
                try:
                    with Alone():
                        self.usable = self._calibrate()
                    break
                except DisturbedError:
                    continue
                except Exception:
                    break
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
        found: Dict[str, Any] = {}
        try:
            names = slot_names(frame.f_code)
            words = dict(zip(names, self._array(frame, len(names))))
            for name, value in (("a", a), ("b", b), ("number", number), ("c", c), ("capture", capture)):
                if words[name] & ~_TAGGED_INT != id(value):
                    return False  # before anything is taken for an object
            found.update(self.of(frame, Stillness()))
            return (
                found.get("a") is a
                and found.get("b") is b
                and found.get("c") is c
                and found.get("captured") is captured
                and found.get("capture") is capture
                and found.get("number") is number
                and "unset" not in found
            )
        finally:
            # It is in there too, and would keep itself, and those of our callers with all that they have in hand.
            found.clear()
            del frame

    def _array(self, frame: FrameType, count: int) -> "ctypes.Array[ctypes.c_size_t]":
        return (ctypes.c_size_t * count).from_address(self._base(frame))

    def _base(self, frame: FrameType) -> int:
        """Return the address of the first slot."""
        base = id(frame)
        if self._pointer:
            base = _words(base + self._pointer, 1)[0]
        return base + self._slots

    def slot(self, frame: FrameType, address: int) -> str:
        """Return the name of the variable whose slot is at `address`; "" where there is none, as on the stack."""
        names = slot_names(frame.f_code)
        place = (address - self._base(frame)) // WORD
        return names[place] if self.usable and 0 <= place < len(names) else ""

    def of(self, frame: FrameType, now: Stillness) -> List[Tuple[str, Any]]:
        """Return the set local variables of `frame`, which was running when `now` was made.

        The caller is `Alone` and drops them before that ends. Raises DisturbedError where the frame may have gone on
        since: its slots are looked at, and references taken, in the very moment in which it is certain that it has not.
        """
        names = slot_names(frame.f_code)[:MAX_SLOTS]
        if not names:
            return []
        slots = self._array(frame, len(names))
        words = now.read(slots)
        chosen = [
            (name, word & ~_TAGGED_INT)
            for name, word in zip(names, words)
            if word & ~_TAGGED_INT and word & _TAGGED_INT != _TAGGED_INT
        ]
        unchanged = map(ONLY_TRUE, map(operator.eq, (words,), map(list, (slots,))))
        values = now.read(chain(unchanged, map(self._take, [address for _, address in chosen])))[1:]
        return [(name, inner) for (name, _), value in zip(chosen, values) for inner in _content(value)]


def _content(value: Any) -> Tuple[Any, ...]:
    """Return `value`, or what is in it where it is the cell of a captured variable: nothing if that is not set."""
    if type(value) is not CellType:
        return (value,)
    try:
        return (value.cell_contents,)
    except ValueError:
        return ()


class _Mark:
    """Something with an address that nothing else has."""


def _probe(a: Any, b: Any, c: Any) -> Optional[Tuple[int, int]]:
    """Find the three arguments, in their order, in or behind the frame of this very call: (pointer, slots)."""
    want = [id(a), id(b), id(c)]
    frame = sys._getframe()
    at, size = id(frame), sys.getsizeof(frame) // WORD
    del frame  # it would keep itself
    inside = _words(at, size)
    if sys.version_info < (3, 11):
        for place in range(2, size - 2):
            if inside[place : place + 3] == want:
                return 0, place * WORD
        return None
    inner = inside[3]  # the frame object: its head, f_back, f_frame
    if not is_pointer(inner):
        return None
    behind = _words(inner, 16)
    for place in range(4, 14):
        if [one & ~1 for one in behind[place : place + 3]] == want:
            return 3 * WORD, place * WORD
    return None


def stack_of(frame: Optional[FrameType]) -> List[FrameType]:
    """Return `frame` and those that called it; [] where there are too many to go through in one piece."""
    stack = []
    while frame is not None:
        stack.append(frame)
        if len(stack) > MAX_DEPTH:
            return []
        frame = frame.f_back
    return stack


def find_frame(frame: Optional[FrameType], address: int) -> Optional[FrameType]:
    """Return the frame at `address` among `frame` and those that called it."""
    for _ in range(MAX_DEPTH):
        if frame is None or id(frame) == address:
            return frame
        frame = frame.f_back
    return None


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
        name = attribute(thread, "_name")
        if thread is main_thread:
            main = ident
        names[ident] = name if type(name) is str else ""
    if main is not None:
        names[main] = ""  # no name is shown for the main thread
    return names
