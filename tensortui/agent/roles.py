"""Tensors by their role: optimizer state by its parameter, gradients, and modules that no variable leads to."""

from functools import partial
from itertools import chain, count, islice, repeat
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.census import SEPARATOR, Context, Tracked, Work
from tensortui.agent.containers import TENSOR, WRAPPER, Entries, Kinds
from tensortui.agent.guard import Alone
from tensortui.agent.rows import cell
from tensortui.agent.walk import Root, Walk
from tensortui.agent.wrappers import Wrappers
from tensortui.wire.messages import GRADIENT, OPTIMIZER, PARAMETER, TENSOR_COLUMNS

CHUNK = 32
MAX_STATE = 64  # tensors that one parameter's state is looked through for
REQUIRES_GRAD, IS_LEAF = ([name for name, _ in TENSOR_COLUMNS].index(one) for one in ("requires_grad", "is_leaf"))


def name_of(context: Context, tracked: Optional[Tracked]) -> Optional[str]:
    """Return the first name that this pass found for `tracked`."""
    names = context.names.get(tracked.id) if tracked is not None else None
    return names.partition(SEPARATOR)[0] if names else None


class Numbering:
    """Tells apart several objects of one class: `Linear`, `Linear#2`, ..."""

    def __init__(self) -> None:
        """Start counting."""
        self._seen: Dict[str, int] = {}

    def label(self, kind: type) -> str:
        """Return the label of the next object of `kind`."""
        name = labels.type_name(kind)
        count = self._seen[name] = self._seen.get(name, 0) + 1
        return name if count == 1 else "%s#%d" % (name, count)


class Optimizers:
    """One pass over the state and the parameter groups of every optimizer."""

    def __init__(self, context: Context, kinds: Kinds, wrappers: Wrappers) -> None:
        """Start a pass whose finds go to `context`, after the parameters have got their names."""
        self._context = context
        self._kinds = kinds
        self._wrappers = wrappers

    def name_all(self) -> Work:
        """Name what the optimizers hold; yields between the pieces."""
        numbering = Numbering()
        for ref in self._context.optimizers.refs():
            optimizer = ref()
            if optimizer is None:
                continue
            label = numbering.label(type(optimizer))
            del optimizer
            for entries in (_groups, _state):
                done = 0
                while True:
                    with Alone() as alone:
                        more = self._piece(ref, entries, label, done, alone)
                    if more is None:
                        break
                    done = more
                    yield

    def _piece(self, ref: Any, entries: Callable[[Any], Optional[Entries]], label: str, done: int,
               alone: Alone) -> Optional[int]:  # fmt: skip
        """Deal with the entries after the first `done`; return how many are done, None when all are."""
        found = entries(ref())
        if found is None:
            return None
        try:
            for number, key, value in islice(found, done, None):
                if entries is _state:
                    self._state_of(label, number, key, value)
                else:
                    self._group(label, number, key, value)
                done += 1
                if not done % 4 and alone.over():
                    return done
        except RuntimeError:  # it was changed while it was read
            pass
        return None

    def _state_of(self, label: str, number: int, key: Any, value: Any) -> None:
        context = self._context
        owner = "%s.state[%d]" % (label, number)
        kind = self._kinds.of(key)
        if kind == WRAPPER:
            owner = self._wrappers.name_of(key) or owner
        elif kind >= TENSOR:
            owner = name_of(context, context.track(key)) or owner
        else:
            owner = "%s.state[%s]" % (label, labels.key(key))
        for way, tensor in islice(self._tensors("", value), MAX_STATE):
            self._note(tensor, "%s of %s" % (way or "state", owner), OPTIMIZER)

    def _tensors(self, way: str, value: Any, depth: int = 3) -> Iterator[Tuple[str, Any]]:
        kind = self._kinds.of(value)
        if kind >= TENSOR:
            yield from self._wrappers.within(value, way)
        elif depth:
            for style, key, child in containers.children(value, kind, self._kinds) or ():
                plain = not way and style == containers.ITEM and type(key) is str and key.isidentifier()
                yield from self._tensors(key if plain else containers.written(way, style, key), child, depth - 1)

    def _group(self, label: str, number: int, key: Any, value: Any) -> None:
        """A tensor of a parameter group is a parameter, or a setting such as the learning rate."""
        kind = self._kinds.of(value)
        if kind < TENSOR:
            return
        place = "%s.param_groups[%d]" % (label, number)
        if type(key) is not int:
            for way, part in self._wrappers.within(value, labels.key(key).strip("'")):
                self._note(part, "%s of %s" % (way, place), OPTIMIZER)
            return
        name = "%s['params'][%d]" % (place, key)
        if kind == WRAPPER:
            for way, part, role in self._wrappers.parts(value, self._wrappers.name_of(value) or name, PARAMETER):
                self._note(part, way, role)
        elif name_of(self._context, self._context.track(value)):
            self._note(value, None, PARAMETER)
        else:
            self._note(value, name, PARAMETER)

    def _note(self, tensor: Any, name: Optional[str], category: int) -> None:
        tracked = self._context.track(tensor)
        if tracked is not None:
            self._context.note(tracked, name and labels.clip(name), category)


def _state(optimizer: Any) -> Optional[Entries]:
    """Return the entries of an optimizer's state: number, parameter, its state."""
    space = containers.instance_dict(optimizer) if optimizer is not None else None
    state = space.get("state") if space else None
    if state is None or not containers.is_dict(state):
        return None
    return zip(range(dict.__len__(state)), dict.keys(state), dict.values(state))


def _groups(optimizer: Any) -> Optional[Entries]:
    """Return what is in the parameter groups of an optimizer: number of the group, key or place, value."""
    space = containers.instance_dict(optimizer) if optimizer is not None else None
    groups = space.get("param_groups") if space else None
    return _group_entries(groups) if type(groups) is list else None


def _group_entries(groups: List[Any]) -> Entries:
    """Chain the entries without a loop of our own over the parameters: a piece skips those of the pieces before."""
    parts: List[Any] = []
    for number, group in enumerate(groups):
        if containers.is_dict(group):
            parts.append(zip(repeat(number), dict.keys(group), dict.values(group)))
            parts += [zip(repeat(number), count(), one) for one in dict.values(group) if type(one) is list]
    return chain.from_iterable(parts)


def stray_modules(context: Context, walk: Walk) -> Work:
    """Name what is in the modules that no variable led to, by the names of their classes."""
    inner: Set[int] = set()
    strays: List[Any] = []
    for place, ref in enumerate(context.modules.refs()):
        if id(ref()) not in walk.visited:
            strays.append(ref)
        if not place % CHUNK:
            yield
    for ref in strays:
        module = ref()
        if module is not None:
            space = containers.instance_dict(module) or {}
            part: Any = space.get("_modules")
            if part is not None and containers.is_dict(part):
                inner.update(id(one) for one in dict.values(part) if one is not module)
            del space, part
        del module
        yield
    numbering = Numbering()
    for outer in (True, False):
        for ref in strays:
            module = ref()
            at, kind = id(module), type(module)
            del module
            if kind is type(None) or at in walk.visited or (outer and at in inner):
                continue
            walk.visited.add(at)
            root = Root(partial(_module_entries, ref), numbering.label(kind))
            root.spare = walk.partial  # what leads to it may have been left out of this pass
            yield from walk.below(root)


def _module_entries(ref: Any) -> Optional[Entries]:
    module = ref()
    return None if module is None else containers.module_entries(module)


def gradients(context: Context, base: type) -> Work:
    """Name the gradients of all leaves. `.grad` is never read from a tensor that is not a leaf: that warns."""
    requires_grad = base.__dict__["requires_grad"].__get__
    is_leaf = base.__dict__["is_leaf"].__get__
    grad = base.__dict__["grad"].__get__
    plain: Any = context.torch._C.DisableTorchFunctionSubclass
    todo = list(context.census.by_id.values())
    yield
    while todo:
        with Alone() as alone, plain():
            while todo and not alone.over():
                for tracked in todo[-CHUNK:]:
                    row = tracked.row
                    if row is not None and not (cell(row, REQUIRES_GRAD) and cell(row, IS_LEAF)):
                        continue
                    tensor = tracked.ref()
                    if tensor is None:
                        continue
                    try:
                        found = grad(tensor) if requires_grad(tensor) and is_leaf(tensor) else None
                    except Exception:
                        found = None
                    del tensor
                    held = context.track(found) if found is not None else None
                    del found
                    if held is not None:
                        owner = name_of(context, tracked)
                        context.note(held, owner + ".grad" if owner else None, GRADIENT)
                del todo[-CHUNK:]
        yield
