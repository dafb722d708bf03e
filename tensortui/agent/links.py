"""What leads from one object to another that it holds, in words. No code of the target is run."""

import _thread
import collections
import contextvars
import ctypes
import functools
import gc
import sys
import types
import weakref
from itertools import islice
from typing import Any, List, NamedTuple, Optional, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.containers import (
    ATOM_FLAGS,
    DICT_FLAG,
    EXCEPTION_FLAG,
    HEAP_TYPE,
    LIST_FLAG,
    TUPLE_FLAG,
    TYPE_FLAG,
    type_dict,
    type_flags,
    type_mro,
)
from tensortui.agent.frames import Locals, slot_names
from tensortui.agent.memory import WORD
from tensortui.agent.objects import Objects
from tensortui.agent.opened import Opened, asking_costs
from tensortui.agent.threads import Threads

LONG = 20_000  # entries of a container that are gone through at once
KEYS, ITEMS = 4 * WORD, 3 * WORD  # where a dictionary has its table, and a list its elements
_SIZES = ((DICT_FLAG, dict.__len__), (LIST_FLAG, list.__len__), (TUPLE_FLAG, tuple.__len__))
_ARGUMENT = type(ctypes.byref(ctypes.c_int()))  # of a call of a C function: ours have been many
# What the collector does not know of these holds nothing: of a ContextVar its value is the context's, which only lies
# there for a faster look, and the variables of a frame that runs are told as such.
_ATOMS = (float, complex, types.CodeType, range, slice, _ARGUMENT, contextvars.ContextVar, types.FrameType)
OURS = "tensortui.agent."
_CACHE: Any = vars(functools)["_lru_cache_wrapper"]
LOCAL = "thread-local"
DUMMIES = ("_thread._localdummy", "_localdummy")  # stand for a thread in one: they know its values, and hold none
NODES = ("hamt", "hamt_bitmap_node", "hamt_array_node", "hamt_collision_node")  # of a context
_HOOKS = ("_hooks", "_hooks__")
_TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_SUSPENDED = (
    (types.GeneratorType, "generator", "gi_code"),
    (types.CoroutineType, "coroutine", "cr_code"),
    (types.AsyncGeneratorType, "generator", "ag_code"),
)


class Spot(NamedTuple):
    """Where in memory the held object was found: in `buffer`, or in the holder itself where that is 0."""

    address: int
    buffer: int


class Link(NamedTuple):
    """One step down from a holder. An empty `kind` says nothing of its own. `names` are of a function's cells."""

    kind: str
    label: str
    names: Tuple[str, ...] = ()
    weak: bool = False  # where exactly it is was not found


class Links:
    """Finds the words for the steps."""

    def __init__(self, objects: Objects, opened: Opened, frames: Locals, threads: Threads) -> None:
        """Take what the layout of this interpreter is known by."""
        self._memory = objects.memory
        self._objects = objects
        self._opened = opened
        self._frames = frames
        self._threads = threads
        self._generator_slots = objects.generator_slots

    def held(self, holder: Any, address: int, spot: Spot) -> Tuple[Any, int]:
        """Return the object at `address`, and how many references `holder` has to it; (None, 0) where it has none.

        What its type tells the collector is asked once; a very long container, of which one reference is looked at and
        many may be, is asked for the entry at `spot` alone. An lru_cache, which would tell of all that is in it, is not
        asked: what it holds directly is there in itself.
        """
        if is_cache(holder):
            inside = 0 < spot.address - id(holder) < _CACHE.__basicsize__ and self._memory.word(spot.address) == address
            one = self._take(address) if inside else None
            return one, 0 if one is None else 1
        if self._is_long(holder):
            one = self._held_in_long(holder, address, spot)
            return one, 0 if one is None else LONG
        found = [one for one in self._references(holder) if id(one) == address]
        return (found[0], len(found)) if found else (None, 0)

    def _held_in_long(self, holder: Any, address: int, spot: Spot) -> Any:
        """Return the object of a long container. What was taken out is still in memory: a word is no proof."""
        if type_flags(type(holder)) & (LIST_FLAG | TUPLE_FLAG):
            place = _place(holder, spot)
            try:
                one = None if place is None else _base(holder).__getitem__(holder, place)
            except IndexError:
                return None
            return one if one is not None and id(one) == address else None
        return self._take(address) if self._memory.word(spot.address) == address else None

    def _take(self, address: int) -> Any:
        """Return the object at `address`, where one lives there that the collector knows."""
        return next(iter(self._objects.alive.take([address], self._objects.kinds)), None)

    def _references(self, holder: Any) -> List[Any]:
        """Return what `holder` has references to; with its attributes, where asking for their names moved them."""
        found = gc.get_referents(holder)
        if asking_costs(holder) and self._opened.knows(holder):
            space = containers.instance_dict(holder)
            found += dict.values(space) if space is not None else ()
        return found

    def _is_long(self, holder: Any) -> bool:
        flags = type_flags(type(holder))
        for flag, size in _SIZES:
            if flags & flag:
                return int(size(holder)) > LONG
        if is_deque(holder):
            return collections.deque.__len__(holder) > LONG
        of = _set_base(holder)
        return of is not None and int(of.__len__(holder)) > LONG

    def owns(self, holder: Any, spot: Spot) -> bool:
        """Whether the buffer of `spot` is that of `holder`, where it is so long that this must be asked."""
        if not self._is_long(holder) or not spot.buffer:
            return True
        flags = type_flags(type(holder))
        if flags & DICT_FLAG:
            table = self._memory.word(id(holder) + KEYS)
            return table == spot.buffer and self._is_value(table, spot.address)
        if flags & LIST_FLAG:
            return self._memory.word(id(holder) + ITEMS) == spot.buffer
        return is_deque(holder) or _set_base(holder) is not None

    def _is_value(self, table: int, address: int) -> bool:
        """Whether a value lies at `address` in the table of a dictionary: the hash of a number looks like a pointer."""
        head = self._memory.words(table, 5)
        if not head:
            return False
        if sys.version_info >= (3, 11):
            index_bytes, kind = head[1] >> 8 & 255, head[1] >> 16 & 255
            start, size = table + 4 * WORD + (1 << index_bytes), 2 * WORD if kind else 3 * WORD
        else:
            slots = head[1]
            start = table + 5 * WORD + slots * (1 if slots <= 255 else 2 if slots <= 65535 else 4)
            size = 3 * WORD
        return address >= start and (address - start) % size == size - WORD

    def find(self, holder: Any, held: Any, spot: Spot) -> Link:
        """Return how `holder`, which holds the object `held`, leads to it."""
        kind = type(holder)
        flags = type_flags(kind)
        if flags & DICT_FLAG:
            return self._key(holder, held, spot)
        if flags & (LIST_FLAG | TUPLE_FLAG):
            return self._index(holder, held, spot, flags)
        for exact, said, code in _SUSPENDED:
            if kind is exact:
                return self._suspended(said, holder, vars(exact)[code].__get__(holder), spot)
        if kind is types.CellType:
            return Link("cell", "")
        if kind is types.FunctionType:
            return _function(holder, held)
        if kind is types.FrameType:
            return self._frame(holder, spot)
        if kind is types.TracebackType:
            return Link("traceback", "line %d" % holder.tb_lineno)
        if is_cache(holder):
            return Link("cache", "lru_cache of %s" % _wrapped(holder))
        if flags & EXCEPTION_FLAG:
            return _exception(holder, held)
        if flags & TYPE_FLAG:
            return Link("class", type_label(holder))
        return self._attribute(holder, held, spot, flags)

    # -- containers

    def _key(self, holder: Any, held: Any, spot: Spot) -> Link:
        if dict.__len__(holder) <= LONG:
            for key, value in dict.items(holder):
                if value is held:
                    return Link("key", "[%s]" % (self._thread(key) or labels.key(key)))
            return Link("key", "[a key: %s]" % labels.type_name(type(held)))
        at = (
            self._memory.word(spot.address - WORD) if spot.buffer else 0
        )  # in its table the key stands before the value
        for key in islice(dict.keys(holder), LONG):
            if id(key) == at:
                return Link("key", "[%s]" % labels.key(key))
        return Link("key", "[one of %d keys]" % dict.__len__(holder))

    def _index(self, holder: Any, held: Any, spot: Spot, flags: int) -> Link:
        base = _base(holder)
        size = base.__len__(holder)
        place = _place(holder, spot)
        if place is None or base.__getitem__(holder, place) is not held:
            some = islice(base.__iter__(holder), LONG)
            place = next((at for at, one in enumerate(some) if one is held), None)
        if place is None:
            return Link("object", labels.type_name(type(holder)))
        kind = type(holder)
        for one in type_mro(kind) if base is tuple and kind is not tuple else ():
            fields = type_dict(one).get("_fields")
            if type(fields) is tuple and len(fields) == size:
                return Link("tuple", labels.attribute(fields[place]))
        return Link("index" if base is list else "tuple", "[%d]" % place)

    # -- frames

    def _suspended(self, kind: str, holder: Any, code: Any, spot: Spot) -> Link:
        name = ""
        if self._generator_slots is not None:
            names = slot_names(code)
            place = (spot.address - id(holder) - self._generator_slots) // WORD
            name = names[place] if 0 <= place < len(names) else ""
        label = "%s %s:%d" % (_within(name, code), _file(code), code.co_firstlineno)
        return Link(kind, label, (), not name)

    def _frame(self, holder: Any, spot: Spot) -> Link:
        code = holder.f_code
        name = self._frames.slot(holder, spot.address)
        label = "%s %s:%d" % (_within(name, code), _file(code), holder.f_lineno or 0)
        return Link("frame", label, (), not name)

    # -- everything else

    def _attribute(self, holder: Any, held: Any, spot: Spot, flags: int) -> Link:
        kind = type(holder)
        of = _set_base(holder)
        if of is not None:
            return Link("element", "in a " + of.__name__)
        if kind is types.MethodType:
            return Link("attribute", ".__self__")
        if kind is contextvars.ContextVar:
            return Link("default", "of ContextVar %s" % labels.key(holder.name))
        if type_label(kind) in NODES:
            return self._context_value(holder, held, spot)
        if type(held) is dict and any(one is _thread._local for one in type_mro(kind)):
            return Link("object", LOCAL)
        if kind is functools.partial:
            parts = (("func", holder.func), ("args", holder.args), ("keywords", holder.keywords))
            for name, part in parts:
                if part is held:
                    return Link("tuple" if name == "args" else "attribute", "." + name)
        if is_deque(holder):
            return _deque_place(holder, held)
        if asking_costs(holder) and type(held) is not dict and not self._opened.admit(holder):
            return Link("attribute", ".<attribute>")
        space = containers.instance_dict(holder) if flags & HEAP_TYPE or type(held) is dict else None
        if space is not None and space is held:
            return Link("", "")
        if space is not None:
            for name, value in islice(dict.items(space), LONG):
                if value is held:
                    attribute = labels.attribute(name)
                    return Link("hook" if attribute.endswith(_HOOKS) else "attribute", attribute)
        for _, name, value in containers.slots(holder):
            if value is held:
                return Link("attribute", labels.attribute(name))
        if type(held) is collections.OrderedDict and any(map(_is_tensor, type_mro(kind))):
            return Link("hook", "." + _tensor_hooks(holder, held))
        return Link("object", type_label(kind))

    def _context_value(self, holder: Any, held: Any, spot: Spot) -> Link:
        """Return as whose value a context has `held`: the variable stands before it."""
        if type_label(type(held)) not in NODES:
            at = self._memory.word(spot.address - WORD)
            for one in gc.get_referents(holder):
                if id(one) == at and type(one) is contextvars.ContextVar:
                    return Link("key", "[ContextVar %s]" % labels.key(one.name))
        return Link("object", type_label(type(holder)))

    def _thread(self, key: Any) -> str:
        """Return the thread whose values of a thread-local have this key; "" for any other key."""
        mark = key() if type(key) is weakref.ref else key
        return self._threads.of_local(mark) if type_label(type(mark)) in DUMMIES else ""


def is_ours(holder: Any) -> bool:
    """Whether an object belongs to the agent, which holds no tensor."""
    inner = _inner(holder) if is_cache(holder) else holder
    if type(inner) is types.FrameType:
        module = inner.f_globals.get("__name__")
    elif type(inner) is types.FunctionType:
        module = inner.__globals__.get("__name__")
    else:
        module = type_dict(type(inner)).get("__module__")
    return type(module) is str and module.startswith(OURS)


def may_hold(kind: type) -> bool:
    """Whether objects of this type, unknown to the collector, can hold others: atoms and weak references cannot."""
    if type_flags(kind) & ATOM_FLAGS or any(kind is one for one in _ATOMS) or type_label(kind) in DUMMIES:
        return False
    return not any(one is weakref.ref for one in type_mro(kind))


def type_label(kind: type) -> str:
    """Return a class with its module, as it is written."""
    module = type_dict(kind).get("__module__")
    name = labels.type_name(kind)
    return (
        "%s.%s" % (labels.clip(labels.safe(module), 80), name) if type(module) is str and module != "builtins" else name
    )


def _within(name: str, code: Any) -> str:
    function = "%s()" % labels.clip(labels.safe(code.co_name), 60)
    return "%s in %s" % (labels.variable(name), function) if name else "in " + function


def _file(code: Any) -> str:
    return labels.clip(labels.safe(code.co_filename.rpartition("/")[2]), 60)


def function_label(function: Any) -> str:
    """Return a function with its module."""
    module = function.__module__
    name = labels.clip(labels.safe(function.__qualname__), 80)
    plain = type(module) is not str or module == "__main__"
    return "%s()" % name if plain else "%s.%s()" % (labels.clip(labels.safe(module), 80), name)


def _function(holder: Any, held: Any) -> Link:
    label = function_label(holder)
    if held is holder.__closure__:
        return Link("closure", label, tuple(map(labels.variable, holder.__code__.co_freevars)))
    if held is holder.__defaults__ or held is holder.__kwdefaults__:
        return Link("default", "of " + label)
    return Link("attribute", label)


def _wrapped(holder: Any) -> str:
    inner = _inner(holder)
    return function_label(inner) if type(inner) is types.FunctionType else "a function"


def _inner(holder: Any) -> Any:
    space = containers.instance_dict(holder)
    return space.get("__wrapped__") if space is not None else None


def _exception(holder: Any, held: Any) -> Link:
    label = labels.type_name(type(holder))
    for name in ("__traceback__", "__context__", "__cause__"):
        if vars(BaseException)[name].__get__(holder) is held:
            return Link("traceback", "of %s" % label if name == "__traceback__" else "%s.%s" % (label, name))
    return Link("object", label)


def _is_tensor(kind: type) -> bool:
    torch = sys.modules.get("torch._C")
    return torch is not None and vars(torch).get("TensorBase") is kind


def _tensor_hooks(holder: Any, held: Any) -> str:
    """Return as what a tensor knows a dictionary of hooks: what it has besides its attributes is nothing else."""
    torch = vars(sys.modules["torch._C"])
    with torch["DisableTorchFunctionSubclass"]():
        for name in _TENSOR_HOOKS:
            try:
                if vars(torch["TensorBase"])[name].__get__(holder) is held:
                    return name
            except Exception:
                continue
    return _TENSOR_HOOKS[0]


def _set_base(holder: Any) -> Any:
    return next((one for one in type_mro(type(holder)) if one is set or one is frozenset), None)


def _base(holder: Any) -> Any:
    return list if type_flags(type(holder)) & LIST_FLAG else tuple


def _place(holder: Any, spot: Spot) -> Optional[int]:
    """Return the index of the element at `spot` of a list or tuple; None where it is none."""
    base = _base(holder)
    start = spot.buffer if base is list else id(holder) + ITEMS + (WORD if sys.version_info >= (3, 14) else 0)  # a hash
    place, odd = divmod(spot.address - start, WORD)
    return place if start and not odd and 0 <= place < base.__len__(holder) else None


def is_cache(thing: Any) -> bool:
    """Whether `thing` is a function with an lru_cache, told by its type alone."""
    return any(one is _CACHE for one in type_mro(type(thing)))


def is_deque(thing: Any) -> bool:
    """Whether `thing` is a deque, told by its type alone."""
    return any(one is collections.deque for one in type_mro(type(thing)))


def _deque_place(holder: Any, held: Any) -> Link:
    size = collections.deque.__len__(holder)
    for place, one in enumerate(islice(collections.deque.__iter__(holder), LONG)):
        if one is held:
            return Link("index", "[%d]" % place)
    return Link("index", "[one of %d]" % size)
