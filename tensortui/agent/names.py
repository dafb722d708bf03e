"""Give the tensors their names: how the program itself would reach them."""

import functools
import sys
from typing import Any, Callable, Dict, Generator, List, Optional

from tensortui.agent import containers, labels, roles
from tensortui.agent.census import Census, Context, Tracked, Work
from tensortui.agent.containers import LEARNED, MODULE, OPTIMIZER, TENSOR, VARIABLE, Entries, Kinds
from tensortui.agent.opened import Opened as Laid
from tensortui.agent.revisit import Opened, Revisit, Way, descend
from tensortui.agent.variables import Frames, direct_first, is_installed, only_modules, standard_library
from tensortui.agent.walk import DEPTH, Found, Root, Walk
from tensortui.agent.wrappers import Wrappers

ABRIDGED = "names: of containers with more than %d entries only the first %d and the last %d are looked at" % (
    containers.HEAD + containers.TAIL, containers.HEAD, containers.TAIL,
)  # fmt: skip
RECENT_ENTRIES = 500  # below one variable
NOT_YET = "names and roles were not looked for yet"
BUILTINS = "__builtins__"  # in the globals of every module, and none of theirs
LIBRARY_DEPTH = 3
LIBRARY_EVERY = 60.0  # seconds

_SKIPPED = ("torch", "tensortui")  # nothing of the program's is in their globals


def discover(context: Context) -> Work:
    """Name everything that can be reached; yields between pieces of well under a millisecond."""
    base = context.census.base
    if base is None:
        return False
    kinds = make_kinds(context, base)
    wrappers = Wrappers(context, kinds)
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
    yield from roles.Gradients(context).name_all()
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
        yield from roles.Gradients(context).name_all(recent=True)


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
    walk = Walk(context, kinds, _leaf_reader(context, base), Wrappers(context, kinds))
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
            self._keys = [key for key in chosen if type(key) is str and key != BUILTINS]
        return ((VARIABLE, key, space.get(key)) for key in self._keys[start:])


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
        if name == "builtins":  # where an interactive interpreter keeps what it last printed
            memory.own.append(name)
        if type(file) is not str:
            continue
        if is_installed(file):
            memory.library.append(name)
        elif not file.startswith(standard_library()):
            memory.own.append(name)
