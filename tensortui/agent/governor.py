"""What the agent may cost the target: token buckets on the CPU time of its thread, and the account it gives."""

import collections
import time
from typing import Callable, Deque, Tuple

SLICE = 0.0007  # the longest piece of work in one go, seconds
GAP = 0.001  # between two pieces the GIL is free for at least this long
BURST = 2.0  # CPU seconds for what somebody waits for: the first scan, a refresh, a graph; refilled from the budget
WINDOW = 10.0


class Governor:
    """Says when the next slice may run. `budget` is the fraction of wall time that may be spent on average.

    Two purses: the steady one pays for samples, the burst one for what a person waits for. While the burst purse is
    not full both get half of the budget, so that a big request slows the samples down but does not stop them.
    """

    def __init__(self, budget: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start with a full burst purse, for the first scan."""
        self.budget = min(max(budget, 0.0001), 1.0)
        self.longest_slice = 0.0
        self._clock = clock
        self._steady_cap = max(0.5 * self.budget, 4 * SLICE)  # unused time is not saved up for a stutter
        self._steady = self._steady_cap
        self._burst = BURST
        self._at = clock()
        self._spent = 0.0
        self._history: Deque[Tuple[float, float]] = collections.deque([(self._at, 0.0)])

    def _accrue(self) -> float:
        now = self._clock()
        income = max(now - self._at, 0.0) * self.budget
        self._at = now
        if self._burst < BURST:
            income /= 2
            self._burst = min(BURST, self._burst + income)
        self._steady = min(self._steady_cap, self._steady + income)
        return now

    def wait(self, urgent: bool = False) -> float:
        """Return the seconds until the next slice may run, 0 where it may now. `urgent`: somebody waits for it."""
        self._accrue()
        if self._steady > 0 or (urgent and self._burst > 0):
            return 0.0
        return min(-self._steady / self.budget + GAP, 1.0)

    def spend(self, seconds: float, urgent: bool = False) -> None:
        """Book CPU time that the agent used."""
        now = self._accrue()
        self._spent += seconds
        if urgent and self._burst > 0:
            self._burst -= seconds
        else:
            self._steady -= seconds
        if now - self._history[-1][0] >= 0.5:
            self._history.append((now, self._spent))
            while now - self._history[0][0] > WINDOW and len(self._history) > 2:
                self._history.popleft()

    def slice_took(self, seconds: float) -> None:
        """Remember the wall time of one slice."""
        self.longest_slice = max(self.longest_slice, seconds)

    def share(self) -> float:
        """Return the fraction of wall time that the agent used over about the last ten seconds."""
        then, spent = self._history[0]
        return (self._spent - spent) / max(self._clock() - then, 0.5)
