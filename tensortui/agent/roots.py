"""What the program reaches by itself: globals of its modules, and variables of the functions that run."""

import sys
from typing import Dict, List, Set, Tuple

from tensortui.agent import labels
from tensortui.agent.census import Work
from tensortui.agent.frames import Locals, find_frame, stack_of, thread_names
from tensortui.agent.guard import MOST_FRAMES, Alone, DisturbedError, Stillness
from tensortui.agent.links import OURS
from tensortui.agent.names import namespace
from tensortui.agent.threads import Threads
from tensortui.agent.variables import frame_suffix

GLOBAL, LOCAL, OTHER = "global", "local", "object"
TRIES = 20  # of a frame that went on while it was looked at

Root = Tuple[str, str]  # kind and label
Roots = Dict[int, List[Root]]  # by the address of the object


def globals_of(wanted: Set[int], found: Roots) -> Work:
    """Note which globals the objects at the addresses `wanted` are; yields between modules."""
    names = [name for name in list(sys.modules) if type(name) is str and name != "__main__"]
    names = [name for name in names if not name.startswith(OURS)]
    main = id(namespace("__main__"))
    for name in ["__main__", *names]:
        _look_into(name, main, wanted, found)
        yield


def _look_into(name: str, main: int, wanted: Set[int], found: Roots) -> None:
    space = namespace(name)
    if space is None or (id(space) == main and name != "__main__"):
        return
    if wanted.isdisjoint(map(id, dict.values(space))):
        return
    prefix = "" if name == "__main__" else labels.clip(labels.safe(name), 80) + "."
    for key, value in dict.items(space):
        if id(value) in wanted:
            found.setdefault(id(value), []).append((GLOBAL, prefix + labels.variable(key)))


def contexts_of(threads: Threads, wanted: Set[int], found: Roots) -> None:
    """Note in which contexts at the addresses `wanted` a thread runs."""
    with Alone():
        for address, called in threads.contexts(wanted).items():
            found.setdefault(address, []).append((OTHER, "the running context of %s" % called))


def is_namespace(thing: object) -> bool:
    """Whether `thing` is the dictionary of an imported module."""
    if type(thing) is not dict:
        return False
    name = thing.get("__name__")
    return type(name) is str and namespace(name) is thing


class Running:
    """Variables of the functions that run. `addresses` are those of the frames that were seen last."""

    def __init__(self, frames: Locals) -> None:
        """Take what the layout of frames is known by."""
        self._frames = frames
        self.addresses: Set[int] = set()
        self.reason = frames.reason

    def locals_of(self, wanted: Set[int], found: Roots) -> Work:
        """Note which variables the objects at the addresses `wanted` are; yields between frames."""
        for thread, address, called in self._list() if self._frames.usable else ():
            for _ in range(TRIES):
                try:
                    self._look(thread, address, called, wanted, found)
                    break
                except DisturbedError:
                    pass  # over before the yield: it has the frames of the target in its traceback
                yield
            yield

    def _list(self) -> List[Tuple[int, int, str]]:
        """Return thread, address and thread name of the frames."""
        found: List[Tuple[int, int, str]] = []
        with Alone():
            self.addresses.clear()
            names = thread_names()
            for thread, innermost in Stillness().frames.items():
                for frame in stack_of(innermost):
                    self.addresses.add(id(frame))
                    if len(self.addresses) < MOST_FRAMES and frame.f_code.co_name != "<module>":
                        found.append((thread, id(frame), names.get(thread, "")))
        return found

    def _look(self, thread: int, address: int, called: str, wanted: Set[int], found: Roots) -> None:
        with Alone():
            now = Stillness()
            frame = find_frame(now.frames.get(thread), address)
            if frame is not None:
                suffix = frame_suffix(frame.f_code, frame.f_lineno, called)
                for name, value in self._frames.of(frame, now):
                    if id(value) in wanted:
                        found.setdefault(id(value), []).append((LOCAL, labels.variable(name) + suffix))
