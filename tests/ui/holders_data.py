"""Fixed chains of holders and the tensor that they are of, and a source that gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ui_data import Build, Played

from tensortui.errors import TensortuiError
from tensortui.model import Ended, Holders, HolderStep, Sample


def chain(*steps: str) -> tuple[HolderStep, ...]:
    """Steps as "kind label"."""
    return tuple(HolderStep(*step.split(" ", 1)) for step in steps)


LOGS = ("attribute .logs", "key ['val_logits']", "index [3]")
CHAINS = (
    chain("global trainer", *LOGS),
    chain(
        "local history @ evaluate() eval.py:88 [evaluator]",
        "index [12]",
        "graph saved as self by LogSoftmaxBackward0",
    ),
    chain("local self @ fit() train.py:42", "attribute .trainer", *LOGS),
    chain("global sys.last_traceback", "traceback of ValueError", "frame logits in step() train.py:52"),
    chain("global score", "closure best of make_scorer.<locals>.score()", "attribute .tensor"),
    chain("unreachable nothing leads there", "object Report", "attribute .logits"),
)


def leak(*chains: tuple[HolderStep, ...], reasons: tuple[str, ...] = ()) -> tuple[Sample, Holders, int]:
    """A run that keeps what it validated with."""
    b = Build()
    b.add("model.head.weight", (4000, 512), category="parameter", version=12)
    logits = 0
    for step in range(5):
        name = f"trainer.logs['val_logits'][{step}]"
        tid = b.add(name, (4096, 4000), category="activation", grad_fn="AddmmBackward0")
        logits = tid if step == 3 else logits
    return b.sample(), Holders(logits, chains or CHAINS, reasons, not reasons), logits


def renewed(sample: Sample, tid: int) -> Sample:
    """The next sample, in which another tensor goes by the name of this one."""
    old = sample.tensors[tid]
    tensors = {**sample.tensors, tid + 100: replace(old, id=tid + 100)}
    del tensors[tid]
    return replace(sample, seq=sample.seq + 1, tensors=tensors)


class WithHolders(Played):
    """A source that gives `answer` once it may, or fails; it remembers what was asked, told and given up."""

    def __init__(self, *updates: Sample | Ended, answer: Holders | Exception) -> None:
        super().__init__(*updates)
        self.answer = answer
        self.may = asyncio.Event()
        self.may.set()
        self.asked: list[tuple[int, int]] = []
        self.given_up = 0
        self.progress: Callable[[str], None] | None = None

    async def holders(
        self, tensor_id: int, *, limit: int = 8, progress: Callable[[str], None] | None = None
    ) -> Holders:
        self.asked.append((tensor_id, limit))
        self.progress = progress
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return replace(self.answer, tensor=tensor_id, chains=self.answer.chains[:limit])


GONE = TensortuiError("Tensor 5 is gone.", "Look for another one.")
