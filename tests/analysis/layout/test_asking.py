"""What can be typed into the index box."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensortui.analysis.layout import LayoutError
from tensortui.analysis.layout.asking import Address, Byte, Index, Offset, parse


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("[1,2,3]", Index((1, 2, 3))),
        ("1 2 3", Index((1, 2, 3))),
        ("1, -2", Index((1, -2))),
        ("(4,)", Index((4,))),
        ("x.t()[3, 5]", Index((3, 5))),
        ("model.w[3, 5]", Index((3, 5))),
        ("[]", Index(())),
        ("5", Index((5,))),
        ("byte 4096", Byte(4096)),
        ("BYTE 0x1000", Byte(4096)),
        ("byte 4 KiB", Byte(4096)),
        ("b 12", Byte(12)),
        ("byte=12", Byte(12)),
        ("byte: 1,024", Byte(1024)),
        ("offset 12", Offset(12)),
        ("element 7", Offset(7)),
        ("0x7f00_1000", Address(0x7F001000)),
        ("address 0x10", Address(16)),
        ("", None),
        ("byte", None),
        ("byte x", None),
        ("byte -1", None),
        ("1.5", None),
        ("[1, 2", None),
        ("[1--2]", None),
        ("0xzz", None),
        ("9" * 5000, None),
        ("[:, 1]", None),
    ],
)
def test_parse(text, asked):
    if asked is None:
        with pytest.raises(LayoutError) as caught:
            parse(text)
        assert str(caught.value)
    else:
        assert parse(text) == asked


@given(st.text(max_size=30) | st.text("0123456789xbyte[](), -_.", max_size=20))
def test_whatever_is_typed_is_understood_or_refused(text):
    try:
        assert isinstance(parse(text), (Index, Byte, Offset, Address))
    except LayoutError as error:
        assert str(error)
