"""Tensors that torch exchanges in place: a weak reference of ours on one would make the program fail."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tensortui.agent.sampler import Sampler
from tensortui.wire.messages import CATEGORIES

CLASSES = "are not listed themselves"


def finish(work: Any) -> None:
    for _ in work:
        pass


def drain(sampler: Sampler) -> None:
    """What every sample does, and the types at once."""
    finish(sampler.types.refresh())
    finish(sampler.drain())


def told(sampler: Sampler, tensor: torch.Tensor) -> tuple[list[str], str]:
    tracked = sampler.census.find(tensor)
    assert tracked is not None
    return tracked.names.split("\0"), CATEGORIES[tracked.found]


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    one = Sampler(torch, 1.0, time.perf_counter)
    yield one


@pytest.fixture(params=["", "as if pools could not be read"])
def attached(sampler: Sampler, request: pytest.FixtureRequest) -> Sampler:
    sampler.scanner.reason = request.param
    return sampler


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Any]:
    device_mesh = pytest.importorskip("torch.distributed.device_mesh")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        yield device_mesh.init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


@pytest.fixture
def swapping() -> Iterator[Any]:
    yield torch.__future__.set_swap_module_params_on_conversion
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.fixture
def program(module: Any) -> Any:
    return module


def sharded(mesh: Any, device: str = "meta") -> Any:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    with torch.device(device):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    fsdp.fully_shard(model, mesh=mesh)
    return model


def test_sharded_parameters_can_be_moved_while_attached_and_after(attached: Sampler, mesh: Any) -> None:
    model = sharded(mesh)
    finish(attached.start())
    finish(attached.readings.read_all())
    finish(attached.run_names())
    model.to_empty(device="cpu")
    gc.collect()
    drain(attached)
    finish(attached.run_names())
    model.double()
    later = sharded(mesh)
    gc.collect()
    drain(attached)
    later.to_empty(device="cpu")
    model.float()


def test_what_a_wrapper_consists_of_has_its_name_and_role(sampler: Sampler, mesh: Any, program: Any) -> None:
    tensor = pytest.importorskip("torch.distributed.tensor")
    model = torch.nn.Linear(4, 4, bias=False)
    model.register_buffer("table", tensor.distribute_tensor(torch.ones(4), mesh))
    model.weight = torch.nn.Parameter(tensor.distribute_tensor(model.weight.detach(), mesh))
    model.weight.grad = tensor.distribute_tensor(torch.ones(4, 4), mesh)
    lost = torch.nn.Parameter(tensor.distribute_tensor(torch.ones(2, 2), mesh))
    program.optimizer = torch.optim.Adam([model.weight, lost], lr=0.1, foreach=False)
    program.optimizer.step()
    program.model = model
    hidden = weakref.ref(lost._local_tensor)
    state = program.optimizer.state[model.weight]["exp_avg"]
    del lost
    finish(sampler.start())
    finish(sampler.run_names())
    assert sampler.census.track(model.weight) is None
    assert told(sampler, model.weight._local_tensor) == (["program.model.weight._local_tensor"], "parameter")
    assert told(sampler, model.table._local_tensor) == (["program.model.table._local_tensor"], "buffer")
    assert told(sampler, model.weight.grad._local_tensor) == (["program.model.weight.grad._local_tensor"], "gradient")
    assert told(sampler, state._local_tensor) == (["exp_avg._local_tensor of program.model.weight"], "optimizer")
    part = hidden()
    assert part is not None
    assert told(sampler, part) == (["Adam.param_groups[0]['params'][1]._local_tensor"], "parameter")
    assert any("(DTensor) " + CLASSES in reason for reason in sampler.reasons())


def test_jagged_tensors_are_told_by_their_parts(sampler: Sampler, program: Any) -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    program.ragged = ragged
    finish(sampler.start())
    finish(sampler.run_names())
    assert weakref.getweakrefs(ragged) == []
    assert told(sampler, ragged._values)[0] == ["program.ragged._values"]


def test_a_program_that_never_wraps_hears_nothing_of_it(sampler: Sampler, program: Any) -> None:
    gc.collect()
    program.model = torch.nn.Linear(2, 2)
    finish(sampler.start())
    finish(sampler.run_names())
    assert not any(CLASSES in reason or "swap_module" in reason for reason in sampler.reasons())


def test_the_row_of_a_gradient_without_an_object_stops_no_exchange(
    sampler: Sampler, swapping: Any, program: Any
) -> None:
    """As long as no viewer asks for samples the rows stay as they are."""
    program.model = model = torch.nn.Linear(3, 3)
    model(torch.ones(2, 3)).sum().backward()
    finish(sampler.start())
    finish(sampler.readings.read_all())
    finish(sampler.run_names())
    finish(sampler.run_direct())
    assert sampler.readings.unwrapped.by_leaf
    swapping(True)
    drain(sampler)
    assert weakref.getweakrefcount(model.weight) == 0
    model.double()


@pytest.mark.parametrize("before", [True, False])
def test_whoever_asks_for_exchanges_gets_them(attached: Sampler, swapping: Any, before: bool, program: Any) -> None:
    program.model = model = torch.nn.BatchNorm1d(3)
    model(torch.ones(2, 3)).sum().backward()
    swapping(before)
    finish(attached.start())
    finish(attached.readings.read_all())
    finish(attached.run_names())
    swapping(True)
    assert attached.types.stale is not before
    drain(attached)
    gc.collect()
    drain(attached)
    finish(attached.run_names())
    model.load_state_dict(torch.nn.BatchNorm1d(3).state_dict())  # exchanges the buffers as well
    model.double()  # and the gradients
    assert any("set_swap_module_params_on_conversion" in reason for reason in attached.reasons())
    assert not attached.census.by_id
    assert not attached.readings.tensors.rows
    swapping(False)
    assert attached.types.stale
    drain(attached)
    attached.coverage._not_before = 0.0
    finish(attached.audit())
    finish(attached.readings.read_fresh())
    finish(attached.run_names())
    assert told(attached, model.weight)[0] == ["program.model.weight"]
    assert not any("set_swap_module" in reason for reason in attached.reasons())
