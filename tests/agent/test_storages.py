"""Storages: what backs them, and how large a block is that several tensors were put over."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

from tensortui.agent import storages
from tensortui.agent.read import TensorReader
from tensortui.agent.rows import Table, cell
from tensortui.agent.storages import Block, Size, Storages
from tensortui.wire.messages import BACKINGS, STORAGE_COLUMNS

PLACES = [name for name, _ in STORAGE_COLUMNS]


class Shelf:
    """Storages, and what each of some tensors was said to use when it was read last."""

    def __init__(self) -> None:
        self.table = Table("storages")
        self.storages = Storages(self.table)
        self.reader = TensorReader(torch, Size(torch).of)
        self.used: dict[int, int | None] = {}
        self.settle()

    def settle(self) -> None:
        for _ in self.storages.settle():
            pass

    def read(self, number: int, tensor: torch.Tensor) -> int:
        """Read a tensor, which is told from others by `number`; returns the bytes of its storage."""
        with self.reader.guard():
            facts = self.reader.read(tensor)
        facts.base = None
        self.used[number] = self.storages.use(number, facts, self.used.get(number))
        return self.now(number, "bytes")

    def leave(self, number: int) -> None:
        self.storages.leave(number, self.used.pop(number))

    def now(self, number: int, column: str) -> int:
        """The cell of the storage that a tensor uses."""
        storage = self.used[number]
        assert storage is not None
        return cell(self.table.rows[storage], PLACES.index(column))


def test_what_backs_a_storage_is_final_only_by_a_map_read_after_it_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    shared, plain = torch.zeros(1000).share_memory_(), torch.zeros(1000)
    for number, tensor in enumerate((shared, plain)):
        shelf.read(number, tensor)
    shelf.settle()  # too soon for another look at the map
    monkeypatch.setattr(storages, "MAPS_EVERY", 0.0)
    shelf.settle()
    assert [BACKINGS[shelf.now(number, "backing")] for number in (0, 1)] == ["shared", "memory"]
    shelf.read(0, shared)
    assert BACKINGS[shelf.now(0, "backing")] == "shared"


def test_a_storage_that_is_gone_has_no_size() -> None:
    assert Size(torch).of(1 << 20, None) is None


def test_the_map_is_not_read_where_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storages, "MAPS_EVERY", 0.0)
    shelf = Shelf()
    tensor = torch.zeros(3)
    shelf.read(1, tensor)
    shelf.settle()

    def fail(take: Any) -> Any:
        raise AssertionError("read again")

    monkeypatch.setattr(storages, "read_mappings", fail)
    shelf.read(1, tensor)
    shelf.settle()


def test_a_block_is_as_large_as_the_largest_tensor_put_over_it() -> None:
    shelf = Shelf()
    array = np.zeros(1000, dtype=np.float32)
    whole, head, other = (torch.from_numpy(array[:size]) for size in (1000, 10, 100))
    view = whole[:5]
    assert [shelf.read(*one) for one in ((1, whole), (2, head), (3, view), (4, other))] == [4000] * 4
    assert len(set(shelf.used.values())) == len(shelf.table.rows) == 1
    shelf.leave(1)
    assert shelf.now(2, "bytes") == 4000  # by the view
    shelf.leave(3)
    assert shelf.now(2, "bytes") == 400
    assert [shelf.read(2, head), shelf.read(4, other)] == [400, 400]
    shelf.leave(4)
    assert shelf.now(2, "bytes") == 40
    assert shelf.read(2, head) == 40
    shelf.leave(2)
    assert shelf.table.rows == {}


def test_the_smaller_first_makes_no_difference() -> None:
    shelf = Shelf()
    array = np.zeros(1000, dtype=np.float32)
    head, whole = torch.from_numpy(array[:10]), torch.from_numpy(array)
    assert [shelf.read(1, head), shelf.read(2, whole), shelf.read(1, head)] == [40, 4000, 4000]
    shelf.leave(2)
    assert shelf.now(1, "bytes") == 40


def test_a_storage_that_shrinks_is_seen_to() -> None:
    shelf = Shelf()
    tensor = torch.zeros(1000)
    sizes = [shelf.read(1, tensor)]
    for size in (400, 0):
        tensor.untyped_storage().resize_(size)
        sizes.append(shelf.read(1, tensor))
    assert sizes == [4000, 400, 0]
    block = Block(111, 1, 40)
    for size in (4000, 10):
        block.read(2, 222, size, size == 4000)
        assert block.size == max(size, 40)


def test_a_tensor_moved_to_another_storage_of_the_same_address_takes_its_size_along() -> None:
    shelf = Shelf()
    array = np.zeros(1000, dtype=np.float32)
    tensor, kept = torch.from_numpy(array), torch.from_numpy(array)
    assert [shelf.read(1, tensor), shelf.read(2, kept)] == [4000, 4000]
    tensor.set_(torch.from_numpy(array[:10]).untyped_storage())
    assert shelf.read(1, tensor) == 4000
    shelf.leave(2)
    assert shelf.now(1, "bytes") == 40


def test_what_is_kept_of_a_storage_is_no_matter_for_the_collector() -> None:
    shelf = Shelf()
    tensors = [torch.zeros(2) for _ in range(300)]
    gc.collect()
    before = len(gc.get_objects())
    for number, tensor in enumerate(tensors):
        shelf.read(number, tensor)
    assert len(gc.get_objects()) - before < 20
