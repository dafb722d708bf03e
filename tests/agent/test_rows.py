"""Rows: any history of births, changes and deaths arrives as it is, however the batches are cut, resets included."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensortui.agent import rows
from tensortui.agent.rows import CHUNK, MOST_ENTRIES, MOST_TEXT, Reader, Table
from tensortui.wire.frames import Decoder
from tensortui.wire.messages import NONE

STEP = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 12), st.text(max_size=3)),
    st.tuples(st.just("drop"), st.integers(1, 12), st.just("")),
    st.tuples(st.sampled_from(["batch", "compact"]), st.just(0), st.just("")),
)


def finish(work: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


class Viewer:
    """Applies what a connection would be sent."""

    def __init__(self, table: Table) -> None:
        self.reader = Reader(table)
        self.devices: list[Any] = []
        self.rows: dict[int, Any] = {}
        self.headers: list[dict[str, Any]] = []  # of the frames of the last batch

    def take(self) -> None:
        self.headers = []
        if self.reader.stale:
            self.reader.restart()
            self.devices.clear()
            self.rows.clear()
        batch = finish(self.reader.batch())
        while frame := batch.next_frame():
            ((header, payload),) = Decoder().feed(frame)
            self.headers.append(header)
            numbers = array("q", payload)
            if header["t"] == "gone":
                for number in numbers:
                    self.rows.pop(number, None)
                continue
            self.devices += header["values"].get("device", [])
            for number, device, *_ in struct.iter_unpack("<5q", payload):
                self.rows[number] = None if device == NONE else self.devices[device]


@given(st.lists(STEP, max_size=80), st.sampled_from([1, 3, MOST_ENTRIES]), st.sampled_from([1, 4, MOST_TEXT]))
def test_what_is_told_is_what_is(steps: list[tuple[str, int, str]], entries: int, text: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "MOST_ENTRIES", entries)
        patch.setattr(rows, "MOST_TEXT", text)
        tell(steps)


def tell(steps: list[tuple[str, int, str]]) -> None:
    """Take the steps, and compare what viewers hear with what is."""
    table = Table("storages")
    often, once = Viewer(table), Viewer(table)
    truth: dict[int, str] = {}
    for what, number, device in steps:
        if what == "put":
            truth[number] = device
            table.put((number, table.dictionary("device").index(device), 0, 0, 0))
        elif what == "drop":
            truth.pop(number, None)
            table.drop(number)
        elif what == "batch":
            often.take()
            assert often.rows == truth
        else:
            for _ in table.compact():
                pass
    for viewer in (often, once):
        viewer.take()
        assert viewer.rows == truth
    assert not finish(table.since(often.reader.serial))


def test_a_dictionary_far_larger_than_its_rows_is_started_anew() -> None:
    table = Table("storages")
    viewer = Viewer(table)
    words = table.dictionary("device")
    for number in range(10_100):
        table.put((1, words.index(f"device {number}"), 0, 0, 0))
    viewer.take()
    assert table.bloated()
    for _ in table.compact():
        pass
    assert not table.bloated()
    assert table.dictionary("device").entries == ["device 10099"]
    assert viewer.reader.stale
    viewer.take()
    assert viewer.rows == {1: "device 10099"}


def test_a_reader_whose_deaths_were_forgotten_starts_anew() -> None:
    table = Table("storages")
    viewer = Viewer(table)
    table.put((1, NONE, 0, 0, 0))
    viewer.take()
    table.drop(1)
    finish(table.forget_gone(table.serial))
    assert viewer.reader.stale


def test_however_many_rows_and_deaths_there_are_no_piece_deals_with_many() -> None:
    table = Table("storages")
    viewer, all_along = Viewer(table), Viewer(table)
    for number in range(5000):
        table.put((number, NONE, 0, 0, 0))
    assert sum(1 for _ in Reader(table).batch()) == 5000 // CHUNK
    all_along.take()
    for number in range(4000):
        table.drop(number)
    assert sum(1 for _ in all_along.reader.batch()) == 4000 // CHUNK
    assert sum(1 for _ in table.forget_gone(table.serial)) == 4000 // CHUNK
    viewer.take()
    assert sorted(viewer.rows) == list(range(4000, 5000))


@pytest.mark.parametrize("name", ["cache[%d]", "cache[%d]" + 300 * "y"], ids=["short", "long"])
def test_however_many_entries_have_come_and_gone_no_frame_carries_many(name: str) -> None:
    table = Table("storages")
    words = table.dictionary("device")
    for lap in range(10):
        for number in range(1000):
            table.put((number, words.index(name % (1000 * lap + number)), 0, 0, 0))
    late = Viewer(table)
    late.take()
    assert late.rows == {number: name % (9000 + number) for number in range(1000)}
    told = [header["values"].get("device", []) for header in late.headers]
    assert sum(map(len, told)) == 10_000
    assert max(map(len, told)) <= MOST_ENTRIES
    assert max(sum(map(len, entries)) for entries in told) < MOST_TEXT + 400
    assert max(header["n"] for header in late.headers) == CHUNK
    late.take()
    assert late.headers == []
