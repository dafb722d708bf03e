"""The attributes of objects that have no dictionary, told without giving them one.

From CPython 3.11 on the values of an object's attributes lie beside it, in the order of a table of keys that all
objects of its class share. Asking for `__dict__` makes a dictionary that stays with the object for good. Here the
addresses of the values and the names are read from memory, which cannot fault; the values themselves are those of the
objects at these addresses that the collector is told the object refers to. So no address is ever taken for an object,
and a wrong guess about the layout, which is learned from objects of our own, gives nothing rather than nonsense.
"""

import gc
import sys
import types
import weakref
from array import array
from typing import Any, Dict, Iterable, List, Optional, Tuple

from tensortui.agent.guard import not_alone
from tensortui.agent.memory import WORD, Memory, is_pointer

BEFORE = 4 * WORD  # before an object: where its dictionary is known, and its values are where they lie elsewhere
BEHIND = 4 * WORD  # behind the fixed part of an object: what may come before the values that lie there
TABLE = 32  # words of a table of keys in which the first of them are
SHAPE = (1 << 24) - 1  # of the second word of a table: its sizes and its kind
MOST_KEYS = 64  # of one class: CPython shares 30
MOST_LETTERS = 1_000  # of one name
MOST_SLOTS = 64  # of one class with those above it
MOST_NOTED = 5_000  # attributes of these classes themselves, which are gone through once
MOST_CLASSES = 2_000  # that are known at once
TAGS = (0, 1)  # 3.12 marks the address of the values by one less
LIES_BESIDE = sys.version_info >= (3, 11) and "t" not in getattr(sys, "abiflags", "")  # nor without the one lock
HEAP_TYPE, MANAGED_DICT, INLINE_VALUES = 1 << 9, 1 << 4, 1 << 2  # the last: from 3.13 on

Entries = List[Tuple[str, Any]]

_flags = type.__dict__["__flags__"].__get__
_mro = type.__dict__["__mro__"].__get__
_space = type.__dict__["__dict__"].__get__
_basicsize = type.__dict__["__basicsize__"].__get__
_itemsize = type.__dict__["__itemsize__"].__get__
_weakrefs = type.__dict__["__weakrefoffset__"].__get__


class Strings:
    """Reads strings by their addresses. That a text is right is told by its hash, which each key has beside it."""

    def __init__(self, memory: Memory) -> None:
        """Learn from strings of each width where their letters are; raises ValueError where that is not found."""
        self._memory = memory
        samples = (
            "seventeen letters",
            "\xe9ighteen letters \xe9",
            "\u0416 nineteen letters ",
            "\U0001d6fc and twenty letters",
        )
        self._layouts: List[Tuple[str, int]] = []  # the width of a letter, as of arrays, and where the first one is
        heads = []
        for code, sample in zip("BBHI", samples):
            known = array(code, map(ord, sample)).tobytes()
            raw = self._bytes(id(sample), sys.getsizeof(sample))
            at = raw.find(known)
            if at < 0:
                raise ValueError
            self._layouts.append((code, at))
            heads.append((memory.words(id(sample), min(at // WORD, 8)), len(sample), hash(sample) % (1 << 64)))
        self._length = _only(place for place in range(2, 5) if all(words[place] == size for words, size, _ in heads))
        self._hash = _only(place for place in range(2, 5) if all(words[place] == known for words, _, known in heads))

    def _bytes(self, address: int, count: int) -> bytes:
        """Return `count` bytes; none where they cannot be read."""
        buffer = array("B", bytes(count))
        got = self._memory.read(array("Q", [address, count]), buffer) if is_pointer(address) else 0
        return buffer.tobytes() if got == count else b""

    def at(self, address: int) -> Optional[str]:
        """Return the text at an address; None where it is not certain that one is there."""
        head = self._memory.words(address, 5)
        if not head or head[1] != id(str) or head[self._length] > MOST_LETTERS:
            return None
        length, wanted = head[self._length], head[self._hash]
        for code, at in self._layouts:
            letters = array(code)
            letters.frombytes(self._bytes(address + at, length * letters.itemsize))
            if len(letters) == length and (not length or max(letters) <= sys.maxunicode):
                text = "".join(map(chr, letters))
                if hash(text) % (1 << 64) == wanted:
                    return text
        return None


class Layout:
    """Where this interpreter keeps keys and values, learned from objects of our own; ValueError where it is not clear.

    In bytes: `dictionary` from an object on; `values` from there on too, of their address, to which `tag` is added, or,
    where that is None, from behind the fixed part of the object on, of the values themselves; `keys` in a class;
    `count` and `first`, of the keys, in a table of them.
    """

    def __init__(self, memory: Memory) -> None:
        """Learn it."""
        asked, bare, single = _Seven(), _Seven(), _Single()
        names = [sys.intern("tensortui_%d" % number) for number in range(7)]
        values = [[number] for number in range(7)]
        for thing in (asked, bare):
            for name, value in zip(names, values):
                setattr(thing, name, value)
        setattr(single, names[0], values)
        space = asked.__dict__
        head = memory.words(id(asked) - BEFORE, BEFORE // WORD)
        self.dictionary = WORD * _only(at for at, word in enumerate(head) if word == id(space)) - BEFORE
        self.values, self.tag = self._find_values(memory, bare, list(map(id, values)))
        self._find_keys(memory, list(map(id, names)))

    def _find_values(self, memory: Memory, bare: Any, wanted: List[int]) -> Tuple[int, Optional[int]]:
        for at, word in enumerate(memory.words(id(bare) - BEFORE, BEFORE // WORD)):
            for tag in TAGS:
                if memory.words(word + tag, len(wanted)) == wanted:
                    return at * WORD - BEFORE, tag
        # Asked last: what the object knows by an address may lie right behind it by chance.
        behind = memory.words_up_to(id(bare) + _basicsize(type(bare)), BEHIND // WORD + len(wanted))
        places = range(0, BEHIND, WORD)
        return _only(place for place in places if behind[place // WORD :][: len(wanted)] == wanted), None

    def _find_keys(self, memory: Memory, names: List[int]) -> None:
        """Find the table of keys of the two classes, and in it the keys and how many there are."""
        classes = zip(*(memory.words(id(kind), _basicsize(type) // WORD) for kind in (_Seven, _Single)))
        found = [
            (first * WORD, place * WORD, count * WORD, seven[1] & SHAPE)
            for place, tables in enumerate(classes)
            for seven, single in [[memory.words(table, TABLE) for table in tables]]
            if seven and single and seven[1] & SHAPE == single[1] & SHAPE
            for first in range(2, TABLE - 2 * len(names) + 1)
            if seven[first::2][: len(names)] == names and single[first] == names[0]
            for count in range(2, first)
            if (seven[count], single[count]) == (len(names), 1)
        ]
        nearest = min(found)[0]  # a word that leads to what lies before the table may be in there too
        self.first, self.keys, self.count, self.shape = _only(one for one in found if one[0] == nearest)


def _only(found: Iterable[Any]) -> Any:
    """Return the only one of `found`; raises ValueError where there is none, or another."""
    (one,) = set(found)
    return one


class _Class:
    """What is known of one class: the names of its keys, and what is read of each of its objects, in one go."""

    __slots__ = ("alive", "buffer", "names", "places", "plain", "slots", "start", "table")

    def __init__(self, kind: type) -> None:
        """Nothing but its build; its keys are learned afterwards."""
        self.alive = weakref.ref(kind)  # an address alone may have gone to another class
        self.slots = _slots(kind) if _flags(kind) & MANAGED_DICT else -1
        self.plain = self.slots >= 0
        self.table = self.start = 0
        self.names: List[str] = []  # keys are only ever added
        self.places = self.buffer = array("Q")


def _slots(kind: type) -> int:
    """Return how many slots objects of `kind` have, -1 where they may consist of more than attributes and few slots.

    Whatever else they had, as a class written in C can give them, would make them larger; it may refer to very much.
    """
    slots = noted = 0
    for one in _mro(kind):
        if one is object:
            continue
        space = _space(one)
        noted += len(space)
        if not _flags(one) & HEAP_TYPE or noted > MOST_NOTED:
            return -1
        slots += sum(type(member) is types.MemberDescriptorType for member in space.values())
    size = object.__basicsize__ + WORD * (slots + (_weakrefs(kind) > 0))
    return slots if slots <= MOST_SLOTS and _basicsize(kind) == size and not _itemsize(kind) else -1


class InlineValues:
    """Lists attributes. `usable` is False where the layout is unknown, or objects have their dictionaries anyway."""

    def __init__(self) -> None:
        """Learn the layout and try it. Loading the library may give up the interpreter lock."""
        not_alone()
        self.usable = False
        self._classes: Dict[int, _Class] = {}
        if not LIES_BESIDE:
            return
        try:
            self._memory = Memory()
            self._strings = Strings(self._memory)
            self._layout = Layout(self._memory)
            self.usable = True
            self.usable = _is_right(self)
        except Exception:
            self.usable = False

    def has_dictionary(self, thing: Any) -> bool:
        """Whether it is certain that `thing` has a dictionary already: asking for it costs nothing."""
        if not self.usable or not _flags(type(thing)) & MANAGED_DICT:
            return False
        word = self._memory.word(id(thing) + self._layout.dictionary)
        return is_pointer(word)

    def entries(self, thing: Any, limit: int) -> Optional[Entries]:
        """Return the first `limit` attributes of `thing`, without those in slots, in the order of its class's keys.

        None where it has a dictionary, or is not of this kind, or where anything is not as expected. The caller is
        `Alone` and drops them before that ends.
        """
        if not self.usable:
            return None
        kind = type(thing)
        known = self._known(kind)
        for _ in range(2):
            values = self._values(thing, known) if known.plain else None
            if values is None:
                return None
            held = gc.get_referents(thing)
            more = len(held) - 1 - sum(map(bool, values))  # beside its class and the attributes
            if not more or (0 < more <= known.slots and self._count(known.table) == len(known.names)):
                break
            self._learn(kind, known)  # its objects have got attributes of other names since
        else:
            return None
        by_address = {id(one): one for one in held}
        chosen = [(name, word) for name, word in zip(known.names, values) if word][:limit]
        if not all(word in by_address for _, word in chosen):
            return None
        return [(name, by_address[word]) for name, word in chosen]

    def _known(self, kind: type) -> _Class:
        known = self._classes.get(id(kind))
        if known is None or known.alive() is not kind:
            if len(self._classes) >= MOST_CLASSES:
                self._classes.clear()
            known = self._classes[id(kind)] = _Class(kind)
            if known.plain:
                self._learn(kind, known)
        return known

    def _count(self, table: int) -> int:
        """Return how many keys are in a table, -1 where it is none of such keys."""
        layout = self._layout
        head = self._memory.words(table, layout.first // WORD)
        return head[layout.count // WORD] if head and head[1] & SHAPE == layout.shape else -1

    def _learn(self, kind: type, known: _Class) -> None:
        """Read the keys of a class, as many as there are by now."""
        layout, memory = self._layout, self._memory
        table = memory.word(id(kind) + layout.keys)
        count = self._count(table)
        keys = memory.words(table + layout.first, 2 * count)[::2] if 0 < count <= MOST_KEYS else []
        before = known.names if table == known.table else []
        names = [self._strings.at(key) for key in keys[len(before) :]]
        found = before + [name for name in names if name is not None]
        known.plain = len(found) == count
        known.names, known.table = found, table
        known.start = layout.dictionary if layout.tag is None else min(layout.dictionary, layout.values)
        end = WORD + (layout.dictionary if layout.tag is None else max(layout.dictionary, layout.values))
        if layout.tag is None and _flags(kind) & INLINE_VALUES:
            end = _basicsize(kind) + layout.values + WORD * len(found)
        known.places = array("Q", [0, end - known.start])
        known.buffer = array("Q", bytes(end - known.start))

    def _values(self, thing: Any, known: _Class) -> Optional[List[int]]:
        """Return the addresses of the values of `thing`, 0 for each that is not set; None where it has a dictionary."""
        layout, buffer, start = self._layout, known.buffer, known.start
        known.places[0] = id(thing) + start
        if self._memory.read(known.places, buffer) != WORD * len(buffer):
            return None
        space = buffer[(layout.dictionary - start) // WORD]
        if layout.tag is None:
            behind = len(buffer) > 1 and len(known.names)
            return None if space else buffer[-behind:].tolist() if behind else []
        if space and not (layout.tag and space & 1):
            return None
        values = buffer[(layout.values - start) // WORD]
        if not values or not known.names:
            return []
        return self._memory.words(values + layout.tag, len(known.names)) or None


class _Seven:
    """Has seven attributes."""


class _Single:
    """Has one."""


class _Plain:
    """Has those with which the layout is tried."""


class _Child(_Plain):
    """Has keys of its own."""


class _Slotted:
    """Has slots beside its dictionary."""

    __slots__ = ("__dict__", "slot")


class _Many:
    """Has more than classes share keys for."""


# Of every width and length; more than a table of keys that has no room for more of them would be made for.
_NAMES = (
    "plain",
    "_private",
    "\xe4\xf6",
    "\u0416\u0451",
    "\U0001d6fc\U0001d6fd",
    "long_name" * 40,
    "x",
    "twice",
    "kind",
)


def _is_right(reader: InlineValues) -> bool:
    """Try a reader on objects of our own: what it tells must be what was set, and leave them without a dictionary."""
    return all(_is_right_of(reader, kind) for kind in (_Plain, _Child, _Slotted)) and _tells_many(reader)


def _is_right_of(reader: InlineValues, kind: Any) -> bool:
    """Set and delete attributes of each kind, and look after every step."""
    thing, kept = kind(), {}  # type: Any, Dict[str, Any]
    shared = [kind]
    for name, value in zip(_NAMES, (1, None, shared, 1.5, (2,), {}, "text", shared, kind)):
        if not _agrees(reader, thing, kept):
            return False
        setattr(thing, name, value)
        kept[name] = value
    for name in (_NAMES[2], _NAMES[-1]):
        delattr(thing, name)
        del kept[name]
    if kind is _Slotted:
        thing.slot = kept
    if not _agrees(reader, thing, kept) or not _agrees(reader, kind(), {}):
        return False
    return bool(thing.__dict__ == kept and reader.has_dictionary(thing) and reader.entries(thing, 1) is None)


def _tells_many(reader: InlineValues) -> bool:
    """Look at an object with more attributes than share a table, and at one with few of them."""
    many, few = _Many(), _Many()
    names = ["tensortui_%d" % number for number in range(MOST_KEYS)]
    for name in names:
        setattr(many, name, name)
    setattr(few, names[1], many)
    return reader.has_dictionary(many) and reader.entries(many, 1) is None and _agrees(reader, few, {names[1]: many})


def _agrees(reader: InlineValues, thing: Any, kept: Dict[str, Any]) -> bool:
    """Whether all that is said of `thing` is right, and nothing is only where it has a dictionary by its nature."""
    found = reader.entries(thing, MOST_KEYS)
    if found is None:
        return type(thing) is _Slotted and reader.has_dictionary(thing)
    same = len(found) == len(kept) and all(kept.get(name, reader) is value for name, value in found)
    return same and not reader.has_dictionary(thing)
