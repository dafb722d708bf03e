"""Frames: what goes in comes out, however it is cut; garbage is refused at once and never piles up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensortui.model import sample
from tensortui.wire import messages
from tensortui.wire.frames import MAX_HEADER, PREFIX, Decoder, WireError, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FRAMES = st.lists(st.tuples(st.dictionaries(st.text(), VALUES, max_size=5), st.binary(max_size=64)), max_size=5)


@given(FRAMES, st.lists(st.integers(1, 40), min_size=1))
def test_frames_survive_any_cutting(frames: list[tuple[dict[str, object], bytes]], cuts: list[int]) -> None:
    frames = [({**header, "t": "x"}, payload) for header, payload in frames]
    stream = b"".join(encode(header, payload) for header, payload in frames)
    decoder, got, at = Decoder(), [], 0
    for index in range(len(stream)):
        step = cuts[index % len(cuts)]
        got += decoder.feed(stream[at : at + step])
        at += step
    assert got == frames


@given(st.lists(st.binary(max_size=512), max_size=20))
def test_garbage_is_refused_or_waited_for_but_never_grows(pieces: list[bytes]) -> None:
    decoder = Decoder(256, 256)
    try:
        for piece in pieces:
            decoder.feed(piece)
            assert len(decoder._buffer) <= PREFIX.size + 512
    except WireError:
        pass


@pytest.mark.parametrize("prefix", [(MAX_HEADER + 1, 0), (2, 0xFFFFFFFF), (0xFFFFFFFF, 0)])
def test_huge_lengths_are_refused_before_anything_is_read(prefix: tuple[int, int]) -> None:
    with pytest.raises(WireError):
        Decoder().feed(PREFIX.pack(*prefix))


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"t":1}', b"\xff", b"[" * 100_000, b"", b'{"t":"x","n":NaN}'])
def test_a_header_that_is_no_object_with_a_type_is_refused(text: bytes) -> None:
    with pytest.raises(WireError):
        Decoder().feed(PREFIX.pack(len(text), 0) + text)


def test_the_agent_numbers_categories_and_backings_as_the_model_does() -> None:
    assert messages.CATEGORIES == sample.CATEGORIES
    assert messages.BACKINGS == sample.BACKINGS


@pytest.mark.parametrize(
    ("theirs", "common"),
    [
        ([1, 1], 1),
        ([1, 9], 1),
        ([2, 3], 0),
        ([], 0),
        (["x", None], 0),
        ({"a": 1}, 0),
        (None, 0),
        ([1e999, 1], 0),
        (1, 0),
    ],
)
def test_the_highest_common_protocol_is_chosen(theirs: object, common: int) -> None:
    assert messages.common_protocol((1, 1), theirs) == common
