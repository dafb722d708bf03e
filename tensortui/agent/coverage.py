"""Whether every live tensor was seen: the signs that some were not, and when to look again."""

import gc
import sys
import time
from typing import List, Optional

from tensortui.agent.census import Census
from tensortui.agent.enumerate import YOUNG_LIMIT, Types, Young
from tensortui.agent.guard import collecting
from tensortui.agent.nodes import DEPTHS
from tensortui.agent.poolscan import PoolScanner

AUDIT_EVERY = 5.0  # seconds at least between two audits
SLACK = 16  # references to torch.Tensor that come and go by themselves
ANYHOW_EVERY = 30.0
AUDIT_SHARE = 0.25  # of the budget
NO_GRAD_FN = (
    "grad_fn is not read where its node is written in Python: so many nodes on chains of more than 10,000 live that "
    "more could overflow the stack"
)
UNSEEN_GRADIENTS = "gradients that a backward has just made have no Python object yet and are not listed: %d, %d bytes"


class Coverage:
    """Compares what is tracked with what must be there, and remembers by what something may have been missed.

    Every instance of torch.Tensor or Parameter holds a reference to its type, so the types' reference counts, less what
    they are beyond the instances that are known, is the number of instances now: read in one step, whatever the heap.
    """

    def __init__(self, census: Census, scanner: PoolScanner, budget: float) -> None:
        """Start with nothing scanned."""
        self._census = census
        self._scanner = scanner
        self._budget = budget
        self._beyond: Optional[int] = None  # references to these types that are not from instances
        self._missing = 0
        self._passed = 0  # of what is young, before the last scan
        self._not_before = 0.0
        self._anyhow_at = 0.0
        self.frozen = 0  # objects that gc.freeze() hid when that was last asked: it goes through all of them
        self.cpu = time.thread_time

    def _references(self) -> int:
        return sum(map(sys.getrefcount, self._census.exact_types))

    def scanned(self, young: Young, types: Types, passed: int = 0, cost: float = 0.0) -> None:
        """A scan is over: what is tracked now is all there is."""
        now = self._census.clock()
        self._beyond = self._references() - self._census.exact
        self._missing = 0
        self._passed = passed
        types.grown = False
        self._not_before = now + max(AUDIT_EVERY, cost / (self._budget * AUDIT_SHARE))
        self._anyhow_at = now + ANYHOW_EVERY
        self.frozen = gc.get_freeze_count() if self._scanner.reason else 0

    def check(self) -> None:
        """Compare, right after a drain. What was missed by the last scan is not taken for what always was beyond."""
        if self._beyond is not None:
            gap = self._references() - self._census.exact
            self._beyond = min(self._beyond, gap)
            self._missing = gap - self._beyond

    def audit_due(self, young: Young, types: Types) -> bool:
        """Whether something may have been missed, and the last audit was long enough ago for the next."""
        now = self._census.clock()
        if now < self._not_before:
            return False
        if self._scanner.reason and gc.get_count()[0] > YOUNG_LIMIT:
            return False  # a disabled collector: its list can only be had in one go, which would stall the target
        # What the count does not tell of, as modules and tensors of other types, is looked for once in a while.
        return self._missing > SLACK or types.grown or (young.passed > self._passed and now >= self._anyhow_at)

    def reasons(self) -> List[str]:
        """Return one sentence for each cause of incomplete coverage."""
        found = []
        by_lists = bool(self._scanner.reason)
        if self.frozen:
            found.append("gc.freeze() hides %d objects" % self.frozen)
        if by_lists and not collecting():
            found.append("the garbage collector is disabled: new tensors are seen only while they are few")
        if self._missing > SLACK:
            found.append("about %d tensors are alive but not found yet" % self._missing)
        if self._census.unseen_gradients[0]:
            found.append(UNSEEN_GRADIENTS % self._census.unseen_gradients)
        if DEPTHS.exhausted:
            found.append(NO_GRAD_FN)
        return found
