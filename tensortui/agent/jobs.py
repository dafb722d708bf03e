"""One piece of work that is run in slices: what it is booked under, and what its next step needs."""

import time
from typing import Any, Dict, Optional

from tensortui.agent.census import Work

LONG = 0.5  # seconds without a step after which nothing of the target's is held for the next one

_context, _cause = (vars(BaseException)[name].__get__ for name in ("__context__", "__cause__"))
_without_frames = BaseException.with_traceback


class Held(Dict[str, Any]):
    """What work holds of the target from one step to the next, where it cannot do without. The work yields it once.

    The loop empties it where the next step is long in coming; the work then begins that part of its task again.
    """


class Job:
    """Work with the kind that its processor time is booked under, which the work may change."""

    __slots__ = ("apart", "held", "kind", "ran_at", "work")

    def __init__(self, work: Work, kind: str) -> None:
        """Take over `work`, of which nothing was run yet."""
        self.work = work
        self.kind = kind
        self.apart = False  # whether the next step gives up the lock: it is to be run by itself
        self.held: Optional[Held] = None
        self.ran_at = time.monotonic()

    def let_go(self, now: float) -> None:
        """Hold nothing of the target any longer where no step was run for long."""
        if self.held and now - self.ran_at > LONG:
            self.held.clear()

    def close(self) -> None:
        """End the work; it may give up the lock, to close a file."""
        self.work.close()


def forget_frames(error: BaseException) -> None:
    """Drop the frames that an exception came through: they hold whatever was in hand when it was raised.

    Some may have been raised before and be kept by who raised them. No method of theirs is called.
    """
    todo = [error]
    for _ in range(100):
        if not todo:
            return
        one = todo.pop()
        _without_frames(one, None)
        todo += [more for more in (_context(one), _cause(one)) if more is not None]
