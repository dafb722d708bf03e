"""What the agent may cost the target: purses of CPU time of its thread, and the account it gives."""

import collections
import time
from typing import Callable, Deque, Dict, Tuple

SLICE = 0.0007  # the longest piece of work in one go, seconds
GAP = 0.001  # between two pieces the GIL is free for at least this long
WINDOW = 10.0
SAMPLE, PASS, REQUEST, MOMENT = "sample", "pass", "request", "moment"
# What the samples and the passes get of the budget: the samples come first, so that they come on time whatever else is
# to do; what a full purse does not take goes to the passes. Requests (a first scan, a refresh, a graph) have an income
# of their own, some budgets, for somebody has ordered them and waits.
SHARES = {SAMPLE: 0.8, PASS: 0.2, REQUEST: 10.0}
BURST = 1.0  # CPU seconds saved up for requests
# What lives for a moment must be read in a moment: that part of a sample does not wait for its income but runs up a
# debt, which the samples pay off before the next of them begins.
DEBT = 0.08  # CPU seconds


class Governor:
    """Says when the next slice may run. `budget` is the fraction of wall time that may be spent on average."""

    def __init__(self, budget: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start with a full purse for the first scan."""
        self.budget = min(max(budget, 0.0001), 1.0)
        self.longest_slice = 0.0
        self._clock = clock
        small = max(self.budget, 4 * SLICE)  # unused time is hardly saved up: it would come out as a stutter
        self._full = {SAMPLE: small, PASS: small, REQUEST: BURST}
        self._purses: Dict[str, float] = dict(self._full)
        self._at = clock()
        self._spent = 0.0
        self._history: Deque[Tuple[float, float]] = collections.deque([(self._at, 0.0)])

    def _accrue(self) -> float:
        now = self._clock()
        income = max(now - self._at, 0.0) * self.budget
        self._at = now
        purses, full = self._purses, self._full
        part = min(income * SHARES[SAMPLE], max(full[SAMPLE] - purses[SAMPLE], 0.0))
        purses[SAMPLE] += part
        purses[PASS] = min(full[PASS], purses[PASS] + income - part)
        purses[REQUEST] = min(full[REQUEST], purses[REQUEST] + income * SHARES[REQUEST])
        return now

    def wait(self, kind: str) -> float:
        """Return the seconds until the next slice of a kind of work may run, 0 where it may now."""
        self._accrue()
        credit = DEBT if kind == MOMENT else 0.0
        kind = SAMPLE if kind == MOMENT else kind
        balance = self._purses[kind] + credit
        return 0.0 if balance > 0 else min(-balance / (self.budget * SHARES[kind]) + GAP, 1.0)

    def spend(self, seconds: float, kind: str) -> None:
        """Book CPU time that the agent used."""
        now = self._accrue()
        self._spent += seconds
        self._purses[SAMPLE if kind == MOMENT else kind] -= seconds
        if now - self._history[-1][0] >= 0.5:
            self._history.append((now, self._spent))
            while now - self._history[1][0] > WINDOW:
                self._history.popleft()

    def slice_took(self, seconds: float) -> None:
        """Remember the processor time of one slice."""
        self.longest_slice = max(self.longest_slice, seconds)

    def share(self) -> float:
        """Return the fraction of the last ten seconds of wall time that the agent used."""
        then, spent = self._history[0]
        return (self._spent - spent) / max(self._clock() - then, WINDOW)
