"""What hangs directly below an object, told without running any code of the target.

Every access goes through the methods of the builtin base type (`dict.items(thing)`, never `thing.items()`), through
the descriptors of slots, or through the `__dict__` descriptor that the interpreter itself made for the class. Types
are told apart by their flags and their method resolution order, by identity: `isinstance` asks the object.
"""

import collections
import functools
import gc
import sys
import types
import weakref
from itertools import chain, islice, repeat
from typing import Any, Dict, Iterator, List, Optional, Tuple

from tensortui.agent import labels
from tensortui.agent.inline import LAYOUT, MOST_KEYS, is_bare
from tensortui.agent.opened import Opened, asking_costs

HEAD, TAIL = 16_000, 4_000  # entries that are looked at, from either end of one container
LONG = 1_000  # elements that are looked at in one go
FIRST = 16  # where a walk goes on in the middle: it may want no more than one of them
MANY = 250  # attributes that are put in order
SHORT = 100  # elements that are looked at to tell whether something may be in a container
Entry = Tuple[int, Any, Any]  # style, key, child
Entries = Iterator[Entry]

# How a child is written, and what it is there. SKIPPED: the key is how many elements were passed over, all leaves.
ATTRIBUTE, ITEM, ELEMENT, UNNAMED, SKIPPED, VARIABLE, CLOSURE, SUBMODULE, PARAMETER, BUFFER = range(10)

LEAF, DICT, LIST, TUPLE, SET, DEQUE, OBJECT, MODULE, OPTIMIZER, FUNCTION, METHOD, PARTIAL = range(12)
TENSOR, LEARNED, WRAPPER = range(12, 15)

type_flags = type.__dict__["__flags__"].__get__
type_mro = type.__dict__["__mro__"].__get__
type_dict = type.__dict__["__dict__"].__get__
module_dict = vars(types.ModuleType)["__dict__"].__get__
HEAP_TYPE, LIST_FLAG, TUPLE_FLAG, DICT_FLAG, EXCEPTION_FLAG, TYPE_FLAG = (1 << one for one in (9, 25, 26, 29, 30, 31))
ATOM_FLAGS = 1 << 24 | 1 << 27 | 1 << 28 | EXCEPTION_FLAG | TYPE_FLAG  # integers, bytes, strings, exceptions, classes
_EXACT = (
    (types.FunctionType, FUNCTION),
    (types.MethodType, METHOD),
    (functools.partial, PARTIAL),
)
_FROM_BASE = ((collections.deque, DEQUE), (set, SET), (frozenset, SET), (types.SimpleNamespace, OBJECT))
# These begin at a position by themselves, faster than entry by entry.
_SKIPPING = (DICT, LIST, TUPLE, DEQUE, OBJECT, MODULE)
# An attribute dictionary made while only atoms are in it stays unknown to the collector, whatever it gets later.
STALE = sys.version_info >= (3, 13)
_MADE_BY_C = (types.GetSetDescriptorType, types.MemberDescriptorType)
# What torch.nn.Module keeps in every module beside its tensors.
_MODULE_OWN = frozenset((
    "training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks",
    "_backward_hooks", "_is_full_backward_hook", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
))  # fmt: skip


def is_wrapper(kind: type) -> bool:
    """Whether tensors of this type wrap others (DTensor, jagged, quantized ones) or stand for them (fake ones).

    `torch.nn.Module` exchanges their contents in place, which fails for a tensor that anybody holds a weak reference
    to: these are never watched.
    """
    for one in type_mro(kind):
        space = type_dict(one)
        if "__tensor_flatten__" in space:
            return True
        module = space.get("__module__")
        if type(module) is str and module == "torch._subclasses.fake_tensor":
            return True
    return False


class Kinds:
    """Tells what an object is for a walk, by its type, remembered by the id of the type as long as that lives."""

    def __init__(
        self, bases: List[Tuple[Optional[type], int]], opened: Optional[Opened] = None, shallow: bool = False
    ) -> None:
        """Take torch's base classes with their kinds, the most special first; None where torch has none.

        `shallow` tells only tensors and containers: nothing is to be opened that has attributes.
        """
        self._bases = bases
        self._shallow = shallow
        self.opened = opened or Opened()
        self.abridged = False  # whether the middle of a long container was left out that holds more than atoms
        self._known = {id(one): LEAF for one in (str, int, float, bool, bytes, complex, type(None), type)}
        # To the types that may go: their ids may then be those of others. Whichever thread lets one go only calls a
        # function in C, which forgets the id.
        self._refs: Dict[int, Any] = {}
        self._forget = self._known.pop

    def may_open(self, thing: Any) -> bool:
        """Whether the attributes of `thing` may be asked for: on some versions that has a lasting price."""
        return not asking_costs(thing) or self.opened.admit(thing)

    def of(self, thing: Any) -> int:
        """Return the kind of `thing`."""
        kind = type(thing)
        known = self._known.get(id(kind))
        if known is None:
            known = self._tell(kind)
            if self._shallow and OBJECT <= known < TENSOR:
                known = LEAF
            if type_flags(kind) & HEAP_TYPE:
                self._refs[id(kind)] = weakref.ref(kind, functools.partial(self._forget, id(kind)))
            self._known[id(kind)] = known
        return known

    def _tell(self, kind: type) -> int:
        flags = type_flags(kind)
        if flags & ATOM_FLAGS:
            return LEAF
        for exact, found in _EXACT:
            if kind is exact:
                return found
        order = type_mro(kind) or (kind,)  # some types made by C have none
        for base, found in self._bases:
            if base is not None and any(one is base for one in order):
                return WRAPPER if found >= TENSOR and is_wrapper(kind) else found
        if flags & DICT_FLAG:
            return DICT
        if flags & LIST_FLAG:
            return LIST
        if flags & TUPLE_FLAG:
            return TUPLE
        for base, found in _FROM_BASE:
            if any(one is base for one in order):
                return found
        if flags & HEAP_TYPE and not any(one is types.ModuleType for one in order):
            return OBJECT
        return LEAF

    def all_leaves(self, things: Iterator[Any]) -> bool:
        """Whether none of `things` can lead to a tensor."""
        known = self._known
        return all(known.get(one) == LEAF for one in set(map(id, map(type, things))))

    def leads_on(self, thing: Any) -> bool:
        """Whether `thing` is a tensor or may lead to one."""
        kind = self.of(thing)
        if kind == LEAF:
            return False
        if kind in (LIST, TUPLE) and gc.is_tracked(thing):
            base: Any = list if kind == LIST else tuple
            return base.__len__(thing) > SHORT or not self.all_leaves(base.__iter__(thing))
        return kind >= OBJECT or not self.only_atoms(thing, kind)

    def only_atoms(self, thing: Any, kind: int) -> bool:
        """Whether the interpreter itself says that only atoms are in a container."""
        if gc.is_tracked(thing):
            return False
        may_be_stale = STALE and kind == DICT and dict.__len__(thing) <= MOST_KEYS
        return not may_be_stale or self.all_leaves(iter(dict.values(thing)))


def children(thing: Any, kind: int, kinds: Kinds, start: int = 0) -> Optional[Entries]:
    """Return what hangs below `thing` from the position `start`, always in the same order.

    None where nothing of interest does, which is only asked at the start.
    """
    try:
        found = _children(thing, kind, kinds, start)
        if found is None or not start or kind in _SKIPPING:
            return found
        return islice(found, start, None)
    except Exception:
        return None


def _children(thing: Any, kind: int, kinds: Kinds, start: int) -> Optional[Entries]:
    if kind in (LEAF, OPTIMIZER) or kind >= TENSOR:
        return None
    if kind == OBJECT:
        return _attributes(thing, kinds, start)
    if kinds.only_atoms(thing, kind):
        return None
    if kind == DICT:
        if dict.__len__(thing) > HEAD + TAIL and not kinds.all_leaves(islice(dict.values(thing), FIRST)):
            kinds.abridged = True
        return items(thing, ITEM, start)
    if kind == LIST:
        return _elements(thing, list, kinds, start)
    if kind == TUPLE:
        return _elements(thing, tuple, kinds, start)
    if kind == DEQUE:
        return _elements(thing, collections.deque, kinds, start)
    if kind == SET:
        of = set if any(one is set for one in type_mro(type(thing))) else frozenset
        return zip(repeat(ELEMENT), range(HEAD), of.__iter__(thing))
    if kind == MODULE:
        return module_entries(thing, start, kinds)
    if kind == FUNCTION:
        return _function(thing)
    if kind == METHOD:
        return iter([(ATTRIBUTE, "__self__", thing.__self__)])
    if kind == PARTIAL:
        parts = (("func", thing.func), ("args", thing.args), ("keywords", thing.keywords))
        return iter([(ATTRIBUTE, name, part) for name, part in parts])
    return None


def items(thing: Any, style: int = ITEM, start: int = 0) -> Entries:
    """Return the entries of a dictionary: the first, then the last ones where it is very long."""
    size = dict.__len__(thing)
    keys, values = dict.keys(thing), dict.values(thing)
    if size <= HEAD + TAIL:
        return zip(repeat(style), islice(keys, start, None), islice(values, start, None))
    head = zip(repeat(style), islice(keys, start, HEAD), islice(values, start, HEAD)) if start < HEAD else iter(())
    first = max(start - HEAD, 0)
    return chain(head, zip(repeat(style), islice(reversed(keys), first, TAIL), islice(reversed(values), first, TAIL)))


def _elements(thing: Any, base: Any, kinds: Kinds, start: int) -> Optional[Entries]:
    size = base.__len__(thing)
    if size > LONG:
        return _long(thing, base, kinds, start)
    if not start and kinds.all_leaves(base.__iter__(thing)):
        return None
    elements = islice(base.__iter__(thing), start, None)
    kind = type(thing)
    if base is tuple and kind is not tuple:
        for one in type_mro(kind):
            fields = type_dict(one).get("_fields")
            if type(fields) is tuple and len(fields) == size:
                return zip(repeat(ATTRIBUTE), fields[start:], elements)
    return zip(repeat(ITEM), range(start, size), elements)


def _long(thing: Any, base: Any, kinds: Kinds, at: int) -> Entries:
    """Yield the elements from either end, part by part; a part that leads nowhere is one entry."""
    size = base.__len__(thing)
    head, tail = (size, 0) if size <= HEAD + TAIL else (HEAD, TAIL)
    step = FIRST if at else LONG
    while at < head + tail:
        end = min(at + step, head if at < head else head + tail)
        keys = range(at, end) if at < head else range(size - 1 - (at - head), size - 1 - (end - head), -1)
        if base is not collections.deque:
            part = base.__getitem__(thing, slice(keys.start, keys.stop, keys.step))
        elif at < head:
            part = list(islice(base.__iter__(thing), at, end))
        else:
            part = list(islice(base.__reversed__(thing), at - head, end - head))
        if kinds.all_leaves(iter(part)):
            yield SKIPPED, end - at, None
        else:
            kinds.abridged = kinds.abridged or tail > 0
            yield from zip(repeat(ITEM), keys, part)
        at, step = end, min(2 * step, LONG)


def instance_dict(thing: Any) -> Optional[Dict[str, Any]]:
    """Return the attribute dictionary of `thing`, read through the descriptor the interpreter made for its class.

    Where it has none yet it is a new one with its attributes, which `thing` knows nothing of. Only where these cannot
    be read in place is `thing` given one: see `Kinds.may_open`.
    """
    for one in type_mro(type(thing)):
        found = type_dict(one).get("__dict__")
        if found is not None:
            if type(found) not in _MADE_BY_C or found.__objclass__ is not one:
                return None
            if LAYOUT.usable and not LAYOUT.has_dictionary(thing):
                return LAYOUT.attributes(thing) or None
            space = found.__get__(thing)
            return space if type(space) is dict else None
    return None


def _attributes(thing: Any, kinds: Kinds, start: int) -> Optional[Entries]:
    kind = type(thing)
    held: List[Any] = []
    if is_bare(kind):  # else what it refers to may be without end: an object made by C tells of all that is in it
        held = [one for one in gc.get_referents(thing) if one is not kind]
        if not any(map(kinds.leads_on, held)):
            return None
        if not kinds.may_open(thing):
            return zip(repeat(UNNAMED), repeat(None), islice(held, start, None))
        if not LAYOUT.usable or LAYOUT.has_dictionary(thing):
            held = []
    elif not kinds.may_open(thing):
        return iter(slots(thing)[start:])
    space = instance_dict(thing)
    size = dict.__len__(space) if space is not None else 0
    if space is not None and size > MANY:
        kinds.abridged = kinds.abridged or size > HEAD + TAIL
        return chain(items(space, ATTRIBUTE, start), slots(thing)[max(start - min(size, HEAD + TAIL), 0) :])
    entries = [*items(space, ATTRIBUTE), *slots(thing)] if space is not None and size else slots(thing)
    entries.sort(key=_is_private)  # what several ways lead to is called by the public one
    if held:  # an attribute that hides a descriptor is not asked for by its name: see inline.py
        shown = {id(value) for _, _, value in entries}
        entries += [(UNNAMED, None, value) for value in held if value is not None and id(value) not in shown]
    if not start and not any(kinds.leads_on(value) for _, _, value in entries):
        return None
    return iter(entries[start:])


def _is_private(entry: Entry) -> bool:
    return type(entry[1]) is str and entry[1].startswith("_")


def slots(thing: Any) -> List[Entry]:
    """Return what is in the slots of `thing` that classes written in Python gave it."""
    found: List[Entry] = []
    for one in type_mro(type(thing)):
        if "__slots__" not in type_dict(one):
            continue
        for name, member in type_dict(one).items():
            if type(member) is types.MemberDescriptorType and name != "__weakref__":
                try:
                    found.append((ATTRIBUTE, name, member.__get__(thing)))
                except (AttributeError, TypeError):  # unset, or a slot of another class
                    pass
    return found


def is_dict(thing: Any) -> bool:
    """Whether `thing` is a dictionary, told by its type alone."""
    return bool(type_flags(type(thing)) & DICT_FLAG)


def module_entries(thing: Any, start: int, kinds: Kinds) -> Optional[Entries]:
    """Return what is in a torch module from `start` on: its tensors, its submodules, then its other attributes."""
    space = instance_dict(thing)  # torch itself has asked for it, to set what is in there
    if space is None:
        return None
    parts: List[Any] = []
    for name, style in (("_parameters", PARAMETER), ("_buffers", BUFFER), ("_modules", SUBMODULE)):
        part = space.get(name)
        if part is not None and type_flags(type(part)) & DICT_FLAG and dict.__len__(part):
            size = min(dict.__len__(part), HEAD + TAIL)
            kinds.abridged = kinds.abridged or size < dict.__len__(part)
            if start < size:
                parts.append(items(part, style, start))
            start = max(start - size, 0)
    if dict.__len__(space) > MANY:
        kinds.abridged = kinds.abridged or dict.__len__(space) > HEAD + TAIL
        parts.append(map(_of_program, items(space, ATTRIBUTE, start)))
    else:
        own = [one for one in items(space, ATTRIBUTE) if gc.is_tracked(one[2]) or (STALE and kinds.leads_on(one[2]))]
        parts.append([one for one in own if one[1] not in _MODULE_OWN][start:])
    return chain.from_iterable(parts)


def _of_program(entry: Entry) -> Entry:
    """Return an attribute of a module, or that it is passed over: what torch keeps in it is dealt with otherwise."""
    return (SKIPPED, 1, None) if type(entry[1]) is str and entry[1] in _MODULE_OWN else entry


def _function(thing: Any) -> Optional[Entries]:
    found: List[Entry] = []
    if thing.__closure__:
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__):
            try:
                found.append((CLOSURE, name, cell.cell_contents))
            except ValueError:
                pass
    for name, part in (("__defaults__", thing.__defaults__), ("__kwdefaults__", thing.__kwdefaults__)):
        if part:
            found.append((ATTRIBUTE, name, part))
    return iter(found) if found else None


def written(prefix: str, style: int, name: Any) -> str:
    """Return the name of the child `name` of what is called `prefix`."""
    if style == ITEM:
        return "%s[%s]" % (prefix, labels.key(name))
    if style == ELEMENT:
        return "%s{%d}" % (prefix, name)
    if style == UNNAMED:
        return prefix + ".<attribute>"
    if style == VARIABLE:
        return prefix + labels.variable(name)
    if style == CLOSURE:
        return prefix + labels.CLOSURE + labels.variable(name)
    if style >= SUBMODULE:
        return prefix + labels.member(name)
    return prefix + labels.attribute(name)
