"""Each check is a function that runs as a program of its own, with every CPython found."""

import subprocess
import textwrap

import pytest

PRELUDE = """
import abc, collections, dataclasses, enum, functools, gc, operator, random, sys, types, typing, weakref
sys.path.insert(0, sys.argv[1])
from tensortui.agent import inline_values
from tensortui.agent.guard import Alone
from tensortui.agent.inline_values import InlineValues

if sys.version_info < (3, 11):
    sys.exit("dictionaries")
reader = InlineValues()
assert reader.usable

def same(found, expected):
    return found is not None and len(found) == len(expected) and all(
        type(name) is str and expected.get(name, expected) is value for name, value in found
    )
"""


@pytest.fixture
def passes(python, root):
    """Run a check with each CPython, unless objects have their dictionaries from the beginning there."""

    def run(check):
        text = PRELUDE + textwrap.dedent(check) + "\nprint('fine')"
        command = [*python.split(), "-c", text, str(root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.stderr == "dictionaries\n":
            pytest.skip("objects have dictionaries there")
        assert done.stdout == "fine\n", done.stderr

    return run


def test_any_sequence_of_sets_and_deletes_is_told(passes):
    """The names are of every width; the classes of each sort; the objects have no dictionary afterwards."""
    passes(
        r"""
        class Plain: pass
        class Child(Plain): pass
        class Other(Child, Plain): pass
        class Slotted:
            __slots__ = ("__dict__", "one", "two")
        class ChildOfSlotted(Slotted): pass
        class WithSlot(Plain):
            __slots__ = ("one",)
        class Initialised:
            def __init__(self): self.first, self.second, self.third = 1, [], None
        class Abstract(abc.ABC):
            def method(self): self.declared = 1
        T = typing.TypeVar("T")
        class Generic(typing.Generic[T]): pass
        class Meta(type): pass
        class OfMeta(metaclass=Meta): pass
        @dataclasses.dataclass
        class Data:
            x: int = 1
            y: list = dataclasses.field(default_factory=list)
        names = ["a", "_b", "twelve_chars", "\xe9\xe8", "\u0416ab", "\U0001d6fcx", "long" * 200, "\udc80", "", "a b"]
        names += ["n%d" % number for number in range(8)]
        kinds = (Plain, Child, Other, Slotted, ChildOfSlotted, WithSlot, Initialised, Abstract, Generic, OfMeta, Data)
        dice = random.Random(7)
        seen, left = 0, []
        for _ in range(60):
            for kind in kinds:
                thing = kind()
                kept = {"first": 1, "third": None} if kind is Initialised else {"x": 1} if kind is Data else {}
                hidden = "second" if kind is Initialised else "y" if kind is Data else None
                if hidden: setattr(thing, hidden, kept.setdefault(hidden, []))
                for _ in range(dice.randrange(12)):
                    name = dice.choice(names)
                    if name in kept and dice.random() < 0.4:
                        delattr(thing, name); del kept[name]
                    else:
                        value = dice.choice([None, 3, 10**9 + len(kept), [], {}, thing, kind, "text", 1.5, kept])
                        setattr(thing, name, value); kept[name] = value
                    if hasattr(kind, "one") and dice.random() < 0.3:
                        thing.one = kept
                    with Alone():
                        found = reader.entries(thing, 99)
                        right = same(found, kept)
                        given = found is not None
                        del found
                    seen += given
                    assert right or (not given and reader.has_dictionary(thing)), (kind, kept)
                    assert not given or not reader.has_dictionary(thing)
                if reader.entries(thing, 99):
                    left.append((thing, kept))
        gc.collect(); gc.disable()
        reserve = [{} for _ in range(200)]
        blocks = sys.getallocatedblocks()
        for thing, kept in left: thing.__dict__
        assert sys.getallocatedblocks() - blocks > len(left) - 20  # they had none, but for what else went meanwhile
        for thing, kept in left:
            assert same(thing.__dict__.items(), kept)
        assert seen > 2000 and len(left) > 400, (seen, len(left))
        """
    )


def test_fifty_thousand_objects_are_left_as_they_were(passes):
    passes(
        """
        class Thing:
            def __init__(self, number):
                self.number, self.list, self.nothing, self.text = number, [number], None, "text"
        things = [Thing(number) for number in range(50_000)]
        sizes = list(map(sys.getsizeof, things))
        reader.entries(things[0], 9)
        gc.collect(); gc.disable()
        objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
        for thing in things:
            found = reader.entries(thing, 9)
            assert same(found, {"number": thing.number, "list": thing.list, "nothing": None, "text": "text"})
        del thing, found
        assert abs(len(gc.get_objects()) - objects) < 10
        assert abs(sys.getallocatedblocks() - blocks) < 50
        blocks = sys.getallocatedblocks()
        assert all(map(operator.eq, map(sys.getsizeof, things), sizes))
        assert not any(map(reader.has_dictionary, things))
        for thing in things: thing.__dict__
        assert sys.getallocatedblocks() - blocks > 49_000
        assert all(map(reader.has_dictionary, things))
        """
    )


def test_who_has_a_dictionary_is_not_told_from_memory(passes):
    passes(
        """
        class Thing: pass
        asked, many, moved, emptied = Thing(), Thing(), Thing(), Thing()
        asked.a = 1
        asked.__dict__
        class Wide: pass
        many = Wide()
        for number in range(100): setattr(many, "a%d" % number, number)
        class Other: pass
        moved.a = 1
        moved.__class__ = Other
        for thing in (asked, many, moved):
            found = reader.entries(thing, 200)
            assert found is None or same(found, thing.__dict__)
            assert reader.has_dictionary(thing) == (found is None)
        assert reader.entries(asked, 9) is None and reader.entries(many, 9) is None
        emptied.a = 1
        del emptied.__dict__
        assert reader.entries(emptied, 9) in ([], None)
        emptied.b = 2
        assert reader.entries(emptied, 9) in ([("b", 2)], None)
        few = Wide()
        few.a7 = few
        assert same(reader.entries(few, 9), {"a7": few})
        class Slotted:
            __slots__ = ("__dict__", "one", "two")
        slotted = Slotted()
        slotted.one = slotted.a = slotted
        assert same(slotted.__dict__.items(), {"a": slotted})
        assert reader.entries(slotted, 9) is None and reader.has_dictionary(slotted)
        given = Thing()
        given.__dict__ = {"x": 1}
        assert reader.entries(given, 9) is None and reader.has_dictionary(given)
        """
    )


def test_what_may_refer_to_very_much_is_not_asked(passes):
    passes(
        """
        class Listed(list): pass
        class Mapped(dict): pass
        class Queued(collections.deque): pass
        class Tupled(tuple): pass
        class Number(int): pass
        class Raised(Exception): pass
        class Spaced(types.SimpleNamespace): pass
        class Ordered(collections.OrderedDict): pass
        class Partial(functools.partial): pass
        class ManySlots:
            __slots__ = ("__dict__", *("s%d" % number for number in range(1000)))
        @functools.lru_cache(None)
        def cached(x): return x
        things = [Listed([1]), Mapped(a=1), Queued([1]), Tupled([1]), Number(3), Raised(1), Spaced(), Ordered(a=1)]
        things += [Partial(print), ManySlots()]
        for thing in things: thing.attribute = thing
        things += [cached, [1], {1: 2}, (1,), 5, "text", None, print, sys, Listed, object(), type, iter([])]
        asked = []
        ask, gc.get_referents = gc.get_referents, lambda *things: asked.append(things) or ask(*things)
        for thing in things:
            assert reader.entries(thing, 9) is None, thing
        assert not asked
        class Plain: pass
        assert reader.entries(Plain(), 9) == [] and asked
        """
    )


def test_no_code_of_the_program_is_run(passes):
    passes(
        """
        ran = []
        def note(*_, **__):
            ran.append(sys._getframe().f_back)
            raise AssertionError
        armed = False
        class Meta(type):
            def __getattribute__(cls, name):
                if armed: note()
                return type.__getattribute__(cls, name)
            def __eq__(cls, other): return note() if armed else cls is other
            def __hash__(cls): return note() if armed else type.__hash__(cls)
            def __instancecheck__(cls, thing): return note()
            def __call__(cls): return cls.__new__(cls)
            def mro(cls): return type.mro(cls)
            @property
            def __flags__(cls): note()
            @property
            def __mro__(cls): note()
        class Thing(metaclass=Meta):
            def __getattribute__(self, name): note()
            def __getattr__(self, name): note()
            __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __repr__ = note
            __class__ = property(note)
            value = property(note)
        thing, other = Thing(), Thing()
        object.__setattr__(thing, "other", other)
        object.__setattr__(thing, "me", thing)
        armed = True
        found = reader.entries(thing, 9)
        has = reader.has_dictionary(thing)
        armed = False
        assert [name for name, _ in found] == ["other", "me"] and found[0][1] is other and found[1][1] is thing
        assert not has and not ran
        """
    )


def test_names_that_came_later_are_told_and_no_more_than_wanted(passes):
    passes(
        """
        class Thing: pass
        first, second = Thing(), Thing()
        first.a = 1
        assert reader.entries(first, 9) == [("a", 1)]
        for number in range(10):
            setattr(second, "later%d" % number, number)
            assert reader.entries(second, 99)[-1] == ("later%d" % number, number)
        assert reader.entries(second, 4) == [("later%d" % number, number) for number in range(4)]
        assert reader.entries(second, 0) == [] and reader.entries(first, 9) == [("a", 1)]
        """
    )


def test_a_class_at_the_address_of_a_dead_one_is_another(passes):
    passes(
        """
        addresses = []
        for number in range(300):
            kind = type("Kind", (), {})
            thing = kind()
            setattr(thing, "name%d" % number, number)
            if number % 3: thing.shared = thing
            assert reader.entries(thing, 9)[0] == ("name%d" % number, number)
            addresses.append(id(kind))
            gone = weakref.ref(kind)
            del kind, thing
            gc.collect()
            assert gone() is None  # nothing of ours keeps it
        assert len(set(addresses)) < 250
        """
    )


def test_how_many_classes_are_known_is_bounded(passes):
    passes(
        """
        inline_values.MOST_CLASSES = 20
        kinds = [type("Kind", (), {}) for _ in range(50)]
        for kind in kinds + kinds:
            thing = kind()
            thing.a = thing
            assert same(reader.entries(thing, 9), {"a": thing})
            assert len(reader._classes) <= 20
        """
    )


def test_a_value_that_went_meanwhile_is_no_value(passes):
    """What is at an address that was read is only given where the object itself says that it refers to that."""
    passes(
        """
        class Thing: pass
        thing = Thing()
        thing.a, thing.b = object(), 1
        ask = gc.get_referents
        def change(*things):
            thing.a = [1]
            return ask(*things)
        gc.get_referents = change
        assert reader.entries(thing, 9) is None
        gc.get_referents = lambda *things: thing.__dict__ and ask(*things)
        found = reader.entries(thing, 9)
        assert found is None or same(found, thing.__dict__)
        """
    )


def test_a_layout_that_is_not_as_learned_is_none(passes):
    passes(
        """
        learn = inline_values.Layout.__init__
        right = vars(reader._layout)
        assert len(right) == 7
        for name in right:
            for wrong in (-1, 1) if name in ("shape", "tag") else (-16, -8, 8, 16):
                def learn_wrong(layout, memory):
                    learn(layout, memory)
                    changed = getattr(layout, name)
                    setattr(layout, name, wrong if changed is None else changed + wrong)
                inline_values.Layout.__init__ = learn_wrong
                assert not InlineValues().usable, (name, wrong)
        inline_values.Layout.__init__ = learn
        assert InlineValues().usable
        for change in (lambda one: (one[0], one[1] + 1), lambda one: ("B" if one[0] != "B" else "H", one[1])):
            class Wrong(inline_values.Strings):
                def __init__(self, memory):
                    super().__init__(memory)
                    self._layouts = list(map(change, self._layouts))
            strings, inline_values.Strings = inline_values.Strings, Wrong
            assert not InlineValues().usable
            inline_values.Strings = strings
        """
    )


def test_without_a_way_to_read_memory_there_is_none(passes):
    passes(
        """
        memory = inline_values.Memory
        class Refusing(memory):
            def read(self, places, buffer): return -1
        inline_values.Memory = Refusing
        class Thing: pass
        thing = Thing()
        thing.a = 1
        blind = InlineValues()
        assert not blind.usable and blind.entries(thing, 9) is None and not blind.has_dictionary(thing)
        def missing(): raise AttributeError
        inline_values.Memory = missing
        assert not InlineValues().usable
        assert reader.entries(thing, 9) == [("a", 1)]
        reader._memory = Refusing()
        assert reader.entries(thing, 9) is None and not reader.has_dictionary(thing)
        """
    )


def test_it_is_learned_again_and_again(passes):
    """The tables of keys of the classes that it is learned from have less room each time."""
    passes("assert all(InlineValues().usable for _ in range(60))")


def test_no_dictionaries_before_311(pythons, root):
    found = [pythons[version] for version in ("3.9", "3.10") if version in pythons]
    if not found:
        pytest.skip("no CPython 3.9 or 3.10 found (name one in TENSORTUI_TEST_PYTHONS)")
    for python in found:
        text = """
        import sys
        sys.path.insert(0, sys.argv[1])
        from tensortui.agent.inline_values import InlineValues
        class Thing: pass
        thing, reader = Thing(), InlineValues()
        thing.a = 1
        print(reader.usable, reader.entries(thing, 9), reader.has_dictionary(thing))
        """
        command = [*python.split(), "-c", textwrap.dedent(text), str(root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == "False None False\n", done.stderr
