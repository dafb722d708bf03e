"""Fixed samples, and a source that plays them: what the screens are tested and pictured with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tensortui.attach.processes import ProcessInfo
from tensortui.model import Change, Cost, Ended, Graph, Process, Sample, Storage, Tensor
from tensortui.model.strided import byte_count, layout

NOW = 1_767_000_000.0  # 2025-12-29 09:20:00 UTC
MIB = 1 << 20
PROCESS = Process(
    pid=41234,
    command=("/usr/bin/python3", "-u", "train.py", "--epochs", "3"),
    python="3.11.9",
    torch="2.13.0",
    cuda="13.0",
    rank=0,
    local_rank=0,
    world_size=8,
)


def tensor(  # what a source would decode from one row
    tid: int,
    storage: int | None,
    names: Sequence[str],
    shape: tuple[int, ...],
    dtype: str = "float32",
    device: str = "cuda:0",
    category: str = "other",
    *,
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    version: int | None = 0,
    grad_fn: str | None = None,
    flags: tuple[str, ...] = (),
    python: bool = True,
    type: str = "Tensor",
) -> Tensor:
    if strides is None:
        steps, step = [], 1
        for size in reversed(shape):
            steps.append(step)
            step *= size
        strides = tuple(reversed(steps))
    facts = layout(shape, strides, dtype)
    return Tensor(
        tid, storage, tuple(names), type, shape, strides, offset, dtype, device, "strided",
        facts.bytes, facts.distinct_bytes, facts.contiguous, facts.memory_format, flags + facts.flags,
        category in ("parameter", "activation"), grad_fn is None, version, grad_fn, category, python,
    )  # fmt: skip


class Build:
    """Collects tensors, giving each a storage of its own size unless it is told one."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.storages: dict[int, Storage] = {}

    def storage(self, size: int, device: str = "cuda:0", backing: str = "memory") -> int:
        sid = len(self.storages) + 1
        address = None if backing == "none" else 0x7F20_0000_0000 + sid * (1 << 28)
        self.storages[sid] = Storage(sid, device, address, size, backing)
        return sid

    def add(
        self,
        names: str | Sequence[str],
        shape: tuple[int, ...],
        dtype: str = "float32",
        device: str = "cuda:0",
        category: str = "other",
        *,
        storage: int | None = None,
        **more: object,
    ) -> int:
        tid = len(self.tensors) + 1
        if storage is None:
            storage = self.storage(byte_count(shape, dtype) or 0, device)
        names = (names,) if isinstance(names, str) else tuple(names)
        self.tensors[tid] = tensor(tid, storage, names, shape, dtype, device, category, **more)  # type: ignore[arg-type]
        return tid

    def sample(self, seq: int = 1, at: float = NOW, **more: object) -> Sample:
        change = Change(new=frozenset(self.tensors), storages=frozenset(self.storages))
        return Sample(
            seq, at, PROCESS, storages=MappingProxyType(dict(self.storages)),
            tensors=MappingProxyType(dict(self.tensors)),
            cost=Cost(0.003, 0.01, 0.0006), **{"change": change, **more},  # type: ignore[arg-type]
        )  # fmt: skip


def training() -> Sample:
    """A small transformer in training on one GPU, with a tied head, a batch, saved tensors and a hoarded view."""
    b = Build()
    tied = b.storage(50304 * 1024 * 2)
    b.add(
        ["model.embed.weight", "model.head.weight"],
        (50304, 1024),
        "bfloat16",
        category="parameter",
        storage=tied,
        version=12,
    )
    fused = b.storage(3 * 1024 * 1024 * 2)
    b.add(
        "model.layers.0.attn.in_proj_weight", (3072, 1024), "bfloat16", category="parameter", storage=fused, version=12
    )
    for at, name in enumerate("qkv"):
        b.add(
            f"{name} @ forward() attention.py:88",
            (1024, 1024),
            "bfloat16",
            category="activation",
            storage=fused,
            offset=at * 1024 * 1024,
            version=12,
            flags=("view",),
            grad_fn="SplitBackward0",
        )
    for layer in range(4):
        for name, shape in (
            ("attn.out_proj.weight", (1024, 1024)),
            ("mlp.up.weight", (4096, 1024)),
            ("mlp.down.weight", (1024, 4096)),
            ("norm.weight", (1024,)),
            ("norm.bias", (1024,)),
        ):
            path = f"model.layers.{layer}.{name}"
            b.add(path, shape, "bfloat16", category="parameter", version=12)
            b.add(f"{path}.grad", shape, "bfloat16", category="gradient", version=3)
            b.add(f"exp_avg of {path}", shape, category="optimizer", version=12)
            b.add(f"exp_avg_sq of {path}", shape, category="optimizer", version=12)
        b.add(f"model.layers.{layer}.norm.running_mean", (1024,), category="buffer", version=144)
        b.add((), (16, 512, 1024), "bfloat16", category="saved", python=False, grad_fn="GeluBackward0")
    b.add("x @ step() train.py:41", (16, 512), "int64", category="input")
    b.add(
        "mask @ step() train.py:43",
        (16, 512, 512),
        "bool",
        category="input",
        strides=(512, 1, 0),
        storage=b.storage(16 * 512, "cuda:0"),
    )
    logits = b.storage(16 * 512 * 4096 * 2)
    b.add(
        "logits @ step() train.py:52",
        (8192, 4096),
        "bfloat16",
        category="activation",
        storage=logits,
        grad_fn="MmBackward0",
    )
    b.add(
        "logits.t() @ step() train.py:53",
        (4096, 8192),
        "bfloat16",
        category="activation",
        storage=logits,
        strides=(1, 4096),
        flags=("view",),
        grad_fn="TBackward0",
    )
    hoard = b.storage(64 * MIB, "cpu")
    b.add("row @ step() train.py:47", (4096,), device="cpu", storage=hoard, offset=20480, flags=("view",))
    b.add("dataset.images", (60000, 28, 28), "uint8", "cpu", storage=b.storage(60000 * 784, "cpu", "file"))
    b.add("loader.queue[0]", (256, 784), device="cpu", storage=b.storage(256 * 784 * 4, "cpu", "shared"))
    b.add("shadow.weight", (1024, 1024), device="meta", storage=b.storage(4 * MIB, "meta", "none"))
    return b.sample()


HOSTILE = (
    "[bold red]x[/]",
    "[/]",
    "logs['[cuda:0]']",
    "esc\x1b[2Jape",
    "new\nline",
    "\u202eevil",
    "lone \ud800 surrogate",
    "日本語テンソル",
    "$(rm -rf) ${x} $cat-parameter",
    "x" * 300,
)


def hostile() -> Sample:
    """Names that try to be markup, to move the cursor, to turn the line round."""
    b = Build()
    for name in HOSTILE:
        b.add(name, (64, 64), category="parameter")
    return b.sample()


def many(count: int, per_storage: int = 1) -> Sample:
    """`count` tensors, `per_storage` on each storage."""
    b = Build()
    sid = 0
    for at in range(count):
        if at % per_storage == 0:
            sid = b.storage((at % 4096 + 1) * 1024 * per_storage)
        b.add(
            f"model.layers.{at // 12}.block.{at % 12}.weight",
            (at % 4096 + 1, 256),
            category=("parameter", "gradient", "optimizer")[at % 3],
            storage=sid,
            offset=(at % per_storage) * (at % 4096 + 1) * 256,
        )
    return b.sample()


def after(
    before: Sample,
    *,
    new: Iterable[Tensor] = (),
    gone: Iterable[int] = (),
    changed: Iterable[Tensor] = (),
    storages: Iterable[Storage] = (),
    seconds: float = 1.0,
) -> Sample:
    """The next sample, as a source says it: the tables and what changed in them."""
    new, gone, changed, storages = list(new), list(gone), list(changed), list(storages)
    tensors = dict(before.tensors)
    held = dict(before.storages)
    touched = {before.tensors[tid].storage for tid in gone} | {s.id for s in storages}
    for tid in gone:
        del tensors[tid]
    for entry in (*new, *changed):
        tensors[entry.id] = entry
    for storage in storages:
        held[storage.id] = storage
    left = {entry.storage for entry in tensors.values()}
    for sid in [sid for sid in touched if sid not in left]:
        held.pop(sid or 0, None)
    change = Change(
        frozenset(t.id for t in new), frozenset(t.id for t in changed), frozenset(gone),
        frozenset(sid for sid in touched if sid is not None), before.seq,
    )  # fmt: skip
    return replace(
        before,
        seq=before.seq + 1,
        taken_at=before.taken_at + seconds,
        tensors=MappingProxyType(tensors),
        storages=MappingProxyType(held),
        change=change,
        phase="live",
        progress=None,
    )


class Played:
    """A source that gives the samples put into it, and remembers what was asked of it."""

    def __init__(self, *updates: Sample | Ended) -> None:
        self.title = "train.py (pid 41234)"
        self.missing: dict[str, str] = {}
        self.queue: asyncio.Queue[Sample | Ended] = asyncio.Queue()
        for update in updates:
            self.queue.put_nowait(update)
        self.intervals: list[float | None] = []
        self.watched: list[frozenset[int]] = []
        self.closed = self.detached = False
        self.why_held, self.leaves = "", True

    async def updates(self) -> AsyncIterator[Sample | Ended]:
        while True:
            update = await self.queue.get()
            yield update
            if isinstance(update, Ended):
                return

    async def set_interval(self, seconds: float | None) -> None:
        self.intervals.append(seconds)

    async def watch(self, tensor_ids: Iterable[int]) -> None:
        self.watched.append(frozenset(tensor_ids))

    async def refresh(self) -> Sample:
        raise NotImplementedError

    async def graph(self, roots: Iterable[int] | None = None) -> Graph:
        return Graph()

    def held(self) -> str:
        return self.why_held

    async def close(self) -> None:
        self.closed = True

    async def detach(self, *, if_alone: bool = False) -> bool:
        self.detached = True
        return self.leaves


def processes() -> list[ProcessInfo]:
    """Processes of every kind that the picker tells apart."""

    def one(pid: int, command: str, age: float, **more: Any) -> ProcessInfo:
        facts: dict[str, Any] = {
            "threads": 12, "user": "ada", "python": (3, 11), "torch": True, "rank": None, "local_rank": None,
            "world_size": None, "attachable": True, "why_not": "", "agent": False,
        }  # fmt: skip
        return ProcessInfo(pid=pid, command=command, age=age, **{**facts, **more})

    other = "Process 40112 belongs to another user (root)."
    return [
        one(41234, "python train.py --epochs 3", 185, rank=0, world_size=8, gpu_memory=65_713_000_000),
        one(41235, "python train.py --epochs 3", 185, rank=1, world_size=8, gpu_memory=65_001_000_000, agent=True),
        one(
            40112,
            "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model big",
            90_000,
            threads=212,
            attachable=False,
            why_not=other,
        ),
        one(39871, "python -m ipykernel_launcher -f kernel.json", 7_300, threads=None, torch=None),
        one(38000, "python -m http.server", 700, torch=False, threads=1),
        one(41301, "/usr/bin/python train.py --epochs 3", 180, threads=1, role="DataLoader worker", parent=41234),
        one(37001, "python [/] \x1b[2J.py", 12),
    ]
