"""The difference of two documents: matched by what tensors are, the same backwards, adding up to the totals."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensortui.analysis.difference import ZERO, Counts, as_json, difference, grown_and_shrunk
from tensortui.analysis.document import document, dumps
from tensortui.analysis.kinds import Kind
from tensortui.analysis.saved_document import DocumentError, decode
from tensortui.model import CATEGORIES, Process, Sample, Storage, Tensor

NAMES = (
    "log[{0}]",
    "model.layers.{0}.weight",
    "x @ step() train.py:{0}",
    "self saved by AddBackward0",
    "\ud800[{0}]",
    "",
)


def record(tid, storage, name, size, category, *more, view=False):
    names = tuple(one for one in (name, *more) if one)
    flags = ("view",) if view else ()
    return Tensor(
        tid, storage, names, "Tensor", (size,), (1,), 0, "float32", "cpu", "strided", 4 * size, 4 * size, True,
        "contiguous", flags, False, True, 0, None, category,
    )  # fmt: skip


def saved(tensors, storages, at=1000.0):
    sample = Sample(
        1, at, Process(7), tensors={one.id: one for one in tensors}, storages={one.id: one for one in storages}
    )
    return decode(dumps(document(sample, findings=())).encode())


@st.composite
def documents(draw):
    """Any program: some storages, some tensors on each of them, some without one."""
    first = draw(st.integers(0, 1000))  # ids and addresses of one document say nothing in another
    storages, tensors = [], []
    for number in range(draw(st.integers(0, 5))):
        backing = draw(st.sampled_from(["memory", "memory", "none"]))
        size = draw(st.one_of(st.none(), st.integers(0, 64)))
        storages.append(Storage(first + number, "cpu", (first + number) << 20, size, backing))
        tensors += [storages[-1].id] * draw(st.integers(0, 3))
    tensors += [None] * draw(st.integers(0, 3))
    made = [
        record(
            first + at,
            storage,
            draw(st.sampled_from(NAMES)).format(draw(st.integers(0, 30))),
            draw(st.integers(0, 2)),
            draw(st.sampled_from(CATEGORIES)),
            view=draw(st.booleans()),
        )
        for at, storage in enumerate(tensors)
    ]
    return saved(made, storages, draw(st.floats(0, 1e9)))


def changes(found):
    return {group.kind: group.change for group in found.groups}


@given(documents(), documents())
def test_backwards_it_is_the_same_with_the_other_sign_and_it_adds_up(a, b):
    there, back = difference(a, b), difference(b, a)
    assert changes(there) == {kind: ZERO - change for kind, change in changes(back).items()}
    assert {group.kind: group.names for group in there.groups} == {group.kind: group.names for group in back.groups}
    assert there.totals == ZERO - back.totals
    assert there.seconds == -back.seconds
    added = Counts(*map(sum, zip(ZERO, *changes(there).values(), strict=True)))
    assert added == there.totals
    assert Counts(*map(sum, zip(there.a, there.totals, strict=True))) == there.b


@given(documents())
def test_with_itself_there_is_none(a):
    found = difference(a, a)
    assert (found.groups, found.totals, found.seconds) == ((), ZERO, 0.0)


@given(documents(), documents(), documents())
def test_the_way_over_a_third_is_the_sum_of_both(a, b, c):
    first, second, whole = changes(difference(a, b)), changes(difference(b, c)), changes(difference(a, c))
    for kind in first.keys() | second.keys() | whole.keys():
        way = ZERO - (ZERO - first.get(kind, ZERO) - second.get(kind, ZERO))
        assert way == whole.get(kind, ZERO)


def test_the_totals_are_those_of_the_documents(build):
    storage = build.storage(64)
    build.tensor(storage, (16,), name="x")
    build.storage(64, address=build.storages[storage].address + 16)
    build.storage(8, backing="none")
    text = json.loads(dumps(document(build.sample(), findings=())))
    assert text["totals"]["bytes"] == 80
    found = difference(saved([], []), decode(json.dumps(text).encode()))
    assert found.totals._asdict() == {name: text["totals"][name] for name in ("tensors", "storages", "bytes")}


def test_a_list_that_grew_is_one_group_whatever_its_ids():
    before = [record(one, one, f"log[{one}]", 4, "other") for one in range(3)]
    after = [record(90 + one, 90 + one, f"log[{one}]", 4, "other", "again") for one in range(5)]
    a = saved(before, [Storage(one.storage, "cpu", 64 * one.id, 16) for one in before])
    b = saved(after, [Storage(one.storage, "cpu", 7 * 64 * one.id, 16) for one in after], 1012.5)
    found = difference(a, b)
    (group,) = found.groups
    assert group.kind == Kind("log[*]", "log", "other", (4,), "float32", "cpu")
    assert group.names == ("log[*]", "again")
    assert group.change == (2, 2, 32)
    assert as_json(found, {"file": "a"}, {"file": "b"}) == {
        "schema": 1,
        "a": {"file": "a", "totals": {"tensors": 3, "storages": 3, "bytes": 48}},
        "b": {"file": "b", "totals": {"tensors": 5, "storages": 5, "bytes": 80}},
        "seconds": 12.5,
        "totals": {"tensors": 2, "storages": 2, "bytes": 32},
        "groups": [
            {
                "shape": [4], "dtype": "float32", "device": "cpu", "category": "other", "names": ["log[*]", "again"],
                "tensors": 2, "storages": 2, "bytes": 32,
            }
        ],
    }  # fmt: skip


def test_views_count_no_bytes_of_their_own():
    base = record(1, 1, "x", 8, "other")
    views = [record(2 + one, 1, f"rows[{one}]", 2, "other", view=True) for one in range(4)]
    storage = Storage(1, "cpu", 64, 32)
    found = difference(saved([base], [storage]), saved([*views, base], [storage]))
    assert [(group.kind.name, group.change) for group in found.groups] == [("rows[*]", (4, 0, 0))]


def test_a_storage_counts_with_what_its_category_comes_from_and_no_view():
    whole, weight = record(1, 1, "flat", 8, "other"), record(2, 1, "weight", 4, "parameter", view=True)
    repeated = record(3, 1, "many", 99, "parameter", view=True)
    storage = [Storage(1, "cpu", 64, 32)]
    found = difference(saved([], []), saved([whole, weight], storage))
    assert {kind.name: change for kind, change in changes(found).items()} == {"flat": (1, 0, 0), "weight": (1, 1, 32)}
    whole = record(1, 1, "flat", 8, "parameter")
    found = difference(saved([], []), saved([repeated, whole], storage))
    assert {kind.name: change for kind, change in changes(found).items()} == {"flat": (1, 1, 32), "many": (1, 0, 0)}


def test_what_cannot_all_be_shown_leaves_out_the_middle():
    sizes = [5, 4, 3, 2, 1, 0, 0, 1, 2]
    before = [record(at, at, f"a{chr(97 + at)}", 1, "other") for at in (7, 8)]
    after = [record(at, at, f"a{chr(97 + at)}", 1, "other") for at in range(7)]
    a = saved(before, [Storage(one.id, "cpu", 1 << 20 | one.id << 8, sizes[one.id]) for one in before])
    b = saved(after, [Storage(one.id, "cpu", 1 << 20 | one.id << 8, sizes[one.id]) for one in after])
    found = difference(a, b)

    def shown(most):
        return [one if isinstance(one, int) else one.change.bytes for one in grown_and_shrunk(found, most)]

    assert shown(9) == [5, 4, 3, 2, 1, 0, 0, -1, -2]
    assert shown(4) == [5, 4, 5, -1, -2]
    assert shown(8) == [5, 4, 3, 2, 1, 0, 1, -1, -2]
    assert shown(1) == [8, -2]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"schema": 1, "tensors": [', "is cut off: its JSON breaks off after 26 bytes"),
        (b'{"schema": 1, "tensors": [{}', "is cut off: its JSON breaks off after 28 bytes"),
        (b'{"schema": 1, "tens', "is cut off: its JSON breaks off after 19 bytes"),
        (b"hello", "is not JSON: expecting value at line 1, column 1"),
        (b"{'schema': 1}", "is not JSON: expecting property name enclosed in double quotes at line 1, column 2"),
        (b"\x80\x04\x95\x00", "is not text in UTF-8"),
        (b"[]", "is JSON, but no document of tensortui: it has no `schema`"),
        (b"7", "is JSON, but no document of tensortui"),
        (b"{}", "is JSON, but no document of tensortui: it has no `schema`"),
        (b'{"schema": 2}', "is of schema 2, and this tensortui reads schema 1"),
        (b'{"schema": "x", "tensors": []}', 'is of schema "x", and this tensortui reads schema 1'),
        (b'{"schema": 1}', "is not as schema 1 has it: there is no `tensors`"),
        (b'{"schema": 1, "tensors": [], "storages": 3}', "is not as schema 1 has it: expected `array`, got `int`"),
        (
            b'{"schema": 1, "tensors": [{"id": 1, "bytes": "x"}], "storages": []}',
            "is not as schema 1 has it: expected `int | null`, got `str` - at `$.tensors[0].bytes`",
        ),
        (b"[" * 100_000, "is nested too deeply to be such a document"),
        (b'{"schema": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is nested too deeply to be such a document"),
        (b'{"schema": ' + b"1" * 5000 + b"}", "holds a number of more digits than anything has"),
    ],
    ids=range(19),
)
def test_what_is_no_document_says_why(data, why):
    with pytest.raises(DocumentError) as caught:
        decode(data)
    assert str(caught.value).startswith(why)


def test_numbers_beyond_eight_bytes_are_numbers():
    huge = 10**30
    data = {"schema": 1, "tensors": [{"id": 1, "storage": 2, "bytes": huge}], "storages": [{"id": 2, "bytes": huge}]}
    found = difference(decode(b'{"schema": 1, "tensors": [], "storages": []}'), decode(json.dumps(data).encode()))
    assert found.totals.bytes == huge
    assert found.seconds is None


def test_a_byte_order_mark_and_half_a_surrogate_are_no_failure():
    data = b'{"schema": 1, "tensors": [{"id": 1, "names": ["\\ud800[3]"]}], "storages": []}'
    assert decode(b"\xef\xbb\xbf" + data).tensors[0].names == ("\ud800[3]",)


@given(st.data())
def test_whatever_is_wrong_with_a_document_is_said(data):
    text = json.dumps({"schema": 1, "tensors": [], "storages": [{"id": 1, "bytes": 5}], "process": {"pid": 1}})
    damaged = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        damaged = damaged or bytearray(b"x")
    try:
        found = decode(bytes(damaged))
    except DocumentError as error:
        assert "\n" not in str(error)
    else:
        assert difference(found, found).groups == ()


def test_a_moment_without_a_time_zone_is_utc():
    plain, zoned = (
        decode(b'{"schema": 1, "tensors": [], "storages": [], "taken_at": "2026-01-01T00:00:0%s"}' % end)
        for end in (b"0", b"1Z")
    )
    assert difference(plain, zoned).seconds == 1.0
