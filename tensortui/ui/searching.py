"""Looking for what holds a tensor when somebody asks for it. It is never polled."""

from __future__ import annotations

from collections.abc import Callable

from tensortui.errors import TensortuiError
from tensortui.model import Holders, Tensor
from tensortui.ui.asking import Words, impossible
from tensortui.ui.columns import name_text
from tensortui.ui.feed import Feed
from tensortui.wire.messages import CHAINS, CHAINS_LIMIT

WORDS = Words(
    "what holds a tensor cannot be found here", "what holds it can no longer be found", "there is no tensor yet"
)


class Search:
    """One search for the holders of a tensor, and what became of it."""

    def __init__(self, feed: Feed, tensor: Tensor, clock: Callable[[], float], limit: int = CHAINS) -> None:
        """Look for at most `limit` chains."""
        self.tensor = tensor
        self.limit = limit
        self.found: Holders | None = None
        self.begun = clock()
        self.ended_at: float | None = None
        self.said = ""  # how far it is
        self.problem: tuple[str, str] | None = None  # why nothing was found out, and what to do
        self._feed = feed
        self._clock = clock

    @property
    def under_way(self) -> bool:
        """Whether the answer is still to come."""
        return self.found is None and self.problem is None

    @property
    def full(self) -> bool:
        """Whether there may be more chains than were asked for."""
        return self.found is not None and len(self.found.chains) >= self.limit and self.limit < CHAINS_LIMIT

    @property
    def gone(self) -> bool:
        """Whether the newest sample no longer has the tensor."""
        sample = self._feed.sample
        return sample is not None and self.tensor.id not in sample.tensors

    async def run(self) -> None:
        """Ask the source. Whatever goes wrong becomes the reason why there is no answer."""
        self.problem = impossible(self._feed, "holders", WORDS) or self._none_left()
        if self.problem is not None:
            return
        try:
            self.found = await self._feed.source.holders(self.tensor.id, limit=self.limit, progress=self._tell)
            self.ended_at = self._clock()
        except TensortuiError as error:
            title = "the tensor is gone" if self.gone else "what holds it was not found out"
            again = "" if self._feed.ended is not None else " Press r to search again."
            self.problem = (f"{title}: {error.cause}", f"{error.next_step}{again}".strip())
        except OSError as error:
            self.problem = (f"what holds it was not found out: {error}", "press r to try it again")
        except Exception as error:  # a fault of ours: said, not left behind a screen that waits for ever
            self.problem = (f"what holds it cannot be shown: internal error: {error!r}", "press r to try it again")

    def _tell(self, text: str) -> None:
        self.said = text

    def _none_left(self) -> tuple[str, str] | None:
        if self.gone:
            name = name_text(self.tensor)
            return (
                f"{name} is gone",
                "nothing holds it any more; r looks at what goes by its name now, if anything does",
            )
        return None
