"""Give the tensors their names: how the program itself would reach them."""

import functools
import os
import sys
from itertools import compress
from types import CodeType
from typing import Any, Callable, Dict, Generator, List, Optional, Tuple, TypeVar

from tensortui.agent import containers, labels, roles
from tensortui.agent.census import Census, Context, Tracked, Work
from tensortui.agent.containers import LEAF, LEARNED, MODULE, OPTIMIZER, TENSOR, VARIABLE, Entries, Kinds
from tensortui.agent.frames import MAX_DEPTH, Locals, find_frame, stack_of, thread_names
from tensortui.agent.guard import MOST_FRAMES, Alone, Stillness
from tensortui.agent.opened import Opened as Laid
from tensortui.agent.revisit import Opened, Revisit, Way, descend
from tensortui.agent.walk import DEPTH, Found, Root, Walk
from tensortui.agent.wrappers import Wrappers

MAX_FRAMES, LEAST_FRAMES = 200, 8  # frames whose variables are named in one pass, of all threads and of each
TOO_MANY = "names of local variables: of some stacks only the outermost and the innermost functions are looked at"
TOO_DEEP = "names of local variables: some stacks are too deep to be gone through without a stall"
ABRIDGED = "names: of containers with more than %d entries only the first %d and the last %d are looked at" % (
    containers.HEAD + containers.TAIL, containers.HEAD, containers.TAIL,
)  # fmt: skip
RECENT_ENTRIES = 500  # below one variable
LIBRARY_DEPTH = 3
LIBRARY_EVERY = 60.0  # seconds

_T = TypeVar("_T")
_SKIPPED = ("torch", "tensortui")  # nothing of the program's is in their globals

_locals: Optional[Locals] = None
_standard: Tuple[str, ...] = ()


def discover(context: Context) -> Work:
    """Name everything that can be reached; yields between pieces of well under a millisecond."""
    base = context.census.base
    if base is None:
        return False
    kinds = make_kinds(context, base)
    wrappers = Wrappers(context, kinds, base)
    yield from context.modules.tidy()
    yield from context.optimizers.tidy()
    walk = Walk(context, kinds, _leaf_reader(context, base), wrappers)
    walk.revisit = revisit_of(context.census)
    walk.direct = context.direct
    yield from _globals(walk, kinds, "__main__", True)
    walk.direct = None  # what other modules hold stays
    memory = memory_of(context.census)
    if memory.count != len(sys.modules):
        memory.count = len(sys.modules)
        yield from _sort_modules(memory)
    for name in memory.own:
        yield from _globals(walk, kinds, name, False)
    numbering = roles.Numbering()
    yield from roles.stray_modules(walk.hidden, walk, numbering)
    frames = Frames(walk, kinds, context.reasons)
    walk.direct = context.direct
    yield from frames.name_all(False)
    walk.direct = None
    yield from roles.stray_modules(context.modules, walk, numbering)
    yield from _libraries(context, walk, kinds, memory)
    yield from frames.name_all(True)
    optimizers = roles.Optimizers(context, kinds, wrappers)
    yield from optimizers.name_groups()
    yield from roles.Gradients(context, base).name_all()
    yield from optimizers.name_states()
    context.reasons += filter(None, (context.census.withheld, wrappers.reason()))
    if walk.partial:
        context.reasons.append("names: there are more objects than are looked through for tensors in one go")
    if kinds.abridged:
        context.reasons.append(ABRIDGED)
    kinds.opened.pass_over(not walk.partial)
    return not (walk.partial or optimizers.partial)


def discover_gradients(context: Context) -> Work:
    """Name the gradients of what had one when all was last looked through."""
    if context.census.base is not None:
        yield from roles.Gradients(context, context.census.base).name_all(recent=True)


def discover_direct(context: Context) -> Work:
    """Name what the local variables and the globals of `__main__` hold directly: another tensor may soon be there."""
    base = context.census.base
    if base is None:
        context.direct = None
        return
    frames = yield from _variables(context, base, 0)
    if not frames.whole:
        context.direct = None


def revisit_of(census: Census) -> Revisit:
    """Return the containers that are looked at with each sample."""
    found: Optional[Revisit] = census.memory.get("revisit")
    if found is None:
        found = census.memory["revisit"] = Revisit(census.clock)
    return found


def revisit(context: Context, named: Callable[[Tracked], None], stirred: bool) -> Work:
    """Call the tensors in containers by where they are now; `named` is told whose name has changed."""
    if context.census.base is not None:
        kinds = make_kinds(context, context.census.base)
        yield from revisit_of(context.census).run(context.census, kinds, named, stirred)


def discover_recent(context: Context) -> Work:
    """Name what comes and goes with each step and is held by the containers that these variables hold."""
    base = context.census.base
    if base is None:
        return
    frames = yield from _variables(context, base, DEPTH)
    yield from frames.name_all(True)


def _variables(context: Context, base: type, depth: int) -> Generator[Any, None, "Frames"]:
    kinds = make_kinds(context, base, shallow=True)
    walk = Walk(context, kinds, _leaf_reader(context, base), Wrappers(context, kinds, base))
    walk.most = RECENT_ENTRIES
    walk.leaves_known = True
    walk.revisit = revisit_of(context.census)
    walk.direct = context.direct
    frames = Frames(walk, kinds, [])
    root = Root(Globals("__main__", kinds), depth=depth)
    root.script = True
    root.where, root.again = "__main__", functools.partial(_global_again, "__main__")
    yield from walk.below(root)
    yield from frames.name_all(False, depth)
    return frames


class Memory:
    """What is kept from one pass to the next: the modules that were told apart, and what those of others hold."""

    def __init__(self) -> None:
        """Start with nothing known."""
        self.count = -1  # of imported modules, when they were told apart
        self.own: List[str] = []
        self.library: List[str] = []
        self.held: List[Found] = []  # by the globals of installed packages
        self.due = 0.0  # when those are looked through again
        self.opened = Laid()


def memory_of(census: Census) -> Memory:
    """Return what the passes keep."""
    memory: Optional[Memory] = census.memory.get("names")
    if memory is None:
        memory = census.memory["names"] = Memory()
    return memory


def _libraries(context: Context, walk: Walk, kinds: Kinds, memory: Memory) -> Work:
    """Name what the globals of installed packages hold. They are many and change little: once in a while."""
    if context.clock() < memory.due:
        for place, (tracked, called, category) in enumerate(memory.held):
            if tracked.ref() is not None:
                context.note(tracked, called, category)
            if not place % 100:
                yield
        return
    held: List[Found] = []
    walk.found = held
    for name in memory.library:
        yield from _globals(walk, kinds, name, False, LIBRARY_DEPTH)
    walk.found = None
    memory.held = held
    memory.due = context.clock() + LIBRARY_EVERY


def make_kinds(context: Context, base: type, shallow: bool = False) -> Kinds:
    """Return how this pass tells types apart."""
    torch = context.torch
    return Kinds(
        [
            (torch.nn.Parameter, LEARNED),
            (base, TENSOR),
            (torch.nn.Module, MODULE),
            (torch.optim.Optimizer, OPTIMIZER),
        ],
        memory_of(context.census).opened,
        shallow,
    )


def _leaf_reader(context: Context, base: type) -> Callable[[Any], bool]:
    """Return a reader of `is_leaf` that no `__torch_function__` of the target sees."""
    plain = context.torch._C.DisableTorchFunctionSubclass
    get = base.__dict__["is_leaf"].__get__

    def is_leaf(tensor: Any) -> bool:
        with plain():
            return bool(get(tensor))

    return is_leaf


def _globals(walk: Walk, kinds: Kinds, module: str, main: bool, depth: int = 0) -> Work:
    """Name what the globals of a module lead to; modules first, so that their parameters get the short names."""
    prefix = "" if main else labels.clip(labels.safe(module), labels.MAX_KEY) + "."

    for modules in (False,) if depth else (True, False):
        root = Root(Globals(module, kinds, modules), prefix)
        root.depth = depth or root.depth
        root.script = main
        root.where, root.again = module, functools.partial(_global_again, module)
        if not depth:  # what packages hold is kept as a whole until they are looked through again
            root.hides = True
            root.key = "modules of " + module if modules else module
        yield from walk.below(root)


class Globals:
    """The globals of a module, opened anew for each piece of a walk: which of them may lead on is told once."""

    def __init__(self, module: str, kinds: Kinds, modules: bool = False) -> None:
        """Tensors come first, or there are only `modules`; nothing is looked at yet."""
        self._module = module
        self._kinds = kinds
        self._modules = modules
        self._keys: Optional[List[str]] = None

    def __call__(self, start: int) -> Optional[Entries]:
        """Return the entries from a position on."""
        space = namespace(self._module)
        if space is None:
            return None
        if self._keys is None:
            keys, values = list(dict.keys(space)), list(dict.values(space))
            chosen = (
                only_modules(keys, values, self._kinds) if self._modules else direct_first(keys, values, self._kinds)
            )
            # A key of the program's own class would be asked for its hash.
            self._keys = [key for key in chosen if type(key) is str]
        return ((VARIABLE, key, space.get(key)) for key in self._keys[start:])


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


def _global_again(module: str, way: Way, kinds: Kinds) -> Opened:
    """Return what a way leads to from the globals of a module."""
    space = namespace(module)
    thing = space.get(way[0][1]) if space is not None and way else None
    thing = descend(thing, way[1:], kinds) if thing is not None else None
    return None if thing is None else (thing, "")


def namespace(name: str) -> Optional[Dict[str, Any]]:
    """Return the globals of an imported module; None where there is none of that name."""
    module = sys.modules.get(name)
    if module is None:
        return None
    try:
        space = containers.module_dict(module)
    except TypeError:  # something else was put into sys.modules
        return None
    return space if type(space) is dict else None


def _sort_modules(memory: Memory) -> Work:
    """Tell apart the imported modules worth a look: the program's own, and those of installed packages."""
    memory.own, memory.library = [], []
    main = id(namespace("__main__"))
    for place, name in enumerate(list(sys.modules)):
        if not place % 100:
            yield
        if type(name) is not str or name.partition(".")[0] in _SKIPPED:
            continue
        space = namespace(name)
        if space is None or id(space) == main:  # as `__mp_main__`, for one
            continue
        file = space.get("__file__")
        if type(file) is not str:
            continue
        if _is_installed(file):
            memory.library.append(name)
        elif not file.startswith(_standard_library()):
            memory.own.append(name)


def _is_installed(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def _standard_library() -> Tuple[str, ...]:
    global _standard  # noqa: PLW0603
    if not _standard:
        _standard = (os.path.join(os.path.dirname(os.__file__), ""),)
    return _standard


def frame_locals() -> Locals:
    """Return what reads local variables: it is calibrated once."""
    global _locals  # noqa: PLW0603
    if _locals is None:
        _locals = Locals()
    return _locals


class Frames:
    """Names the local variables of the frames of all threads."""

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
            for thread, at, suffix, called in found:
                root = Root(functools.partial(self._variables, thread, at, suffix, modules), "", suffix, depth)
                root.local = not library
                root.hides = not library
                root.spare = library
                if not library:
                    root.where = thread, at, labels.without_line(suffix)
                    root.again = functools.partial(_local_again, thread, at, suffix, called)
                yield from self._walk.below(root)
        self.whole = self.whole and not self._walk.partial

    def _list(self, library: bool) -> List[Tuple[int, int, str, str]]:
        """Return thread, address, name suffix and name of the thread of the frames, the outermost of each first."""
        names = thread_names()
        found: List[Tuple[int, int, str, str]] = []
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
        return found

    def _say(self, reason: str) -> None:
        self.whole = False
        if reason not in self._reasons:
            self._reasons.append(reason)

    @staticmethod
    def _wanted(code: CodeType, library: bool) -> bool:
        return code.co_name != "<module>" and _is_library(code.co_filename) == library

    def _variables(self, thread: int, at: int, suffix: str, modules: bool, start: int) -> Optional[Entries]:
        now = Stillness()
        frame = self.find(now, thread, at, suffix)
        if frame is None:
            return None
        entries = [(VARIABLE, name, value) for name, value in self._locals.of(frame, now)]
        values = [value for _, _, value in entries]
        chosen = only_modules if modules else direct_first
        return iter(chosen(entries, values, self._kinds)[start:])

    @staticmethod
    def find(now: Stillness, thread: int, at: int, suffix: str) -> Any:
        """Find the frame again, from the innermost on; None when it, or its function, does not run there by now."""
        frame = find_frame(now.frames.get(thread), at)
        return frame if frame is not None and _where(frame.f_code) in suffix else None


def _local_again(thread: int, at: int, suffix: str, called: str, way: Way, kinds: Kinds) -> Opened:
    """Return what a way leads to from the local variables of a frame. It outlives the pass, and so knows none of it."""
    now = Stillness()
    frame = Frames.find(now, thread, at, suffix)
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
    """Return what follows the name of a variable: the function, file and line, and the thread where it has a name."""
    text = labels.IN_FRAME + "%s%d" % (_where(code), line or 0)
    return text + " [%s]" % labels.clip(labels.safe(thread), 40) if thread else text


@functools.lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    return file.startswith("<frozen") or _is_installed(file) or file.startswith(_standard_library())
