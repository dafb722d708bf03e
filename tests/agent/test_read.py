"""Reading tensors of every sort: each attribute on its own, no code of the program, nothing changed, nothing held."""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensortui.agent import read
from tensortui.agent.census import Census
from tensortui.agent.coverage import NO_GRAD_FN, Coverage
from tensortui.agent.enumerate import Types
from tensortui.agent.nodes import Depths
from tensortui.agent.poolscan import PoolScanner
from tensortui.agent.read import TensorReader
from tensortui.agent.sparse import SparseSize
from tensortui.agent.storages import Size
from tensortui.wire.messages import TENSOR_FLAGS

touched: list[str] = []


class Spy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        touched.append(str(func))
        return super().__torch_function__(func, types, args, kwargs or {})


class Policy(torch.Tensor):
    """Answers sizes and strides by Python code of its own."""

    @staticmethod
    def __new__(cls) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (2, 2), dispatch_sizes_strides_policy="sizes")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        touched.append(str(func))
        raise RuntimeError("not to be called")


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(3)


def vmapped() -> torch.Tensor:
    seen: list[torch.Tensor] = []
    torch.func.vmap(lambda row: (seen.append(row), row)[1])(torch.zeros(2, 3))
    return seen[0]


def uninitialized() -> torch.Tensor:
    return torch.nn.parameter.UninitializedParameter()


def complex_zeros() -> torch.Tensor:
    return torch.zeros(3, dtype=torch.complex64)


SORTS: dict[str, tuple[Callable[[], torch.Tensor], dict[str, Any], set[str]]] = {
    "plain": (lambda: torch.zeros(2, 3)[1], {"shape": (3,), "strides": (1,), "offset": 3, "nbytes": 24}, {"view"}),
    "coo": (lambda: torch.eye(3).to_sparse(), {"layout": "sparse_coo", "bytes": 60, "storage_id": None}, {"sparse"}),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), {"layout": "sparse_csr", "strides": None}, {"sparse"}),
    "bsc": (lambda: torch.eye(4).to_sparse_bsc((2, 2)), {"layout": "sparse_bsc"}, {"sparse"}),
    "hybrid": (lambda: torch.ones(3, 4).to_sparse(1), {"shape": (3, 4), "bytes": 72}, {"sparse"}),
    "empty coo": (lambda: torch.zeros(3, 3).to_sparse(), {"shape": (3, 3), "bytes": 0}, {"sparse"}),
    "computed": (lambda: torch.ones(3, requires_grad=True) * 2, {"grad_fn": "MulBackward0", "is_leaf": False}, set()),
    "mkldnn": (lambda: torch.eye(3).to_mkldnn(), {"storage_id": None, "bytes": 36}, set()),
    "meta": (lambda: torch.zeros(3, device="meta"), {"address": 0, "device": "meta"}, {"meta"}),
    "uninitialized": (uninitialized, {"shape": None, "strides": None}, {"subclass"}),
    "inference": (inference, {"version": None, "shape": (3,)}, {"inference"}),
    "conj": (lambda: complex_zeros().conj(), {"shape": (3,)}, {"conj", "view"}),
    "neg": (lambda: complex_zeros().conj().imag, {"strides": (2,)}, {"neg", "view"}),
    "nested": (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), {"shape": None}, {"nested"}),
    "vmap": (vmapped, {"storage_id": None, "shape": (3,)}, set()),
    "spy": (lambda: torch.zeros(4).as_subclass(Spy), {"shape": (4,), "type": "Spy"}, {"subclass", "view"}),
    "policy": (Policy, {"shape": None, "dtype": "float32", "version": 0}, {"subclass"}),
}


@pytest.fixture(scope="module")
def reader() -> TensorReader:
    return TensorReader(torch, Size(torch).of)


@pytest.mark.parametrize("sort", SORTS)
def test_each_sort_is_read_as_far_as_it_goes(reader: TensorReader, sort: str) -> None:
    make, expected, flags = SORTS[sort]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = make()
    touched.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with reader.guard():
            facts = reader.read(tensor)
    facts.base = None
    assert {name: getattr(facts, name) for name in expected} == expected
    assert {name for place, name in enumerate(TENSOR_FLAGS) if facts.flags & 1 << place} == flags
    assert touched == []


SPARSE = {
    "coo": (lambda: torch.eye(300).to_sparse(), ("_indices", "_values")),
    "csr": (lambda: torch.eye(300).to_sparse_csr(), ("crow_indices", "col_indices", "values")),
    "csc": (lambda: torch.rand(30, 40).to_sparse_csc(), ("ccol_indices", "row_indices", "values")),
    "bsr": (lambda: torch.rand(30, 40).to_sparse_bsr((5, 8)), ("crow_indices", "col_indices", "values")),
}


@pytest.mark.parametrize("sort", SPARSE)
def test_a_sparse_tensor_keeps_the_storages_of_its_parts(reader: TensorReader, sort: str) -> None:
    make, parts = SPARSE[sort]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = make()
        kept = {one._cdata: one.nbytes() for one in (getattr(tensor, part)().untyped_storage() for part in parts)}
        with reader.guard():
            assert reader.read(tensor).bytes == sum(kept.values())


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def changed_in_place(leaf: torch.Tensor) -> torch.Tensor:
    made = leaf * 1
    made[0] = 5
    return made


MADE = {
    "MulBackward0": lambda leaf: leaf * 2,
    "SumBackward0": lambda leaf: leaf.sum(),
    "CopySlices": changed_in_place,
    "SliceBackward0": lambda leaf: (leaf * 1)[1:],
    "AddmmBackward0": lambda leaf: torch.addmm(torch.ones(1, 3), leaf[None], torch.ones(3, 3)),
    "TwiceBackward": Twice.apply,
}


@pytest.mark.parametrize("name", MADE)
def test_the_node_is_named_as_torch_does(reader: TensorReader, name: str) -> None:
    tensor = MADE[name](torch.ones(3, requires_grad=True))
    with reader.guard():
        facts = reader.read(tensor)
    facts.base = None
    assert facts.grad_fn == name == type(tensor.grad_fn).__name__


def test_a_node_that_is_named_gets_no_python_object(reader: TensorReader) -> None:
    tensor = torch.ones(3, requires_grad=True).exp()
    with reader.guard():
        reader.read(tensor)
    assert not [thing for thing in gc.get_objects() if type(thing).__name__ == "ExpBackward0"]


def test_reading_leaves_no_object_behind(reader: TensorReader) -> None:
    tensors = [torch.zeros(4) for _ in range(50)]
    with reader.guard():
        reader.read(tensors[0])
        gc.collect()
        before = len(gc.get_objects())
        for tensor in tensors:
            reader.read(tensor)
        assert len(gc.get_objects()) == before


def test_reading_does_not_materialise_a_lazy_clone(reader: TensorReader) -> None:
    original = torch.zeros(1000)
    clone = torch._lazy_clone(original)
    with reader.guard():
        facts = reader.read(clone)
    assert facts.address == torch._C._data_address(original)
    assert torch._C._is_cow_tensor(clone)


@pytest.mark.parametrize("sort", SORTS)
def test_reading_never_gives_up_the_interpreter_lock(reader: TensorReader, sort: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = SORTS[sort][0]()
    turns = [0]
    over = threading.Event()

    def take_turns() -> None:
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=take_turns)
    thread.start()
    interval = sys.getswitchinterval()
    try:
        with reader.guard():
            sys.setswitchinterval(100)
            time.sleep(0.001)  # whoever waits from now on waits long before asking
            before = turns[0]
            for _ in range(2000):
                reader.read(tensor)
            after = turns[0]
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert after == before


def test_the_size_of_a_storage_is_found_without_its_wrapper() -> None:
    size = Size(torch)
    assert size.exact
    tensor = torch.zeros(123, dtype=torch.int16)
    assert size.of(torch._C._storage_id(tensor), tensor) == 246
    tensor.untyped_storage().resize_(0)
    assert size.of(torch._C._storage_id(tensor), tensor) == 0


class Loud(str):
    """The name of a class, with code of its own."""

    def __str__(self) -> str:
        touched.append("__str__")
        return "x"

    __repr__ = __str__


def test_names_of_classes_run_no_code_and_are_made_safe(reader: TensorReader) -> None:
    class Named(torch.Tensor):
        pass

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    named = torch.zeros(1).as_subclass(Named)
    made = Doubled.apply(torch.ones(1, requires_grad=True))
    Named.__name__ = Loud("Named")
    type(made.grad_fn).__name__ = "Dou\x1b[2Jbled"
    other = Doubled.apply(torch.ones(1, requires_grad=True))
    touched.clear()
    with reader.guard():
        kinds = [reader.read(named).type, reader.read(made).grad_fn]
        type(other.grad_fn).__name__ = Loud("Doubled")
        kinds.append(reader.read(other).grad_fn)
    assert kinds == ["object", "Dou\\x1b[2Jbled", "object"]
    assert touched == []


def test_a_torch_empty_that_was_replaced_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", None)
    assert Size(torch).exact
    assert SparseSize(torch).usable


def test_a_coverage_without_grad_fn_says_so(monkeypatch: pytest.MonkeyPatch, reader: TensorReader) -> None:
    census = Census(time.monotonic)
    coverage = Coverage(census, PoolScanner(), 0.01, Types(torch, census))
    monkeypatch.setattr(read, "DEPTHS", Depths())
    monkeypatch.setattr("tensortui.agent.coverage.DEPTHS", read.DEPTHS)
    monkeypatch.setattr("tensortui.agent.nodes.DEEP", 0)
    tensor = Twice.apply(torch.ones(1, requires_grad=True))
    with reader.guard():
        assert reader.read(tensor).grad_fn == "TwiceBackward"  # a node of Python has an object anyway
    assert coverage.reasons() == []
    monkeypatch.setattr(reader.nodes, "usable", False)  # any node may be read for its name then
    with reader.guard():
        assert reader.read(tensor).grad_fn is None
    assert coverage.reasons() == [NO_GRAD_FN]
