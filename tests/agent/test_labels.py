import enum

from hypothesis import given
from hypothesis import strategies as st

from tensortui.agent import labels

KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.complex_numbers()
    | st.text("a @", max_size=8) | st.text("a @", max_size=8).map(str.encode)
    | st.text(st.characters(), max_size=200) | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Co"])),
    lambda inner: st.lists(inner, max_size=12).map(tuple),
)  # fmt: skip


def is_safe(text):
    return labels.IN_FRAME not in text and text.isprintable() and text.encode("utf-8") is not None


@given(KEYS)
def test_any_key_is_printable_and_short(key):
    label = labels.key(key)
    assert label
    assert len(label) <= labels.MAX_KEY
    assert is_safe(label)


@given(st.text(st.characters()) | st.text("a @", max_size=8))
def test_any_attribute_module_member_and_variable_is_printable(name):
    for made in (labels.attribute(name), labels.member(name), labels.variable(name), labels.safe(name)):
        assert is_safe(made)
    assert len(labels.attribute(name)) < 100
    assert len(labels.variable(name)) < 100


@given(st.text(st.characters()), st.integers(10, 80))
def test_clipping_keeps_both_ends(text, limit):
    clipped = labels.clip(text, limit)
    assert len(clipped) <= limit
    if len(text) > limit:
        assert clipped[:3] == text[:3]
        assert clipped[-3:] == text[-3:]


def test_only_exact_builtin_types_are_shown():
    class Loud(str):
        def __repr__(self):
            raise AssertionError("user code ran")

        __str__ = __hash__ = __format__ = __repr__

    class Number(int):
        __repr__ = __str__ = Loud.__repr__

    class Colour(enum.Enum):
        RED = 1

    assert labels.key(Loud("x")) == "<Loud>"
    assert labels.key(Number(3)) == "<Number>"
    assert labels.key(Colour.RED) == "<Colour>"
    assert labels.key((Number(3), "a")) == "(<Number>, 'a')"


def test_plain_keys_read_as_in_the_program():
    assert labels.key("val_logits") == "'val_logits'"
    assert labels.key(3) == "3"
    assert labels.key(("layer", 3)) == "('layer', 3)"
    assert labels.key((1,)) == "(1,)"
    assert labels.key(None) == "None"
    assert labels.key("\u202eevil") == "'\\u202eevil'"
    assert labels.key("\ud800") == "'\\ud800'"
    assert labels.variable("weird name") == "globals()['weird name']"
    assert labels.attribute("cache") == ".cache"
    assert labels.member("0") == ".0"
