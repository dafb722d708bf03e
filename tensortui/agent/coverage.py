"""Whether every live tensor was seen: the signs that some were not, and when to look again."""

import gc
import sys
import time
from typing import List, Optional

from tensortui.agent.census import Census
from tensortui.agent.enumerate import YOUNG_LIMIT, Hook, Types
from tensortui.agent.guard import collecting
from tensortui.agent.nodes import DEPTHS
from tensortui.agent.poolscan import PoolScanner

AUDIT_EVERY = 5.0  # seconds at least between two audits
SLACK = 16  # references to torch.Tensor that come and go by themselves
AUDIT_SHARE = 0.25  # of the budget
NO_GRAD_FN = (
    "grad_fn is not read where its node is written in Python: so many nodes on chains of more than 10,000 live that "
    "more could overflow the stack"
)
UNSEEN_GRADIENTS = "gradients that a backward has just made have no Python object yet and are not listed: %d, %d bytes"


class Coverage:
    """Compares what is tracked with what must be there, and remembers what the hook had to let pass.

    Every instance of torch.Tensor holds a reference to its type, so the type's reference count, less what it was
    beyond the instances right after a scan, is the number of instances now: read in one step, whatever the heap.
    """

    def __init__(self, census: Census, scanner: PoolScanner, budget: float) -> None:
        """Start with nothing scanned."""
        self._census = census
        self._scanner = scanner
        self._budget = budget
        self._beyond: Optional[int] = None  # references to torch.Tensor that are not from instances
        self._missing = 0
        self._skipped = 0  # of the hook's, before the last scan
        self._not_before = 0.0
        self.cpu = time.thread_time

    def _references(self) -> int:
        return 0 if self._census.exact_type is None else sys.getrefcount(self._census.exact_type)

    def scanned(self, hook: Hook, types: Types, skipped: int = 0, cost: float = 0.0) -> None:
        """A scan is over: what is tracked now is all there is."""
        self._beyond = self._references() - self._census.exact
        self._missing = 0
        self._skipped = skipped
        types.grown = False
        self._not_before = self._census.clock() + max(AUDIT_EVERY, cost / (self._budget * AUDIT_SHARE))

    def check(self, hook: Hook, types: Types) -> None:
        """Compare, right after a drain."""
        if self._beyond is not None:
            self._missing = self._references() - self._beyond - self._census.exact

    def audit_due(self, hook: Hook, types: Types) -> bool:
        """Whether tensors may have been missed, and the last audit was long enough ago for the next."""
        if self._census.clock() < self._not_before:
            return False
        if self._scanner.reason and gc.get_count()[0] > YOUNG_LIMIT:
            return False  # a disabled collector: its list can only be had in one go, which would stall the target
        return self._missing > SLACK or hook.skipped > self._skipped or types.grown

    def reasons(self, hook: Hook) -> List[str]:
        """Return one sentence for each cause of incomplete coverage."""
        found = []
        by_lists = bool(self._scanner.reason)
        frozen = gc.get_freeze_count()
        if frozen and by_lists:
            found.append("gc.freeze() hides %d objects" % frozen)
        if by_lists and not collecting():
            found.append("the garbage collector is disabled: new tensors are seen only while they are few")
        if hook.skipped > self._skipped:
            found.append(
                "%d garbage collections passed unseen to keep the budget: tensors born before them may be missing"
                % (hook.skipped - self._skipped)
            )
        if self._missing > SLACK:
            found.append("about %d tensors are alive but not found yet" % self._missing)
        if self._census.unseen_gradients[0]:
            found.append(UNSEEN_GRADIENTS % self._census.unseen_gradients)
        if DEPTHS.exhausted:
            found.append(NO_GRAD_FN)
        return found
