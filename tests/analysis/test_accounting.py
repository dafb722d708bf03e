"""Accounts: every byte once, and following a source is the same as starting anew."""

import itertools
import sys
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tensortui.analysis import accounting
from tensortui.analysis.accounting import Accounts, live_bytes
from tensortui.model import CATEGORIES, Change, Process, Sample, Storage, Tensor
from tensortui.model.strided import layout


def record(tid, storage, shape, strides, offset, category="other", flags=(), dtype="float32", version=0):
    total, distinct, contiguous, form, own = layout(shape, strides, dtype)
    return Tensor(
        tid, storage, (), "Tensor", shape, strides, offset, dtype, "cpu", "strided", total, distinct, contiguous, form,
        (*flags, *own), False, True, version, None, category,
    )  # fmt: skip


def reachable(size, tensors):
    """The bytes of a storage that tensors which are not base-only address, one by one."""
    found = set()
    for tensor in tensors:
        if "base-only" in tensor.flags:
            continue
        for index in itertools.product(*map(range, tensor.shape)):
            at = 4 * (tensor.offset + sum(i * stride for i, stride in zip(index, tensor.strides, strict=True)))
            found.update(range(at, at + 4))
    return len([byte for byte in found if byte < size])


@st.composite
def views(draw):
    dims = draw(st.integers(0, 3))
    return record(
        draw(st.integers(1, 9)),
        draw(st.none() | st.integers(1, 4)),
        tuple(draw(st.lists(st.integers(0, 5), min_size=dims, max_size=dims))),
        tuple(draw(st.lists(st.integers(0, 9), min_size=dims, max_size=dims))),
        draw(st.integers(0, 9)),
        draw(st.sampled_from(CATEGORIES)),
        draw(st.sampled_from(((), ("base-only",), ("view",)))),
        version=draw(st.integers(0, 1)),
    )


blocks = st.builds(
    Storage,
    st.integers(1, 4),
    st.sampled_from(("cpu", "cuda:0")),
    st.sampled_from((0, 1000, 1064, 1100, 1500)),
    st.none() | st.sampled_from((0, 64, 160, 1000)),
    st.sampled_from(("memory", "shared", "file", "none")),
)
steps = st.lists(
    st.tuples(st.lists(views(), max_size=5), st.lists(blocks, max_size=3), st.sets(st.integers(1, 9), max_size=3)),
    min_size=1,
    max_size=6,
)


def changed(before, after):
    return frozenset(key for key in before.keys() & after.keys() if before[key] != after[key])


def same(one, two):
    assert one.totals == two.totals
    assert {n: (a.category, a.live_bytes, a.counted, set(a.tensors)) for n, a in one.accounts.items()} == {
        n: (a.category, a.live_bytes, a.counted, set(a.tensors)) for n, a in two.accounts.items()
    }


def places(storages):
    """Every byte that the storages hold, as (device, address); one without an address is on its own."""
    found = set()
    for storage in storages:
        start = storage.address or -(storage.id << 20)
        if storage.backing != "none":
            found.update((storage.device, start + at) for at in range(storage.bytes or 0))
    return found


@settings(max_examples=200)
@given(steps, st.data())
def test_following_a_source_is_the_same_as_starting_anew(batches, data):
    tensors: dict[int, Tensor] = {}
    storages: dict[int, Storage] = {}
    followed = Accounts()
    before: tuple[dict, dict] = ({}, {})
    seq = None
    for number, (puts, blocks_, drops) in enumerate(batches, 1):
        storages.update((block.id, block) for block in blocks_)
        if number % 3 == 0:
            storages.pop(1, None)
        tensors.update((tensor.id, tensor) for tensor in puts)
        for tid in drops:
            tensors.pop(tid, None)
        sets = [frozenset(tensors) - before[0].keys(), changed(before[0], tensors), before[0].keys() - tensors.keys()]
        moved = (storages.keys() ^ before[1].keys()) | changed(before[1], storages)
        change = Change(*map(frozenset, sets), frozenset(moved), seq)
        sample = Sample(number, 0.0, Process(1), storages=dict(storages), tensors=dict(tensors), change=change)
        before = (dict(tensors), dict(storages))
        seq = number
        if data.draw(st.booleans(), label="a sample that nobody accounts for"):
            continue  # the next one's change is then relative to a sample we have not seen
        followed.update(sample)
        same(followed, Accounts(sample))
        assert followed.totals.bytes == len(places(storages.values()))
        some = data.draw(st.sets(st.integers(1, 4)))
        assert followed.bytes_of(some) == len(places(s for s in storages.values() if s.id in some))
        for sid, account in followed.accounts.items():
            on_it = [tensor for tensor in tensors.values() if tensor.storage == sid]
            if storages[sid].bytes is not None:
                assert account.live_bytes == reachable(storages[sid].bytes, on_it)
            else:
                assert account.live_bytes is None


@given(st.lists(views(), max_size=5), st.integers(0, 60), st.integers(0, 4000))
def test_live_bytes_are_exact_or_unknown_within_any_bound(tensors, pieces, work):
    size = 400
    exact = reachable(size, tensors)
    before = accounting._MAX_PIECES, accounting._MAX_WORK
    try:
        accounting._MAX_PIECES = pieces
        assert live_bytes(size, tensors) == exact  # counted bit by bit where there are too many pieces
        accounting._MAX_WORK = work
        assert live_bytes(size, tensors) in (None, exact)
    finally:
        accounting._MAX_PIECES, accounting._MAX_WORK = before


def test_a_version_alone_makes_no_storage_dirty(build):
    storage = build.storage(16)
    tid = build.tensor(storage)
    first = build.sample()
    accounts = Accounts(first)
    build.tensor(storage, tid=tid, version=9)
    assert accounts.update(build.sample(change=Change(changed=frozenset({tid}), since=first.seq))) == frozenset()
    build.tensor(storage, tid=tid, version=9, category="parameter")
    assert accounts.update(build.sample()) == {storage}


def test_totals_split_bytes_by_category_device_and_backing(build):
    for size, category, device, backing in (
        (100, "parameter", "cuda:0", "memory"),
        (10, "other", "cpu", "shared"),
        (1, "buffer", "cpu", "file"),
        (0, "other", "cpu", "none"),
    ):
        storage = build.storage(size, device=device, backing=backing)
        build.tensor(storage, category="other")
        build.tensor(storage, category=category)
    totals = Accounts(build.sample()).totals
    assert (totals.tensors, totals.storages, totals.bytes) == (8, 4, 111)
    assert totals.by_category == {"parameter": 100, "buffer": 1, "other": 10}
    assert totals.by_device == {"cpu": 11, "cuda:0": 100}
    assert totals.by_backing == {"memory": 100, "shared": 10, "file": 1}


def test_bytes_that_several_storages_lie_over_are_counted_once_for_the_category_that_comes_first(build):
    base = 1 << 20
    first = build.storage(600, address=base)
    second = build.storage(600, address=base + 400)
    inside = build.storage(100, address=base + 500)
    elsewhere = build.storage(600, address=base, device="cuda:0")
    build.tensor(first, category="other")
    build.tensor(second, category="parameter")
    accounts = Accounts(build.sample())
    counted = {storage: accounts.account(storage).counted for storage in (first, second, inside, elsewhere)}
    assert counted == {first: 400, second: 600, inside: 0, elsewhere: 600}
    totals = accounts.totals
    assert (totals.bytes, totals.by_device) == (1600, {"cpu": 1000, "cuda:0": 600})
    assert totals.by_category == {"parameter": 600, "other": 1000}
    assert accounts.bytes_of((first, inside)) == 600


def test_what_holds_no_memory_counts_nothing(build):
    storage = build.storage(4096, device="meta", backing="none")
    build.tensor(storage)
    accounts = Accounts(build.sample())
    assert (accounts.totals.bytes, accounts.totals.by_device) == (0, {})
    assert accounts.account(storage).bytes == 4096


def test_many_columns_of_a_large_matrix_are_counted_without_listing_them(build):
    rows, columns = 50_000, 64
    storage = build.storage(rows * columns * 4)
    for column in range(3):
        build.tensor(storage, (rows,), (columns,), offset=column)
    build.tensor(storage, (10, columns), offset=columns)
    live = Accounts(build.sample()).account(storage).live_bytes
    assert live == (3 * rows + 10 * columns - 3 * 10) * 4


def test_what_cannot_be_told_is_unknown_not_guessed(build):
    storage = build.storage(64)
    build.tensor(storage, dtype="novel", bytes=None)
    assert Accounts(build.sample()).account(storage).live_bytes is None
    build.tensor(storage, shape=(16,))  # it covers everything anyway
    assert Accounts(build.sample()).account(storage).live_bytes == 64


def test_storages_of_unknown_size_have_no_size_and_count_nothing_beside_others(build):
    unknown, other = build.storage(None), build.storage(None)
    known, none = build.storage(100), build.storage(None, device="meta", backing="none")
    accounts = Accounts(build.sample())
    assert accounts.size_of((unknown, other)) is None
    assert accounts.size_of((unknown, known)) == accounts.bytes_of((unknown, known)) == 100
    assert [accounts.size_of(some) for some in ((), (none,), (9999,))] == [0, 0, 0]


def state(accounts):
    return (accounts.totals, dict(accounts.accounts), accounts.bytes_of(accounts.accounts))


def test_what_is_frozen_stays_as_it_was_and_may_go_on_alone(build):
    first, second = build.storage(1000, address=5000), build.storage(1000, address=5500)
    build.tensor(second, category="parameter", tid=50)
    live = Accounts(build.sample())
    still = live.frozen()
    before = state(still)
    build.tensor(first, category="buffer", tid=50)  # the parameter is no more: a shared byte is the buffer's now
    third = build.storage(100, address=5900)
    later = build.sample()
    live.update(later)
    assert state(still) == before != state(live)
    after = state(live)
    del build.storages[third]
    still.update(build.sample())
    assert state(live) == after
    still.update(later)
    assert state(still) == after


def steps(work):
    """The lines of Python that `work` runs: the same on every machine."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_twice_the_loose_views_on_one_storage_take_about_twice_the_work(monkeypatch):
    def work(count):
        monkeypatch.setattr(accounting, "_MAX_PIECES", 4 * count)  # a half is listed piece by piece
        tensors = [record(at, 1, (8,), (2,), at * 16) for at in range(count)]
        return steps(lambda: live_bytes(count * 64, tensors))

    assert work(400) < 3 * work(200)


def crowd(count):
    """A sample of one block of memory, many storages over it, and a tensor on each."""
    storages = {0: Storage(0, "cpu", 1 << 20, count * 400)}
    storages |= {at: Storage(at, "cpu", (1 << 20) + at * 400, 360) for at in range(1, count)}
    tensors = {at: record(at, at, (90,), (1,), 0, "input" if at else "other") for at in range(count)}
    return Sample(1, 1.0, Process(1), storages=storages, tensors=tensors)


def next_one(sample, **records):
    """`sample`, with other records in it, and the change that leads there."""
    changed, storages = (frozenset(records.get(name, ())) for name in ("tensors", "storages"))
    both = {name: {**getattr(sample, name), **records.get(name, {})} for name in ("tensors", "storages")}
    return replace(sample, seq=2, change=Change(changed=changed, storages=storages, since=1), **both)


def test_sharing_bytes_out_takes_work_only_where_something_changed():
    def work(count, **records):
        sample = crowd(count)
        accounts = Accounts()
        first = steps(lambda: accounts.update(sample))
        return first, steps(lambda: accounts.update(next_one(sample, **records)))

    small, large = work(200), work(400)
    assert large[0] < 3 * small[0]
    assert large[1] == small[1]  # nothing changed
    moved = {7: record(7, 7, (80,), (1,), 0, "input")}  # the same storages in the same order
    assert work(400, tensors=moved)[1] == work(200, tensors=moved)[1]
    ranked = {7: record(7, 7, (90,), (1,), 0, "parameter")}
    assert work(400, tensors=moved)[1] < work(400, tensors=ranked)[1] < large[0]


def test_what_changes_in_a_crowd_is_shared_out_as_if_it_had_always_been_so():
    sample = crowd(30)
    for records in (
        {"tensors": {7: record(7, 7, (90,), (1,), 0, "parameter")}},
        {"storages": {7: Storage(7, "cpu", 1 << 19, 360)}},
        {"storages": {0: Storage(0, "cuda:0", 1 << 20, 400)}},
    ):
        accounts = Accounts(sample)
        later = next_one(sample, **records)
        accounts.update(later)
        assert state(accounts) == state(Accounts(later))
