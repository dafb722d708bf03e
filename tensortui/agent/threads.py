"""What the interpreter keeps for each thread: the context that it runs in, and its values of thread-locals.

Both are referred to by the state of a thread alone, which is no object. Where in it they are is learned from our own.
"""

import _thread
import contextvars
import ctypes
import sys
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import labels
from tensortui.agent.alive import objects_at
from tensortui.agent.frames import thread_names
from tensortui.agent.guard import COMPANY, not_alone
from tensortui.agent.memory import WORD, Memory

SOUGHT = 64  # words of a state in which they are
NEXT, INTERPRETER = 1, 2  # words of a state
MOST = 1_000  # threads that are looked at

_threads: "Optional[Threads]" = None


class Threads:
    """Reads the states of the threads. `usable` is False where they are not laid out as expected."""

    def __init__(self) -> None:
        """Learn it. Loading the library may give up the interpreter lock."""
        not_alone()
        self._memory = Memory()
        self.usable = False
        self._words = self._context = self._locals = self._ident = 0
        try:
            self.usable = sys.implementation.name == "cpython" and "t" not in getattr(sys, "abiflags", "")
            self.usable = self.usable and self._learn()
        except Exception:
            self.usable = False

    def _learn(self) -> bool:
        library = ctypes.PyDLL(None)
        calls = [library[name] for name in ("PyThreadState_Get", "PyInterpreterState_Get", "PyThreadState_GetDict")]
        for call in calls:
            call.restype, call.argtypes = ctypes.c_void_p, []
        self._head = library["PyInterpreterState_ThreadHead"]
        self._head.restype, self._head.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        state, self._interpreter, space = (int(call()) for call in calls)
        context = contextvars.Context()
        words: List[int] = context.run(self._memory.words_up_to, state, SOUGHT)
        self._context, self._locals = words.index(id(context)), words.index(space)
        self._ident = words.index(_thread.get_ident())
        self._words = max(self._context, self._locals, self._ident, INTERPRETER) + 1
        return any(words[self._ident] == _thread.get_ident() for words in self._states(ours=True))

    def _states(self, ours: bool = False) -> Iterator[List[int]]:
        own: Tuple[int, ...] = () if ours else COMPANY.idents()
        at = self._head(self._interpreter)
        for _ in range(MOST):
            words = self._memory.words(at or 0, self._words)
            if not words or words[INTERPRETER] != self._interpreter:
                return
            if words[self._ident] not in own:
                yield words
            at = words[NEXT]

    def contexts(self, wanted: Set[int]) -> Dict[int, str]:
        """Return which of the objects at `wanted` are contexts that threads run in, and which threads. Only `Alone`."""
        kinds = self._memory.follow(list(wanted), WORD) if self.usable else []
        if id(contextvars.Context) not in kinds:
            return {}
        names = thread_names()
        found = ((words[self._context], words[self._ident]) for words in self._states())
        return {address: _called(names, ident) for address, ident in found if address in wanted}

    def of_local(self, mark: Any) -> str:
        """Return what the thread is called for which `mark` stands in a thread-local. Only `Alone`."""
        for words in self._states() if self.usable else ():
            space = objects_at([words[self._locals]])[0] if words[self._locals] else None
            if type(space) is dict and any(value is mark for value in dict.values(space)):
                return _called(thread_names(), words[self._ident])
        return "a thread"


def threads() -> Threads:
    """Return what reads the states of the threads: it learns once, which must not happen `Alone`."""
    global _threads  # noqa: PLW0603
    if _threads is None:
        _threads = Threads()
    return _threads


def _called(names: Dict[int, str], ident: int) -> str:
    name: Optional[str] = names.get(ident)
    if name is None:
        return "a thread"
    return "thread %s" % labels.clip(labels.safe(name), 40) if name else "the main thread"
