"""Gradients without a Python object: how they are read from memory, and the rows that they have."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import torch

from tensortui.agent.dense import Dense
from tensortui.agent.gradients import GradientPointers
from tensortui.agent.memory import Memory
from tensortui.agent.sampler import Sampler
from tensortui.wire.messages import GRADIENT, STORAGE_COLUMNS, TENSOR_COLUMNS

SMALL, LARGE = 1237, 1381  # elements: no other test has tensors of these sizes
Grad = Callable[[torch.Tensor], tuple[int, int]]
Make = Callable[[], torch.Tensor]


def finish(work: Generator[Any, None, Any]) -> None:
    for _ in work:
        pass


@pytest.fixture(scope="module", autouse=True)
def clean() -> Iterator[None]:
    """Leave no garbage to tests that count tensors."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def dense() -> Dense:
    found = Dense(torch)
    assert found.usable
    return found


@pytest.fixture(scope="module")
def places() -> Grad:
    pointers = GradientPointers(torch)
    assert pointers.usable

    def of(leaf: torch.Tensor) -> tuple[int, int]:
        own, inner, wrapped, _ = pointers.all_of([id(leaf)])[0]
        assert wrapped is None, "it has a Python object"
        return own, inner

    return of


def leaf_of(*shape: int, **options: Any) -> torch.Tensor:
    return torch.zeros(shape, **options).requires_grad_()


@pytest.mark.parametrize(
    "make",
    [
        lambda: leaf_of(3, 4),
        leaf_of,
        lambda: leaf_of(2, 1, 2, 1, 2, 3, 2),
        lambda: leaf_of(5, 3, dtype=torch.bfloat16),
        lambda: leaf_of(3, dtype=torch.complex128),
        lambda: leaf_of(0, 3),
        lambda: leaf_of(3, 3, device="meta"),
        lambda: torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_(),
        lambda: torch.zeros(4, 3).t().requires_grad_(),
    ],
)
def test_what_is_read_is_what_torch_says(dense: Dense, places: Grad, make: Make) -> None:
    leaf = make()
    (leaf * 2).real.sum().backward()
    own, seen = dense.look(list(places(leaf)))
    facts = dense.facts(seen)
    fits = dense.fits(facts, str(leaf.dtype).removeprefix("torch."))
    assert dense.alike(own, seen)
    gradient = leaf.grad
    assert gradient is not None
    assert (facts.shape, facts.strides, facts.offset) == (
        tuple(gradient.shape), gradient.stride(), gradient.storage_offset(),
    )  # fmt: skip
    assert (facts.storage_id, facts.address, facts.nbytes) == (
        torch._C._storage_id(gradient),  # type: ignore[attr-defined]
        torch._C._data_address(gradient),  # type: ignore[attr-defined]
        gradient.untyped_storage().nbytes(),
    )
    assert fits


@pytest.mark.parametrize(
    "make",
    [
        lambda: leaf_of(4, 3),
        lambda: leaf_of(3, 4, 1),
        lambda: leaf_of(3, 4, dtype=torch.float64),
        lambda: leaf_of(3, 4, device="meta"),
        lambda: torch.zeros(3, 4).to_sparse().requires_grad_(),
    ],
)
def test_what_is_not_like_its_owner_is_not_told(dense: Dense, places: Grad, make: Make) -> None:
    """As when an object has come to the address of a gradient that was freed meanwhile."""
    leaf = leaf_of(3, 4)
    (leaf * 2).sum().backward()
    own, inner = places(leaf)
    other = make()
    (of_other,) = (one for one, *_ in GradientPointers(torch).all_of([id(other)]))
    unreadable = 1 << 40
    seen, *others = dense.look([own, inner, of_other, unreadable, 0])
    assert [dense.alike(one, seen) for one in others] == [True, False, False, False]


def test_what_is_of_another_class_is_not_told(dense: Dense, places: Grad) -> None:
    leaf = leaf_of(3, 4)
    (leaf * 2).sum().backward()
    _, inner = places(leaf)
    copy = array("Q", Memory().words(inner, 40))
    address, _ = copy.buffer_info()
    assert dense.look([address]) == dense.look([inner])
    copy[0] += 8
    assert dense.look([address]) == [b""]


class Watched:
    """A sampler, and what its tables say after each sample."""

    def __init__(self) -> None:
        gc.collect()
        self.sampler = Sampler(torch, 1.0, time.perf_counter)
        finish(self.sampler.start())
        finish(self.sampler.readings.read_all())
        finish(self.sampler.run_names())
        self.sample()

    def sample(self) -> None:
        finish(self.sampler.drain())
        finish(self.sampler.run_direct())
        finish(self.sampler.readings.read_fresh())

    def gradients(self) -> list[dict[str, int]]:
        """The rows of those of our sizes: other tests may have left gradients."""
        table = self.sampler.readings.tensors
        names, shapes = [name for name, _ in TENSOR_COLUMNS], table.dictionary("shape").entries
        rows = [dict(zip(names, memoryview(row).cast("q").tolist(), strict=True)) for row in table.rows.values()]
        ours = [row for row in rows if row["shape"] >= 0 and shapes[row["shape"]] in ((SMALL,), (LARGE,))]
        return [row for row in ours if row["category"] == GRADIENT]

    def bytes_of(self, storage: int) -> int:
        row = memoryview(self.sampler.readings.storage_table.rows[storage]).cast("q").tolist()
        return int(row[[name for name, _ in STORAGE_COLUMNS].index("bytes")])

    def shown(self, *leaves: torch.Tensor) -> list[int | None]:
        """The numbers of the rows that the gradients of leaves have without a Python object."""
        found = [self.sampler.census.find(leaf) for leaf in leaves]
        shown = [self.sampler.readings.unwrapped.by_leaf.get(leaf.id) for leaf in found if leaf is not None]
        assert len(shown) == len(leaves)
        return [None if one is None else one.id for one in shown]


def bucket(first: torch.Tensor, second: torch.Tensor, seen: list[torch.Tensor]) -> None:
    """Give both a gradient that is a view of one flat tensor, which goes to `seen`."""
    flat = torch.cat([first, second])
    flat.register_hook(seen.append)
    (flat * torch.ones(len(flat))).sum().backward()


def test_gradients_on_one_storage_share_it_also_with_what_python_holds() -> None:
    first, second = leaf_of(SMALL), leaf_of(LARGE)
    seen: list[torch.Tensor] = []
    bucket(first, second, seen)
    watched = Watched()
    rows = watched.gradients()
    flat = watched.sampler.census.find(seen[0])
    assert flat is not None
    assert [row["storage"] for row in rows] == [flat.storage] * 2
    assert sorted(row["offset"] for row in rows) == [0, SMALL]
    assert watched.bytes_of(rows[0]["storage"]) == 4 * (SMALL + LARGE)
    assert watched.sampler.census.unseen_gradients[0] == 0


def test_a_storage_that_is_too_small_is_left_to_the_coverage() -> None:
    first, second = leaf_of(SMALL), leaf_of(LARGE)
    seen: list[torch.Tensor] = []
    bucket(first, second, seen)
    seen[0].untyped_storage().resize_(4 * SMALL)
    watched = Watched()
    assert [row["offset"] for row in watched.gradients()] == [0]
    assert watched.sampler.census.unseen_gradients == (1, 4 * SMALL)
    assert any(f"not listed: 1, {4 * SMALL} bytes" in one for one in watched.sampler.reasons())


def test_a_row_lasts_as_long_as_its_gradient_and_numbers_are_never_given_again() -> None:
    first, second = leaf_of(SMALL), leaf_of(LARGE)
    (first.sum() + second.sum()).backward()
    watched = Watched()
    before = watched.shown(first, second)
    assert sorted(row["id"] for row in watched.gradients()) == sorted(one for one in before if one is not None)
    assert len(watched.gradients()) == 2
    (first.sum() + second.sum()).backward()
    watched.sample()
    assert watched.shown(first, second) == before
    first.grad = None
    watched.sample()
    assert watched.shown(first, second) == [None, before[1]]
    assert [row["id"] for row in watched.gradients()] == before[1:]
    kept = second.grad
    watched.sample()
    finish(watched.sampler.run_names())
    held = watched.sampler.census.find(kept)
    assert held is not None
    assert held.id > max(one for one in before if one is not None)
    assert [row["id"] for row in watched.gradients()] == [held.id]
    assert watched.shown(first, second) == [None, None]
    first.sum().backward()
    watched.sample()
    assert watched.shown(first)[0] not in (None, *before, held.id)
    del first, second, kept
    gc.collect()
    watched.sample()
    assert watched.gradients() == []


def test_what_has_just_got_a_python_object_keeps_its_row_until_that_is_known() -> None:
    leaf = leaf_of(SMALL)
    leaf.sum().backward()
    watched = Watched()
    (row,) = watched.gradients()
    kept = leaf.grad
    finish(watched.sampler.run_direct())  # nothing was looked for since
    assert watched.gradients() == [row]
    watched.sample()
    assert [one["id"] for one in watched.gradients()] != [row["id"]]
    del kept


def test_a_pass_over_everything_changes_no_row_of_theirs() -> None:
    """It may run while the rows are taken for a viewer, and none may change."""
    leaf = leaf_of(SMALL)
    watched = Watched()
    leaf.sum().backward()
    before = watched.sampler.readings.tensors.serial
    finish(watched.sampler.run_names())
    assert watched.sampler.readings.tensors.serial == before
    watched.sample()
    assert len(watched.gradients()) == 1


def test_what_has_not_changed_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [leaf_of(SMALL) for _ in range(100)]
    sum(leaf.sum() for leaf in leaves).backward()  # type: ignore[union-attr]
    watched = Watched()
    decoded: list[bytes] = []
    of_memory = Dense.facts
    monkeypatch.setattr(Dense, "facts", lambda self, seen: decoded.append(seen) or of_memory(self, seen))
    watched.sample()
    assert len(watched.gradients()) == 100
    assert decoded == []


def test_nothing_asks_torch_for_what_memory_tells() -> None:
    leaf = leaf_of(SMALL)
    leaf.sum().backward()
    watched = Watched()
    for _ in range(3):
        for said in watched.sampler.run_names():
            time.sleep(said if isinstance(said, float) else 0)
    assert GradientPointers(torch).of([id(leaf)]) == [None]


def test_rows_come_and_go_in_pieces() -> None:
    leaves = [leaf_of(SMALL) for _ in range(200)]
    watched = Watched()
    table = watched.sampler.readings.tensors
    for change in (1, -1):
        if change > 0:
            torch.stack([leaf.sum() for leaf in leaves]).sum().backward()
        else:
            for leaf in leaves:
                leaf.grad = None
        most, before, rows = 0, table.serial, len(table.rows)
        for _ in watched.sampler.run_direct():
            most, before = max(most, table.serial - before), table.serial
        assert len(table.rows) - rows == change * len(leaves)
        assert most <= 10


def test_another_gradient_of_the_same_leaf_has_a_row_of_its_own(places: Grad) -> None:
    leaf, fill = leaf_of(SMALL), []
    leaf.sum().backward()
    watched = Watched()
    (row,) = watched.gradients()
    _, before = places(leaf)
    while places(leaf)[1] == before:
        leaf.grad = None
        fill.append(torch.zeros(1))
        leaf.sum().backward()
    watched.sample()
    (later,) = watched.gradients()
    assert later["id"] > row["id"]
    assert later["category"] == GRADIENT


def test_what_is_not_like_its_leaf_gets_no_row(places: Grad) -> None:
    leaf, other = leaf_of(SMALL), leaf_of(LARGE)
    (leaf.sum() + other.sum()).backward()
    watched = Watched()
    tracked = watched.sampler.census.find(leaf)
    assert tracked is not None
    own, inner = places(leaf)
    look = watched.sampler.readings.unwrapped.look
    assert look([(tracked, own, places(other)[1])]) == [b""]
    assert look([(tracked, own, inner)]) != [b""]
