"""Tensors by their role: optimizer state by its parameter, gradients, and modules that no variable leads to."""

from functools import partial
from itertools import chain, count, islice
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import containers, inline, labels
from tensortui.agent.census import SEPARATOR, Context, Tracked, WeakBag, Work
from tensortui.agent.containers import TENSOR, WRAPPER, Entries, Kinds
from tensortui.agent.gradients import Found, GradientPointers
from tensortui.agent.guard import Alone
from tensortui.agent.rows import IS_LEAF, REQUIRES_GRAD, cell
from tensortui.agent.unwrapped import Place, Unwrapped
from tensortui.agent.walk import Root, Walk
from tensortui.agent.wrappers import Wrappers
from tensortui.wire.messages import GRADIENT, OPTIMIZER, PARAMETER

CHUNK = 32
EACH = 4  # entries between two looks at the clock
MAX_STATE = 64  # tensors that one parameter's state is looked through for


def name_of(context: Context, tracked: Optional[Tracked], recent: bool = False) -> Optional[str]:
    """Return the first name that this pass found for `tracked`, else that of the last one.

    Where only what is `recent` is looked at it is the other way round: a parameter may be met under a passing name.
    """
    names = None
    if tracked is not None:
        names = (recent and tracked.names) or context.names.get(tracked.id) or tracked.names
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
        self.partial = False  # whether something was left out

    def name_groups(self) -> Work:
        """Name what is in the parameter groups; yields between the pieces."""
        return self._each("param_groups", self._groups)

    def name_states(self) -> Work:
        """Name the state of the parameters; yields between the pieces."""
        return self._each("state", self._state)

    def _each(self, attribute: str, go_on: Callable[[Any, str, List[int], Alone], bool]) -> Work:
        numbering = Numbering()
        for ref in self._context.optimizers.refs():
            optimizer = ref()
            if optimizer is None:
                continue
            label = numbering.label(type(optimizer))
            del optimizer
            place = [0, 0]
            done = False
            while not done:
                with Alone() as alone:
                    try:
                        done = go_on(inline.attribute(ref(), attribute), label, place, alone)
                    except RuntimeError:  # it was changed while it was read
                        done = self.partial = True
                yield

    def _groups(self, groups: Any, label: str, place: List[int], alone: Alone) -> bool:
        """Deal with parameter groups from `place`, a group and an entry of it, on; True when all are dealt with."""
        if type(groups) is not list:
            return True
        while place[0] < len(groups):
            group = groups[place[0]]
            for key, value in islice(_group_entries(group), place[1], None):
                self._group(label, place[0], key, value)
                place[1] += 1
                if not place[1] % EACH and alone.over():
                    return False
            place[:] = [place[0] + 1, 0]
            if alone.over():
                return False
        return True

    def _state(self, state: Any, label: str, place: List[int], alone: Alone) -> bool:
        """Deal with the state of the parameters behind the first `place`; True when all are dealt with."""
        if not containers.is_dict(state):
            return True
        done = place[1]
        for key, value in zip(islice(dict.keys(state), done, None), islice(dict.values(state), done, None)):
            self._state_of(label, place[1], key, value)
            place[1] += 1
            if not place[1] % EACH and alone.over():
                return False
        return True

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
            self._context.note(tracked, name and labels.clip(name), category, lasting=True)


def _group_entries(group: Any) -> Iterator[Tuple[Any, Any]]:
    """Return what is in one parameter group, key or place and value; the parameters by their place."""
    if not containers.is_dict(group):
        return iter(())
    lists = [zip(count(), one) for one in dict.values(group) if type(one) is list]
    return chain(zip(dict.keys(group), dict.values(group)), *lists)


def stray_modules(modules: WeakBag, walk: Walk, numbering: Numbering) -> Work:
    """Name what is in those modules that no variable led to, by the names of their classes."""
    inner: Set[int] = set()
    strays: List[Any] = []
    for place, ref in enumerate(modules.refs()):
        if id(ref()) not in walk.visited:
            strays.append(ref)
        if not place % CHUNK:
            yield
    for ref in strays:
        module = ref()
        if module is not None:
            part = inline.attribute(module, "_modules")
            if part is not None and containers.is_dict(part):
                inner.update(id(one) for one in dict.values(part) if one is not module)
            del part
        del module
        yield
    for outer in (True, False):
        for ref in strays:
            module = ref()
            at, kind = id(module), type(module)
            del module
            if kind is type(None) or at in walk.visited or (outer and at in inner):
                continue
            walk.visited.add(at)
            root = Root(partial(_module_entries, ref, walk.kinds), numbering.label(kind))
            del kind  # a class goes with its last instance
            root.spare = walk.partial  # what leads to it may have been left out of this pass
            yield from walk.below(root)


def _module_entries(ref: Any, kinds: Kinds, start: int) -> Optional[Entries]:
    module = ref()
    return None if module is None else containers.module_entries(module, start, kinds)


class Gradients:
    """Names the gradients of all leaves, and has those shown that no Python object stands for."""

    def __init__(self, context: Context) -> None:
        """Prepare a pass, after the parameters have got their names."""
        self._context = context
        memory = context.census.memory
        self._pointers: GradientPointers = memory["gradients"]
        self._unwrapped: Unwrapped = memory["unwrapped"]
        self._again: Callable[[Any], None] = memory["again"]  # has a tensor read
        self._recent = False
        self._seen: List[Tuple[Tracked, int, bytes]] = []  # leaves, where their gradients lie, and what those are
        self._untold: List[int] = []  # leaves whose gradients only torch could give us, and not now

    def name_all(self, recent: bool = False) -> Work:
        """Name them; those that are not told from memory are counted.

        With `recent`, of the tensors that may have one only those are looked at that the last whole pass knew. That is
        what each sample does, when rows may change: so those without a Python object are shown by that alone.
        """
        memory = self._context.census.memory
        todo: List[Tracked] = list(memory.get("leaves", ()) if recent else self._context.census.by_id.values())
        leaves: List[Tracked] = []
        self._recent = recent
        untold = untold_bytes = 0
        yield
        if recent:
            self._unwrapped.begin()
        while todo:
            with Alone() as alone:
                while todo and not alone.over():
                    some = [one for one in todo[-CHUNK:] if _may_have_one(one)]
                    del todo[-CHUNK:]
                    self._name(some)
                    leaves += some
            yield
            if recent:
                yield from self._show()
                untold += len(self._untold)
                untold_bytes += self._pointers.bytes_of(self._untold) if self._untold else 0
            self._seen, self._untold = [], []
        if recent:
            yield from self._unwrapped.end()
            self._context.census.unseen_gradients = (untold, untold_bytes)
        else:
            memory["leaves"] = leaves

    def _name(self, leaves: List[Tracked]) -> None:
        """Name the gradients of some leaves, and note those that no Python object stands for."""
        nothing: List[Found] = [(0, 0, None, False)] * len(leaves)
        found = self._pointers.all_of([one.pyid for one in leaves]) if self._pointers.usable else nothing
        places: List[Place] = []
        for leaf, (own, inner, place, marked) in zip(leaves, found):
            held = self._context.census.at(place) if place else None
            if held is not None and (held.row is not None or not marked):
                self._note(leaf, held)
                if held.row is None:  # it could not be read as long as C++ kept it alive
                    self._again(held)
                if held.row is not None or not self._unwrapped.is_shown(leaf, inner):
                    continue
            elif held is not None:
                held.found = GRADIENT  # that cannot be read: see owned.py
            if place is None or marked or self._unwrapped.is_shown(leaf, inner):  # its Python object may not be known
                places.append((leaf, own, inner))
        for (leaf, _, inner), seen in zip(places, self._unwrapped.look(places)):
            if seen:
                self._seen.append((leaf, inner, seen))
            elif self._pointers.usable:
                self._untold.append(leaf.pyid)

    def _note(self, leaf: Tracked, held: Tracked) -> None:
        self._context.note(held, self._name_of(leaf) or None, GRADIENT, lasting=True)

    def _name_of(self, leaf: Tracked) -> str:
        owner = name_of(self._context, leaf, self._recent)
        return _gradient_of(owner) if owner else ""

    def _show(self) -> Work:
        changed = 0
        for leaf, inner, seen in self._seen:
            name = self._name_of(leaf)
            if self._unwrapped.keep(leaf, inner, seen, name):
                continue
            if not self._unwrapped.show(leaf, inner, seen, name):
                self._untold.append(leaf.pyid)
            changed += 1
            if not changed % EACH:
                yield


def _gradient_of(owner: str) -> str:
    path, frame, where = owner.partition(labels.IN_FRAME)
    return path + ".grad" + frame + where


def _may_have_one(tracked: Tracked) -> bool:
    row = tracked.row
    return tracked.ref() is not None and (row is None or bool(cell(row, REQUIRES_GRAD) and cell(row, IS_LEAF)))
