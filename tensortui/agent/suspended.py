"""The frames of coroutines that wait: those of asyncio's tasks, which no thread's stack shows. Only `Alone`.

Nothing of the program's is called: the set of tasks is read from asyncio's own module, its weak references are
followed, and a task is asked for its coroutine by the C function of the class that C made. CPython 3.14 keeps its
tasks in C: none are found there.
"""

import sys
import types
import weakref
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

from tensortui.agent.containers import instance_dict, module_dict, type_dict

MOST_TASKS = 100  # that are looked at,
MOST_REFERENCES = 500  # and references to tasks of any kind, dead ones too
MOST_LOOKED, MOST_FRAMES = 200, 64  # of all of them together: frames, and those whose variables are named
MOST_AWAITED = 16  # coroutines that wait for each other, in one task
SETS = ("_scheduled_tasks", "_all_tasks")  # where asyncio keeps its tasks, in CPython 3.12, and before that

_Frame = types.FrameType
Waiting = Tuple[str, Any, _Frame]  # the name of a task, a weak reference to it, and a frame


def frames(wanted: Callable[[types.CodeType], bool]) -> Optional[List[Waiting]]:
    """Return the frames of the tasks that wait, the outermost of each first; None where there are too many."""
    found: List[Waiting] = []
    looked = 0
    bags = _bags()
    if sum(map(set.__len__, bags)) > MOST_REFERENCES:
        return None
    for place, task in enumerate(_tasks(bags)):
        stack = _stack(task)
        looked += len(stack)
        chosen = [frame for frame in stack if wanted(frame.f_code)]
        if place >= MOST_TASKS or looked > MOST_LOOKED or len(found) + len(chosen) > MOST_FRAMES:
            return None
        if chosen:
            called, ref = _asked("get_name", task), weakref.ref(task)
            found += [(called if type(called) is str else "", ref, frame) for frame in chosen]
    return found


def find(ref: Any, address: int) -> Optional[_Frame]:
    """Find such a frame again; None where its task waits in it no more."""
    task = ref()
    return next((frame for frame in _stack(task) if id(frame) == address), None) if task is not None else None


def _kind() -> Any:
    """Return the class of the tasks that asyncio itself makes in C, None where there is none."""
    kind = _of_module("_asyncio", "Task")
    methods = [type_dict(kind).get(name) for name in ("get_coro", "get_name")] if type(kind) is type else [None]
    return kind if all(type(one) is types.MethodDescriptorType for one in methods) else None


def _asked(method: str, task: Any) -> Any:
    return type_dict(type(task))[method](task)


def _bags() -> List[Set[Any]]:
    """Return the sets of references to tasks; none where asyncio makes no tasks in C."""
    found: List[Set[Any]] = []
    for name in SETS if _kind() is not None else ():
        bag = _of_module("asyncio.tasks", name)
        refs = (instance_dict(bag) or {}).get("data") if type(bag) is weakref.WeakSet else None
        if type(refs) is set:
            found.append(refs)
    return found


def _tasks(bags: List[Set[Any]]) -> Iterator[Any]:
    """Yield each task that asyncio itself has made in C."""
    kind = _kind()
    for refs in bags:
        for ref in set.__iter__(refs):
            task = ref() if type(ref) is weakref.ReferenceType else None
            if type(task) is kind:
                yield task


def _of_module(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    return module_dict(found).get(name) if type(found) is types.ModuleType else None


def _stack(task: Any) -> List[_Frame]:
    """Return the frames of a task's coroutine and of those that it waits for; [] of one that runs: a thread has it."""
    coroutine = _asked("get_coro", task)
    stack: List[_Frame] = []
    while type(coroutine) is types.CoroutineType and len(stack) < MOST_AWAITED:
        frame = coroutine.cr_frame
        if frame is None or coroutine.cr_running:
            return []
        stack.append(frame)
        coroutine = coroutine.cr_await
    return stack
