"""The attributes of an object that has no dictionary, read without giving it one.

From CPython 3.11 on the attributes of most objects lie beside them, by the order of the keys that their class keeps.
Asking such an object for `__dict__` makes it a dictionary that stays as long as it lives. So the keys are read from
the class, and each attribute is asked for by its name, in the way of `object` itself.
"""

import ctypes
import gc
import sys
from typing import Any, Dict, List

from tensortui.agent.alive import objects_at
from tensortui.agent.memory import WORD, Memory, is_pointer

_flags = type.__dict__["__flags__"].__get__
_mro = type.__dict__["__mro__"].__get__
_dict = type.__dict__["__dict__"].__get__
_basicsize = type.__dict__["__basicsize__"].__get__
_dictoffset = type.__dict__["__dictoffset__"].__get__
_get = object.__getattribute__

HEAP_TYPE = 1 << 9
MANAGED_DICT = 1 << 4 if sys.version_info >= (3, 11) else 0  # there is a place for a dictionary before the object
BEFORE = -3 * WORD  # where that is
TAG = 1  # 3.12: it is no dictionary, but leads to the attributes
SPLIT = 2  # what tables of keys are that instances share
KEYS_HEAD = 4  # words of such a table before its index
MOST_KEYS = 64  # that it may have: CPython makes it for 30
HEAD = object.__basicsize__ + (WORD if sys.version_info < (3, 12) else 0)  # with a list of weak references
_DESCRIBES = ("__get__", "__set__", "__delete__")


class Layout:
    """Where classes keep the keys of their instances' attributes. `usable` is False where that is not certain."""

    def __init__(self) -> None:
        """Learn it from classes of our own. Not to be called `Alone`: loading the library may give up the lock."""
        self._keys = 0
        self.usable = sys.implementation.name == "cpython" and not MANAGED_DICT
        if sys.implementation.name == "cpython" and MANAGED_DICT and "t" not in getattr(sys, "abiflags", ""):
            try:
                self.usable = self._learn(Memory())
            except Exception:
                self.usable = False

    def _learn(self, memory: Memory) -> bool:
        first, second = _First(), _Second()
        names = [sys.intern(one) for one in ("alpha", "beta", "gamma")]
        for name in names:
            setattr(first, name, [name])
        setattr(second, names[1], first)
        if self.has_dictionary(first) or _word(id(_First) + WORD) != id(type):
            return False
        for place, word in enumerate(memory.words(id(_First), _basicsize(type) // WORD)):
            if _keys_at(memory, word) == list(map(id, names)):
                self._keys = place * WORD
        if not self._keys or _keys_at(memory, _word(id(_Second) + self._keys)) != [id(names[1])]:
            return False
        found = self.attributes(first)
        if list(found) != names or found["beta"] != ["beta"] or self.has_dictionary(first):
            return False
        space = first.__dict__
        return self.has_dictionary(first) and _word(id(first) + BEFORE) == id(space) and space == found

    def has_dictionary(self, thing: Any) -> bool:
        """Whether `thing` has a dictionary of its attributes already: asking for `__dict__` makes none."""
        kind = type(thing)
        if _flags(kind) & MANAGED_DICT:
            word = _word(id(thing) + BEFORE)
            return bool(word and not word & TAG)
        offset = _dictoffset(kind)
        return offset < 0 or (offset > 0 and _word(id(thing) + offset) != 0)  # < 0: only tuples and the like have it

    def attributes(self, thing: Any) -> Dict[str, Any]:
        """Return the attributes of an object without a dictionary.

        One that hides a method, or whatever else of its class would be asked to get it, is not among them.
        """
        found: Dict[str, Any] = {}
        kind = type(thing)
        flags = _flags(kind)
        if not flags & MANAGED_DICT or not flags & HEAP_TYPE:
            return found
        spaces = list(map(_dict, _mro(kind)))
        for name in self._names(kind):
            value = _attribute(thing, name, spaces)
            if value is not None:
                found[name] = value
        return found

    def _names(self, kind: type) -> List[str]:
        """Return the keys of a class; they live as long as it does."""
        table = _word(id(kind) + self._keys)
        head = _words(table, KEYS_HEAD) if is_pointer(table) else []
        if not head or head[1] >> 16 & 255 != SPLIT or not 0 < head[3] <= MOST_KEYS:
            return []
        addresses = _words(_entries(table, head), 2 * head[3])[::2]
        return list(objects_at([one for one in addresses if one]))


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _words(address: int, count: int) -> List[int]:
    return list((ctypes.c_size_t * count).from_address(address))


def _entries(table: int, head: List[int]) -> int:
    """Return where the entries of a table of keys begin: each is a key, and a word that is not used."""
    return table + KEYS_HEAD * WORD + (1 << (head[1] >> 8 & 255))


def _keys_at(memory: Memory, table: int) -> List[int]:
    """Return the addresses of the keys in a table that may be none; [] where it is none."""
    head = memory.words(table, KEYS_HEAD)
    if not head or head[1] >> 16 & 255 != SPLIT or not 0 < head[3] <= MOST_KEYS or head[1] >> 8 & 255 > MOST_KEYS:
        return []
    return memory.words(_entries(table, head), 2 * head[3])[::2]


def attribute(thing: Any, name: str) -> Any:
    """Return one attribute of `thing`; None where it has none, or its class would be asked to get it."""
    return _attribute(thing, name, list(map(_dict, _mro(type(thing)))))


def _attribute(thing: Any, name: str, spaces: List[Any]) -> Any:
    above: Any = None
    for space in spaces:
        above = space.get(name)
        if above is not None:
            if any(method in _dict(base) for base in _mro(type(above)) for method in _DESCRIBES):
                return None
            break
    try:
        value = _get(thing, name)
    except AttributeError:
        return None
    return value if value is not above or _is_own(thing, value) else None


def _is_own(thing: Any, value: Any) -> bool:
    """Whether an object that has nothing but attributes has what its class has too."""
    return is_bare(type(thing)) and any(one is value for one in gc.get_referents(thing))


def is_managed(kind: type) -> bool:
    """Whether instances of `kind` may have attributes without a dictionary."""
    return bool(_flags(kind) & MANAGED_DICT)


def is_bare(kind: type) -> bool:
    """Whether instances of `kind` have attributes and nothing else: what they refer to is little."""
    return is_managed(kind) and _basicsize(kind) <= HEAD


class _First:
    """What the layout is learned from."""


class _Second:
    """Another."""


LAYOUT = Layout()
