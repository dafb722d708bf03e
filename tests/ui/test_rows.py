"""Which rows the table has: grouping, folding, sorting, filtering, and keeping up with what changed."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from ui_data import Build, after, many, tensor, training

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.filtering import parse
from tensortui.model import Sample
from tensortui.ui.groups import GROUP_MODES
from tensortui.ui.ordering import Steps
from tensortui.ui.rows import Rows


def done(steps: Steps) -> None:
    for _ in steps:
        pass


def rows_of(sample: Sample) -> Rows:
    rows = Rows()
    done(rows.update(sample, Accounts(sample), None))
    return rows


def look(rows: Rows, opened: bool | None = None, **view: Any) -> None:
    done(rows.change(replace(rows.view, **view), opened))


def shape_of(rows: Rows) -> list[object]:
    """The rows as what they are, so that two tables can be compared."""
    return [rows.identity(row) for row in rows.order]


def test_a_storage_with_one_tensor_is_one_row_and_a_shared_one_has_a_header() -> None:
    b = Build()
    alone = b.add("alone", (8, 8))
    shared = b.storage(1024)
    first, second = b.add("first", (8, 8), storage=shared), b.add("second", (8, 8), storage=shared, offset=64)
    assert shape_of(rows_of(b.sample())) == [
        ("group", shared),
        ("tensor", first),
        ("tensor", second),
        ("tensor", alone),
    ]


def test_a_storage_that_a_small_view_keeps_is_never_folded() -> None:
    b = Build()
    big = b.storage(64 << 20)
    view = b.add("view", (16,), storage=big)
    assert shape_of(rows_of(b.sample())) == [("group", big), ("tensor", view)]


@pytest.mark.parametrize("mode", GROUP_MODES)
def test_every_tensor_is_in_one_group(mode: str) -> None:
    sample = training()
    rows = rows_of(sample)
    look(rows, group_by=mode)
    look(rows, True)
    tensors = [row for row in rows.order if row >= 0]
    assert sorted(tensors) == sorted(sample.tensors)


def test_the_bytes_of_a_group_count_a_shared_storage_once() -> None:
    b = Build()
    shared = b.storage(1024)
    b.add("m.a", (256,), category="parameter", storage=shared)
    b.add("m.b", (256,), category="parameter", storage=shared)
    rows = rows_of(b.sample())
    look(rows, group_by="category")
    assert rows.group_bytes("parameter") == 1024


@pytest.mark.parametrize("key", ["name", "shape", "dtype", "bytes", "strides", "version", "grad_fn", "category"])
def test_sorting_by_any_column_keeps_all_rows_and_reverses(key: str) -> None:
    rows = rows_of(training())
    before = sorted(rows.order)
    look(rows, sort_by=key, reverse=False)
    up = [row for row in rows.order if row >= 0]
    look(rows, reverse=True)
    assert len(rows.order) == len(before)
    assert up != [row for row in rows.order if row >= 0]


def test_ties_are_broken_by_name_with_numbers_as_numbers() -> None:
    b = Build()
    for at in (22, 9, 25, 27, 10):
        b.add(f"logs[{at}]", (8, 8))
    shared = b.storage(64)
    for at in (11, 2):
        b.add(f"part[{at}]", (8,), storage=shared)
    sample = b.sample()
    rows = rows_of(sample)
    expected = [f"logs[{at}]" for at in (9, 10, 22, 25, 27)] + ["part[2]", "part[11]"]
    assert [sample.tensors[row].names[0] for row in rows.order if row >= 0] == expected
    look(rows, sort_by="name", reverse=False)
    assert [sample.tensors[row].names[0] for row in rows.order if row >= 0] == expected


def bundle_sample(count: int) -> Sample:
    b = Build()
    weight = b.storage(4096)
    b.add("fc.weight", (32, 32), storage=weight)
    for _ in range(count):
        b.add("mat2 saved by AddmmBackward0", (32, 32), storage=weight, strides=(1, 32))
    return b.sample()


def test_a_bundle_opens_closes_and_is_found() -> None:
    rows = rows_of(bundle_sample(5))
    assert rows.order == [-1, 1, 2] and rows.bundles == {2: (2, 3, 4, 5, 6)}
    assert rows.find(("tensor", 5)) == 2
    assert rows.search("mat2", 2, 1, here=True) == rows.search("mat2", 1, 1) == 2
    assert not rows.unbundle(1)
    assert rows.unbundle(2) and rows.order == [-1, 1, 2, 3, 4, 5, 6]
    assert rows.find(("tensor", 5)) == 5
    assert rows.toggle(1) and rows.order == [-1]
    assert rows.toggle(1) and rows.order == [-1, 1, 2, 3, 4, 5, 6]
    assert rows.rebundle(4) == 2 and rows.order == [-1, 1, 2]
    assert rows.rebundle(4) is None


@pytest.mark.parametrize("opened", [False, True])
def test_a_bundle_keeps_up_with_what_changed(opened: bool) -> None:
    sample = bundle_sample(5)
    rows, accounts = rows_of(sample), Accounts(sample)
    if opened:
        rows.unbundle(2)
    new = [tensor(70, 1, ["mat2 saved by AddmmBackward0"], (32, 32), strides=(1, 32))]
    for newer in (after(sample, new=new, gone=[2, 4]), after(sample, gone=[2, 3, 4, 5])):
        accounts.update(newer)
        done(rows.update(newer, accounts, newer.change))
        sample = newer
        shown = sorted(tid for tid in sample.tensors if tid != 1)
        assert rows.order == [-1, 1, *(shown if opened else shown[:1])]
        sample = rows.sample or sample


def test_a_filter_leaves_only_what_passes() -> None:
    sample = training()
    rows = rows_of(sample)
    look(rows, filter=parse("category:gradient") or None)
    assert {sample.tensors[row].category for row in rows.order if row >= 0} == {"gradient"}
    assert rows.shown == 20
    look(rows, filter=parse("") or None)
    assert rows.shown == len(sample.tensors)


@pytest.mark.parametrize("mode", GROUP_MODES)
@pytest.mark.parametrize("text", ["", "category:gradient", "version>5", "storage_bytes>2MiB"])
@pytest.mark.parametrize(
    ("sort_by", "reverse"), [("bytes", True), ("bytes", False), ("version", True), ("name", False)]
)
def test_what_changed_gives_the_same_rows_as_starting_anew(mode: str, text: str, sort_by: str, reverse: bool) -> None:
    chance = random.Random(7)
    sample = many(300, 3)
    rows, accounts = Rows(), Accounts(sample)
    done(rows.update(sample, accounts, None))
    look(rows, group_by=mode, filter=parse(text) or None, sort_by=sort_by, reverse=reverse)
    number = 10_000
    for _ in range(12):
        ids = list(sample.tensors)
        gone = chance.sample(ids, 20)
        changed = [
            replace(sample.tensors[tid], version=9, category=chance.choice(("saved", "gradient")))
            for tid in chance.sample([tid for tid in ids if tid not in gone], 20)
        ]
        new = [tensor(number + at, chance.choice([1, 2, 5, None]), [f"n{at}"], (4, at + 1)) for at in range(5)]
        number += 10
        grown = replace(chance.choice(list(sample.storages.values())), bytes=chance.choice([1, 3, 5]) << 20)
        sample = after(sample, new=new, gone=gone, changed=changed, storages=[grown])
        accounts.update(sample)
        done(rows.update(sample, accounts, sample.change))
        fresh = rows_of(sample)
        look(fresh, group_by=mode, filter=parse(text) or None, sort_by=sort_by, reverse=reverse)
        assert shape_of(rows) == shape_of(fresh)
        assert rows.shown == fresh.shown
        assert {key: set(ids) for key, ids in rows.members.items()} == {k: set(v) for k, v in fresh.members.items()}
        assert rows._folded == fresh._folded
        assert [rows.group_bytes(key) for key in rows.keys] == [fresh.group_bytes(key) for key in fresh.keys]


@pytest.mark.parametrize("told", [True, False], ids=["as it changed", "with something left untold"])
@pytest.mark.parametrize("after_steps", [0, 1, 2, 3])
def test_an_update_that_was_given_up_is_done_in_full_the_next_time(told: bool, after_steps: int) -> None:
    before = many(300, 3)
    rows = rows_of(before)
    new = [tensor(9000 + at, None, [f"n{at}"], (4, 4)) for at in range(3)]
    sample = after(before, new=new, gone=[5, 6])
    if not told:
        sample = replace(sample, change=replace(sample.change, new=frozenset({9000})))
    begun = rows.update(sample, Accounts(sample), sample.change)
    for _ in range(after_steps):
        next(begun, None)
    begun.close()
    done(rows.update(sample, Accounts(sample), sample.change))
    assert shape_of(rows) == shape_of(rows_of(sample))
    assert rows.shown == len(sample.tensors)


def test_a_row_whose_tensor_is_gone_stays_as_long_as_it_is_told_to() -> None:
    before = training()
    tid = next(iter(before.tensors))
    rows = rows_of(before)
    sample = after(before, gone=[tid])
    done(rows.update(sample, Accounts(sample), sample.change, [before.tensors[tid]]))
    assert rows.find(("tensor", tid)) is not None
    done(rows.drop_ghosts())
    assert rows.find(("tensor", tid)) is None


def test_a_row_costs_little_beyond_its_tensor() -> None:
    count = 5_000
    sample = many(count)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        rows = rows_of(sample)
        after_, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(rows.order) == count
    assert (after_ - before) / count < 600  # bytes; a dictionary, or a text to sort by, for each would be more


def test_opening_and_closing_groups_by_hand_leaves_the_rows_that_arranging_anew_gives() -> None:
    chance = random.Random(5)
    rows = rows_of(many(60, 3))
    for _ in range(40):
        rows.toggle(chance.choice(rows.keys))
        before = shape_of(rows)
        look(rows, reverse=not rows.view.reverse)
        look(rows, reverse=not rows.view.reverse)
        assert shape_of(rows) == before


def test_a_tensor_inside_a_closed_group_is_found_at_its_header() -> None:
    b = Build()
    shared = b.storage(1024)
    tid = b.add("a", (8,), storage=shared)
    b.add("b", (8,), storage=shared, offset=8)
    rows = rows_of(b.sample())
    rows.toggle(shared)
    at = rows.find(("tensor", tid))
    assert at is not None
    assert rows.identity(rows.order[at]) == ("group", shared)


def test_search_goes_round_in_the_order_of_the_table_and_into_closed_groups() -> None:
    b = Build()
    shared = b.storage(4096)
    small, large = b.add("hit.small", (8,), storage=shared), b.add("hit.large", (32, 32), storage=shared)
    b.add("miss", (64, 64))
    last = b.add("Hit.last", (2,))
    rows = rows_of(b.sample())
    look(rows, False)
    found, row = [], rows.order[0]
    for _ in range(4):
        tid = rows.search("hit", row, 1)
        assert tid is not None
        found.append(tid)
        row = tid
    assert found == [large, small, last, large]
    assert rows.search("hit", large, -1) == last
    assert rows.search("nothing", large, 1) is None


def test_who_types_a_name_goes_to_the_tensor_of_that_name_first() -> None:
    b = Build()
    largest = b.add("self saved by NllLossBackward0", (64, 64))
    begun = b.add("Loss_sum", (32, 32))
    exact = b.add("loss @ step() train.py:53", (8,))
    rows = rows_of(b.sample())
    assert rows.order.index(largest) < rows.order.index(begun) < rows.order.index(exact)
    assert rows.search("loss", largest, 1, here=True) == exact
    assert rows.search("loss_", largest, 1, here=True) == begun
    assert rows.search("saved by Nll", begun, 1, here=True) == largest
    assert rows.search("loss", largest, 1) == begun, "the next one is the next in the table"


def test_search_in_a_table_without_rows_finds_nothing() -> None:
    rows = rows_of(training())
    look(rows, filter=parse("name~nothing-is-called-this") or None)
    assert rows.search("model", 1, 1, here=True) is None


def test_search_finds_what_has_no_name_by_what_is_shown() -> None:
    b = Build()
    b.add("model", (8,))
    nameless = b.add("", (8,))
    b.tensors[nameless] = replace(b.tensors[nameless], names=())
    rows = rows_of(b.sample())
    look(rows, False)
    assert rows.search(f"#{nameless}", rows.order[0], 1) == nameless
    assert rows.search("unnamed", rows.order[0], 1) == nameless
