"""The local variables of the program's functions, as they run in its threads or wait in its tasks."""

import functools
import os
from itertools import compress
from types import CodeType
from typing import Any, Callable, List, Optional, Tuple, TypeVar

from tensortui.agent import labels, suspended
from tensortui.agent.census import Work
from tensortui.agent.containers import LEAF, MODULE, TENSOR, VARIABLE, Entries, Kinds
from tensortui.agent.frames import MAX_DEPTH, Locals, find_frame, stack_of, thread_names
from tensortui.agent.guard import MOST_FRAMES, Alone, Stillness
from tensortui.agent.revisit import Opened, Way, descend
from tensortui.agent.walk import DEPTH, Root, Walk

MAX_FRAMES, LEAST_FRAMES = 200, 8  # frames whose variables are named in one pass, of all threads and of each
TOO_MANY = "names of local variables: of some stacks only the outermost and the innermost functions are looked at"
TOO_DEEP = "names of local variables: some stacks are too deep to be gone through without a stall"
TASKS = "names of local variables: those of asyncio tasks are not looked at, for there are too many"

# The thread's identifier, or a weak reference to the task; address, name suffix, and what the thread or task is called.
Place = Tuple[Any, int, str, str]

_T = TypeVar("_T")
_locals: Optional[Locals] = None
_standard: Tuple[str, ...] = ()


def frame_locals() -> Locals:
    """Return what reads local variables: it is calibrated once."""
    global _locals  # noqa: PLW0603
    if _locals is None:
        _locals = Locals()
    return _locals


class Frames:
    """Names the local variables of the frames of all threads, and of the tasks that wait."""

    def __init__(self, walk: Walk, kinds: Kinds, reasons: List[str]) -> None:
        """Calibrate once a process; a reason is noted where that fails."""
        self._locals = frame_locals()
        self._walk = walk
        self._kinds = kinds
        self._reasons = reasons
        self.whole = self._locals.usable  # whether all frames could be looked at
        if not self._locals.usable:
            reasons.append(self._locals.reason)

    def name_all(self, library: bool, depth: int = DEPTH) -> Work:
        """Name the local variables of the program's frames, or those of library frames, where nameless.

        The outermost come first, and modules before all else: these stay, and the names that they give with them.
        """
        if not self._locals.usable:
            return
        with Alone():
            found = self._list(library)
        yield
        for modules in (True, False) if depth else (False,):
            for where, at, suffix, called in found:
                root = Root(functools.partial(self._variables, where, at, suffix, modules), "", suffix, depth)
                root.local = not library
                root.hides = not library
                root.spare = library
                if not library:
                    root.where = where if type(where) is int else id(where), at, labels.without_line(suffix)
                    root.again = functools.partial(_local_again, where, at, suffix, called)
                yield from self._walk.below(root)
        self.whole = self.whole and not self._walk.partial

    def _list(self, library: bool) -> List[Place]:
        """Return where the frames are, the outermost of each thread or task first."""
        names = thread_names()
        found: List[Place] = []
        left = MOST_FRAMES
        stacks = list(Stillness().frames.items())
        most = max(MAX_FRAMES // max(len(stacks), 1), LEAST_FRAMES)
        for thread, frame in reversed(stacks):  # the main thread is the oldest
            stack = stack_of(frame)
            left -= len(stack) or MAX_DEPTH
            if left < 0 or not stack:
                self._say(TOO_DEEP)
                continue
            chosen = [at for at in reversed(stack) if self._wanted(at.f_code, library)]
            if len(chosen) > most:
                self._say(TOO_MANY)
                chosen[most // 2 : -most // 2] = []
            for at in chosen:
                called = names.get(thread, "")
                found.append((thread, id(at), frame_suffix(at.f_code, at.f_lineno, called), called))
        waiting = suspended.frames(functools.partial(self._wanted, library=library))
        if waiting is None and TASKS not in self._reasons:
            self._reasons.append(TASKS)  # what threads hold is named all the same
        for called, task, at in waiting or ():
            found.append((task, id(at), frame_suffix(at.f_code, at.f_lineno, called), called))
        return found

    def _say(self, reason: str) -> None:
        self.whole = False
        if reason not in self._reasons:
            self._reasons.append(reason)

    @staticmethod
    def _wanted(code: CodeType, library: bool) -> bool:
        return code.co_name != "<module>" and _is_library(code.co_filename) == library

    def _variables(self, where: Any, at: int, suffix: str, modules: bool, start: int) -> Optional[Entries]:
        now = Stillness()
        frame = self.find(now, where, at, suffix)
        if frame is None:
            return None
        entries = [(VARIABLE, name, value) for name, value in self._locals.of(frame, now)]
        values = [value for _, _, value in entries]
        chosen = only_modules if modules else direct_first
        return iter(chosen(entries, values, self._kinds)[start:])

    @staticmethod
    def find(now: Stillness, where: Any, at: int, suffix: str) -> Any:
        """Find the frame again, from the innermost on; None when it, or its function, does not run there by now."""
        frame = find_frame(now.frames.get(where), at) if type(where) is int else suspended.find(where, at)
        return frame if frame is not None and _where(frame.f_code) in suffix else None


def _local_again(where: Any, at: int, suffix: str, called: str, way: Way, kinds: Kinds) -> Opened:
    """Return what a way leads to from the local variables of a frame. It outlives the pass, and so knows none of it."""
    now = Stillness()
    frame = Frames.find(now, where, at, suffix)
    if frame is None or not way:
        return None
    thing = next((value for name, value in frame_locals().of(frame, now) if name == way[0][1]), None)
    thing = descend(thing, way[1:], kinds) if thing is not None else None
    if thing is None:
        return None
    return thing, frame_suffix(frame.f_code, frame.f_lineno, called)


def _where(code: Any) -> str:
    return "%s() %s:" % (
        labels.clip(labels.safe(code.co_name), 60),
        labels.clip(labels.safe(os.path.basename(code.co_filename)), 60),
    )


def frame_suffix(code: Any, line: Optional[int], thread: str) -> str:
    """Return what follows the name of a variable: the function, file and line, and the thread or task with a name."""
    text = labels.IN_FRAME + "%s%d" % (_where(code), line or 0)
    return text + " [%s]" % labels.clip(labels.safe(thread), 40) if thread else text


@functools.lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    return file.startswith("<frozen") or is_installed(file) or file.startswith(standard_library())


def only_modules(keys: List[_T], values: List[Any], kinds: Kinds) -> List[_T]:
    """Return those of `keys` whose values are modules."""
    return _of_kinds(keys, values, kinds, lambda kind: kind == MODULE)


def direct_first(keys: List[_T], values: List[Any], kinds: Kinds) -> List[_T]:
    """Return the keys, tensors' first: what has a variable of its own is not called by a container it is in too."""
    direct = _of_kinds(keys, values, kinds, lambda kind: kind >= TENSOR)
    return direct + _of_kinds(keys, values, kinds, lambda kind: LEAF < kind < TENSOR)


def _of_kinds(keys: List[_T], values: List[Any], kinds: Kinds, wanted: Callable[[int], bool]) -> List[_T]:
    """Return the keys of values of some kinds. There may be thousands: each type is told once, the rest done in C."""
    types = list(map(id, map(type, values)))
    chosen = {kind for kind, value in dict(zip(types, values)).items() if wanted(kinds.of(value))}
    return list(compress(keys, map(chosen.__contains__, types)))


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return "site-packages" in file or "dist-packages" in file


def standard_library() -> Tuple[str, ...]:
    """Return where the standard library lies."""
    global _standard  # noqa: PLW0603
    if not _standard:
        _standard = (os.path.join(os.path.dirname(os.__file__), ""),)
    return _standard
