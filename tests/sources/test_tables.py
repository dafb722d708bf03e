"""The two tables: what the agent's own encoder sends is what the records say; what nobody should send does no harm."""

from array import array

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensortui.agent.rows import Reader, Table, number
from tensortui.model import BACKINGS, CATEGORIES, Change, Storage
from tensortui.model.strided import layout
from tensortui.sources import tables
from tensortui.sources.tables import Tables
from tensortui.wire.frames import Decoder, WireError
from tensortui.wire.messages import COLUMNS, NONE, TENSOR_FLAGS

words = st.text(max_size=12)
flag_sets = st.sets(st.sampled_from(TENSOR_FLAGS))


@st.composite
def readings(draw):
    """What an agent may read of one tensor."""
    shape = draw(st.none() | st.lists(st.integers(0, 9), max_size=4).map(tuple))
    strided = shape is not None and draw(st.booleans())
    return {
        "storage": draw(st.none() | st.integers(1, 5)),
        "names": draw(st.lists(words, max_size=3).map(tuple)),
        "type": draw(st.sampled_from(("Tensor", "Parameter"))),
        "shape": shape,
        "strides": draw(st.lists(st.integers(0, 99), min_size=len(shape), max_size=len(shape)).map(tuple))
        if strided
        else None,
        "offset": draw(st.none() | st.integers(0, 1 << 40)),
        "dtype": draw(st.none() | st.sampled_from(("float32", "bfloat16", "novel"))),
        "device": draw(st.sampled_from(("cpu", "cuda:0"))),
        "layout": "strided" if strided else "sparse_coo",
        "bytes": None,
        "flags": sorted(draw(flag_sets), key=TENSOR_FLAGS.index),
        "requires_grad": draw(st.none() | st.booleans()),
        "is_leaf": draw(st.none() | st.booleans()),
        "version": draw(st.none() | st.integers(0, 1 << 40)),
        "grad_fn": draw(st.none() | words),
        "category": draw(st.sampled_from(CATEGORIES)),
    }


def put(table, tid, reading):
    """Store a reading in the agent's table, encoded as the agent does."""
    cells = []
    for name, kind in table.columns:
        if name == "id":
            cells.append(tid)
        elif name == "category":
            cells.append(CATEGORIES.index(reading[name]))
        elif kind == "bits":
            cells.append(sum(1 << TENSOR_FLAGS.index(flag) for flag in reading[name]))
        elif kind == "value":
            cells.append(table.dictionary(name).index(reading[name]))
        else:
            cells.append(number(reading[name]))
    table.put(tuple(cells))


def finish(work):
    """Do work of the agent's to its end, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def transfer(reader, into):
    """Send what changed to the viewer's tables, through real frames."""
    if reader.stale:
        into.reset()
        reader.restart()
    decoder = Decoder()
    batch = finish(reader.batch())
    while frame := batch.next_frame():
        for header, payload in decoder.feed(frame):
            getattr(into, header["t"])(header, payload)


def check(record, tid, reading):
    for name in ("storage", "type", "shape", "strides", "offset", "dtype", "device", "layout", "version", "category"):
        assert getattr(record, name) == reading[name], name
    assert record.id == tid
    assert record.requires_grad is reading["requires_grad"]
    assert record.is_leaf is reading["is_leaf"]
    assert [name.encode() for name in record.names] == [name.encode("utf-8", "replace") for name in reading["names"]]
    assert record.python == ("cpp-only" not in reading["flags"])
    sent = set(reading["flags"]) - {"cpp-only"}
    assert set(record.flags) - {"transposed", "expanded", "overlapping"} == sent


@given(st.lists(st.dictionaries(st.integers(1, 12), st.none() | readings(), max_size=8), max_size=5), st.data())
def test_records_are_what_the_agent_read_batch_after_batch(batches, data):
    agent = Table("tensors")
    reader = Reader(agent)
    viewer = Tables()
    current: dict[int, dict] = {}
    before: dict[int, object] = {}
    seq = None
    for batch in batches:
        for tid, reading in batch.items():
            if reading is None:
                current.pop(tid, None)
                agent.drop(tid)
            else:
                current[tid] = reading
                put(agent, tid, reading)
        if data.draw(st.booleans()):
            agent.compact()
        transfer(reader, viewer)
        number_, tensors, _, change = viewer.take()
        assert change.since == seq
        seq = number_
        assert set(tensors) == set(current)
        for tid, reading in current.items():
            check(tensors[tid], tid, reading)
        assert change.new == set(tensors) - set(before)
        assert change.gone == set(before) - set(tensors)
        assert change.changed == {tid for tid in set(tensors) & set(before) if tensors[tid] != before[tid]}
        before = dict(tensors)


def test_a_sample_never_changes_after_it_was_taken():
    agent, viewer = Table("tensors"), Tables()
    reader = Reader(agent)
    reading = dict.fromkeys(name for name, _ in COLUMNS["tensors"]) | {
        "names": ("a",),
        "flags": (),
        "category": "other",
    }
    put(agent, 1, reading)
    transfer(reader, viewer)
    _, first, _, _ = viewer.take()
    put(agent, 1, reading | {"names": ("b",)})
    put(agent, 2, reading)
    transfer(reader, viewer)
    _, second, _, _ = viewer.take()
    agent.drop(1)
    transfer(reader, viewer)
    _, third, _, _ = viewer.take()
    assert {tid: tensor.names for tid, tensor in first.items()} == {1: ("a",)}
    assert {tid: tensor.names for tid, tensor in second.items()} == {1: ("b",), 2: ("a",)}
    assert set(third) == {2}
    with pytest.raises(TypeError):
        first[3] = None


def storage_rows(viewer, *rows, values=()):
    payload = array("q", [cell for row in rows for cell in row]).tobytes()
    viewer.rows({"table": "storages", "n": len(rows), "values": {"device": list(values)}}, payload)


def test_storages_keep_high_addresses_and_what_is_unknown():
    viewer = Tables()
    high = 0xFFFF_8000_0000_1000
    storage_rows(viewer, (1, 0, high - (1 << 64), 64, 1), (2, NONE, NONE, NONE, 99), values=["cpu"])
    _, _, storages, change = viewer.take()
    assert storages[1] == Storage(1, "cpu", high, 64, BACKINGS[1])
    assert storages[2] == Storage(2, "?", None, None, "memory")
    assert change.storages == {1, 2}
    storage_rows(viewer, (1, 0, high - (1 << 64), 0, 3), (2, NONE, NONE, NONE, 99))
    assert viewer.take()[3].storages == {1}


def test_derived_fields_follow_the_layout_of_each_row():
    agent, viewer = Table("tensors"), Tables()
    tensors = {1: torch.zeros(3, 4).t(), 2: torch.zeros(1, 4).expand(3, 4), 3: torch.zeros(3, 4)}
    nothing = dict.fromkeys(name for name, _ in COLUMNS["tensors"])
    for tid, tensor in tensors.items():
        reading = {"names": (), "flags": ("view",), "category": "other", "dtype": "float32", "layout": "strided"}
        put(agent, tid, {**nothing, **reading, "shape": tuple(tensor.shape), "strides": tuple(tensor.stride())})
    transfer(Reader(agent), viewer)
    records = viewer.take()[1]
    assert [records[tid].bytes for tid in tensors] == [48, 48, 48]
    assert [records[tid].distinct_bytes for tid in tensors] == [48, 16, 48]
    assert [records[tid].contiguous for tid in tensors] == [False, False, True]
    assert [records[tid].flags for tid in tensors] == [("view", "transposed"), ("view", "expanded"), ("view",)]


def test_the_agents_own_byte_count_wins_where_it_sends_one():
    agent, viewer = Table("tensors"), Tables()
    nothing = dict.fromkeys(name for name, _ in COLUMNS["tensors"]) | {"names": (), "category": "other"}
    sparse = {"shape": (1000, 1000), "dtype": "float32", "layout": "sparse_coo", "flags": ("sparse",), "bytes": 240}
    put(agent, 1, nothing | sparse)
    transfer(Reader(agent), viewer)
    record = viewer.take()[1][1]
    assert (record.bytes, record.distinct_bytes, record.contiguous, record.flags) == (240, None, None, ("sparse",))


ids = st.frozensets(st.integers(1, 8))


@given(ids, ids, ids, st.data())
def test_merging_changes_tells_the_first_state_from_the_last(first, second, third, data):
    def change(before, after):
        return Change(after - before, data.draw(st.sampled_from((before & after, frozenset()))), before - after)

    merged = change(first, second).then(change(second, third))
    assert merged.new == third - first
    assert merged.gone == first - third
    assert merged.changed <= first & third
    assert first & third - second <= merged.changed  # it left and came back: not the record that was


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
columns = sorted({name for table in COLUMNS.values() for name, kind in table if kind == "value"})


@given(
    st.sampled_from(("tensors", "storages", "novel")) | json_values,
    st.dictionaries(st.sampled_from(columns) | st.text(max_size=3), st.lists(json_values, max_size=4) | json_values),
    st.integers(0, 3) | json_values,
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-1, 3), max_size=60),
    st.binary(max_size=3),
)
def test_hostile_rows_are_refused_or_read_loosely(table, values, count, cells, tail):
    viewer = Tables()
    header = {"table": table, "n": count, "values": values}
    width = len(COLUMNS.get(table, (1,))) if isinstance(table, str) else 1
    whole = cells[: len(cells) // width * width]
    for head, payload in (
        (header, array("q", cells).tobytes() + tail),
        ({**header, "n": len(whole) // width}, array("q", whole).tobytes()),
    ):
        for message in (viewer.rows, viewer.gone):
            try:
                message(head, payload)
            except WireError:
                viewer = Tables()
    for record in viewer.take()[1].values():
        assert all(type(size) is int and size >= 0 for size in record.shape or ())
        for text in (record.type, record.dtype, record.device, record.layout, record.grad_fn, *record.names):
            assert text is None or isinstance(text.encode(), bytes)


NULL_ROW = dict.fromkeys((name for name, _ in COLUMNS["tensors"]), NONE)


def tensor_rows(viewer, *rows, **values):
    payload = array("q", [cell for row in rows for cell in {**NULL_ROW, **row}.values()]).tobytes()
    viewer.rows({"table": "tensors", "n": len(rows), "values": values}, payload)


@pytest.mark.parametrize("row", [{"id": -1}, {"id": NONE}, {"id": 1, "storage": -1}, {"id": 1, "storage": NONE + 1}])
def test_a_tensor_with_an_id_below_zero_is_refused(row):
    viewer = Tables()
    tensor_rows(viewer, {"id": 1}, {"id": 2, "storage": 0})
    with pytest.raises(WireError, match="below 0"):
        tensor_rows(viewer, {"id": 3}, row)


@pytest.mark.parametrize("number", [-1, NONE])
def test_a_storage_with_an_id_below_zero_is_refused(number):
    with pytest.raises(WireError, match="below 0"):
        storage_rows(Tables(), (1, 0, 0, 0, 0), (number, 0, 0, 0, 0))


def test_a_shape_that_pytorch_could_not_count_is_none():
    viewer = Tables()
    shapes = [[2**62] * 20, [2**62, 2], [2**62, 1], [2**62, 2**62, 0]]
    rows = ({"id": at, "shape": at, "strides": at, "dtype": 0} for at in range(4))
    tensor_rows(viewer, *rows, shape=shapes, strides=[[0] * len(shape) for shape in shapes], dtype=["float32"])
    records = viewer.take()[1]
    assert [records[at].shape for at in range(4)] == [None, None, (2**62, 1), (2**62, 2**62, 0)]
    assert [records[at].bytes for at in range(4)] == [None, None, 2**64, 0]


def test_layouts_that_take_long_to_work_out_are_given_up_until_there_is_time(monkeypatch):
    monkeypatch.setattr(tables, "MAX_WORK", 5_000)
    viewer = Tables()
    shape, windows = [5, 5, 5], [[35 + at, 10, 3] for at in range(20)]  # no closed form counts these
    rows = [{"id": at, "shape": 0, "strides": at, "dtype": 0} for at in range(20)]
    tensor_rows(viewer, *rows, shape=[shape], strides=windows, dtype=["uint8"])
    exact = [layout(shape, strides, "uint8").distinct_bytes for strides in windows]
    first = [viewer.take()[1][at].distinct_bytes for at in range(20)]
    told = sum(distinct is not None for distinct in first)
    assert 0 < told < 20
    assert first[:told] == exact[:told]
    for _ in range(20):
        tensor_rows(viewer, *rows)
        last = [viewer.take()[1][at].distinct_bytes for at in range(20)]
    assert last == exact


def test_what_is_remembered_of_layouts_has_an_end(monkeypatch):
    monkeypatch.setattr(tables, "MAX_KNOWN", 10)
    viewer = Tables()
    rows = [{"id": at, "shape": at, "strides": at, "dtype": 0, "flags": 1 << at} for at in range(50)]
    dims = [[at + 1] for at in range(50)]
    tensor_rows(viewer, *rows, shape=dims, strides=[[1]] * 50, dtype=["uint8"])
    assert [viewer.take()[1][at].bytes for at in range(50)] == [at + 1 for at in range(50)]
    assert len(viewer._layouts) <= 10 and len(viewer._flags) <= 10


def test_a_table_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(tables, "MAX_ROWS", 10)
    viewer = Tables()
    with pytest.raises(WireError, match="more than 10"):
        for start in range(0, 100, 5):
            storage_rows(viewer, *((start + i, 0, 0, 0, 0) for i in range(5)))
    monkeypatch.setattr(tables, "MAX_ENTRIES", 10)
    viewer = Tables()
    with pytest.raises(WireError, match="entries"):
        for _ in range(4):
            storage_rows(viewer, values=["cpu"] * 5)


def test_long_and_broken_texts_are_made_encodable():
    assert tables.clean_text("a\ud800b\U0001f600") == "a\ufffdb\U0001f600"
    assert tables.clean_text("\ud83d\ude00") == "\U0001f600"  # a pair that JSON split
    assert len(tables.clean_text("x" * 100_000)) == tables.MAX_TEXT + 1
    assert tables.clean_dims([1] * 65) is None
    assert tables.clean_dims([1, -1]) is None
    assert tables.clean_dims([1, "2"]) is None
