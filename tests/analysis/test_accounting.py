"""Accounts: every byte once, and following a source is the same as starting anew."""

import itertools

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
    assert Accounts(build.sample()).account(storage).live_bytes in (None, 64)
