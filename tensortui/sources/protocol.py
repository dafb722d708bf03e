"""The one protocol behind which samples come: a live agent, a recording, a PyTorch memory pickle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Protocol

from tensortui.model import Ended, Graph, Holders, Sample


class Source(Protocol):
    """Where samples come from. Widgets never ask which kind it is: what it cannot give, it says why.

    `missing` maps a capability ("graph", "holders", "detach", "interval") to the sentence that says why this source
    lacks it.
    """

    title: str
    missing: dict[str, str]

    def updates(self) -> AsyncIterator[Sample | Ended]:
        """Yield each sample as it comes, last an `Ended`. Only the newest matters: older unread ones are replaced.

        A first `Ended` may be followed by another, which says how what was under way has ended.
        """
        ...

    async def set_interval(self, seconds: float | None) -> None:
        """Ask for a sample every `seconds` (None: pause; the target then does no work for this viewer)."""
        ...

    async def watch(self, tensor_ids: Iterable[int]) -> None:
        """Say what is on screen, so that the source refreshes it first."""
        ...

    async def refresh(self) -> Sample:
        """Read every tensor anew and return the sample that says so."""
        ...

    async def graph(self, roots: Iterable[int] | None = None) -> Graph:
        """The autograd graph behind the tensors `roots` (None: behind every tensor that has a grad_fn)."""
        ...

    async def holders(
        self, tensor_id: int, *, limit: int = 8, progress: Callable[[str], None] | None = None
    ) -> Holders:
        """What keeps a tensor alive, `limit` chains at most. `progress` is called with how far the search is.

        Whoever cancels it ends the search in the target.
        """
        ...

    def held(self) -> str:
        """Why no sample comes just now, and what to do, in a few words; "" where that is not known."""
        ...

    async def close(self) -> None:
        """Leave the source. The target goes on; the agent ends itself some time after its last viewer left."""
        ...

    async def detach(self, *, if_alone: bool = False) -> bool:
        """End the agent in the target, leaving nothing behind, then close. `if_alone`: it stays for another viewer.

        Returns whether the agent has left.
        """
        ...
