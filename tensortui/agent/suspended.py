"""The frames of coroutines that wait: those of asyncio's tasks, which no thread's stack shows. Only `Alone`.

Nothing of the program's is called: the set of tasks is read from asyncio's own module, its weak references are
followed, and a task is asked for its coroutine by the C function of the class that C made. CPython 3.14 keeps its
tasks in C: none are found there.
"""

import sys
import types
import weakref
from itertools import islice
from typing import Any, Iterator, List, Optional, Tuple

from tensortui.agent.containers import instance_dict, module_dict, type_dict

MOST_TASKS = 500  # that are looked at
MOST_FRAMES = 32  # of all of them together
MOST_AWAITED = 16  # coroutines that wait for each other, in one task
SETS = ("_scheduled_tasks", "_all_tasks")  # where asyncio keeps its tasks, in CPython 3.12, and before that
TASK = 0  # stands where else a thread's identifier does: no thread has this one

_Frame = types.FrameType


def frames() -> Tuple[List[Tuple[str, List[_Frame]]], bool]:
    """Return the frames of the tasks that wait, by the names of these, the outermost first; and whether that is all."""
    found: List[Tuple[str, List[_Frame]]] = []
    left = MOST_FRAMES
    tasks = list(islice(_tasks(), MOST_TASKS + 1))
    for name, coroutine in tasks[:MOST_TASKS]:
        stack = _stack(coroutine)
        left -= len(stack)
        if left < 0:
            return found, False
        found.append((name, stack))
    return found, len(tasks) <= MOST_TASKS


def find(address: int) -> Optional[_Frame]:
    """Find such a frame again; None where it waits no more."""
    for _, coroutine in islice(_tasks(), MOST_TASKS):
        for frame in _stack(coroutine):
            if id(frame) == address:
                return frame
    return None


def _tasks() -> Iterator[Tuple[str, Any]]:
    """Yield the name and the coroutine of each task that asyncio itself has made in C."""
    kind = _of_module("_asyncio", "Task")
    if type(kind) is not type:
        return
    get_coro, get_name = (type_dict(kind).get(name) for name in ("get_coro", "get_name"))
    if type(get_coro) is not types.MethodDescriptorType or type(get_name) is not types.MethodDescriptorType:
        return
    for name in SETS:
        bag = _of_module("asyncio.tasks", name)
        refs = (instance_dict(bag) or {}).get("data") if type(bag) is weakref.WeakSet else None
        for ref in set.__iter__(refs) if type(refs) is set else ():
            task = ref() if type(ref) is weakref.ReferenceType else None
            if type(task) is kind:
                coroutine, called = get_coro(task), get_name(task)
                if type(coroutine) is types.CoroutineType:
                    yield called if type(called) is str else "", coroutine


def _of_module(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    return module_dict(found).get(name) if type(found) is types.ModuleType else None


def _stack(coroutine: Any) -> List[_Frame]:
    """Return the frames of a coroutine and of those that it waits for; [] of one that runs: a thread's stack has it."""
    stack: List[_Frame] = []
    while type(coroutine) is types.CoroutineType and len(stack) < MOST_AWAITED:
        frame = coroutine.cr_frame
        if frame is None or coroutine.cr_running:
            return []
        stack.append(frame)
        coroutine = coroutine.cr_await
    return stack
