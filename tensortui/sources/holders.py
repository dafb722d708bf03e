"""What the agent says of a tensor's holders, read loosely and within bounds."""

from __future__ import annotations

from typing import Any

from tensortui.model import HOLDER_KINDS, Holders, HolderStep
from tensortui.sources.tables import clean_text, integer
from tensortui.wire.frames import Header
from tensortui.wire.messages import CHAINS_LIMIT

MAX_STEPS = 64
MAX_REASONS = 64


def decode(header: Header) -> Holders:
    """The answer of a `holders` message. What its bounds leave out makes it incomplete, and is said."""
    chains, reasons = header.get("chains"), header.get("reasons")
    given = chains if isinstance(chains, list) else []
    read = [chain for chain in map(_chain, given[:CHAINS_LIMIT]) if chain]
    told = [clean_text(reason) for reason in reasons[:MAX_REASONS]] if isinstance(reasons, list) else []
    why = [reason for reason in told if reason]
    whole = header.get("complete") is True
    if len(read) < len(given) or any(len(chain) > MAX_STEPS for chain in given if isinstance(chain, list)):
        whole = False
        why.append(f"Not every chain could be taken over: at most {CHAINS_LIMIT}, of {MAX_STEPS} steps each.")
    return Holders(integer(header.get("tensor")) or 0, tuple(read), tuple(why), whole)


def _chain(value: Any) -> tuple[HolderStep, ...]:
    steps = [_step(step) for step in value[:MAX_STEPS]] if isinstance(value, list) else [None]
    return () if None in steps else tuple(step for step in steps if step is not None)


def _step(value: Any) -> HolderStep | None:
    if not isinstance(value, list) or len(value) < 2:
        return None
    kind, label = value[0], clean_text(value[1])
    if not isinstance(kind, str) or label is None:
        return None
    return HolderStep(kind if kind in HOLDER_KINDS else "object", label or "?")
