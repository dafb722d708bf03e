"""Whether every live tensor was seen: the signs that some were not, and when to look again."""

import gc
import sys
import time
from typing import List, Optional

from tensortui.agent.census import Census
from tensortui.agent.enumerate import YOUNG_LIMIT, Types, Young
from tensortui.agent.guard import COMPANY, collecting
from tensortui.agent.nodes import DEPTHS
from tensortui.agent.poolscan import PoolScanner
from tensortui.agent.process import audited

AUDIT_EVERY = 5.0  # seconds at least between two audits
SLACK = 16  # references to torch.Tensor that come and go by themselves, where threads have run since the last look
# Counts one after the other that fewer must outlast, each made before another thread has run: until they are looked
# for, and until they are said. A reference that came to stay looks the same, and the look for them tells it apart.
SEVERAL, MANY = 4, 12
ANYHOW_EVERY = 10.0
AUDIT_SHARE = 0.25  # of the budget
# Modules refer to the classes of tensors from annotations and tables of theirs, also some time after they are entered.
IMPORT_SECONDS = 2.0
IMPORT_SHARE = 0.5  # of the budget: imports are soon over, and one audit settles what they leave open
ROUGH = 5  # collections while a scan goes by
CHURN = "very many tensors come and go: some that came while all were looked for may not be found yet"
IMPORTING = "modules are being imported: tensors that are made meanwhile may not be found yet"
AUDITED = "nothing is missed for that, but the program's audit hooks (sys.addaudithook) are called by what is looked at"
NO_GRAD_FN = (
    "grad_fn is not read where only its node tells the name: so many nodes on chains of more than 10,000 live that "
    "more could overflow the stack"
)
MISSING = "about %d tensors are alive but not found yet"
MISSING_ONE = "about one tensor is alive but not found yet"
UNSEEN_GRADIENTS = "gradients that a backward has just made have no Python object yet and are not listed: %d, %d bytes"


class Coverage:
    """Compares what is tracked with what must be there, and remembers by what something may have been missed.

    Every instance of a class of tensors holds a reference to it, so the classes' reference counts, less what they are
    beyond the instances that are known, is the number of instances now: read in one step, whatever the heap. So what a
    collection has moved on between two looks is told without a look at everything, and a program in which that
    happens all the time is not incomplete for that alone. Modules and optimizers are not counted: those of them that
    were missed are found by the next scan, and their tensors only lack their names until then.

    By how much the references grew while modules were imported, or when classes joined those that are counted, says
    nothing of tensors. It is kept apart until the next scan, which comes sooner for that. What was missed meanwhile and
    has a name is found by that before.
    """

    def __init__(self, census: Census, scanner: PoolScanner, budget: float, types: Types) -> None:
        """Start with nothing scanned."""
        self._census = census
        self._types = types
        self._lately: List[int] = []  # what was missing, by the last counts that nobody could have disturbed
        self._scanner = scanner
        self._budget = budget
        self._beyond: Optional[int] = None  # references to these types that are not from instances
        self._missing = 0
        self._unclear = 0  # references that came along with modules or classes: tensors may be among them
        self._modules, self._classes = len(sys.modules), 0  # as of the last look at the references
        self._imported_at = float("-inf")
        self._passed = 0  # of what is young, before the last scan
        self._left_over = 0  # references beyond those known of, that the last scan found no tensors for
        self._rough = False  # whether the only scan so far may have missed what came while it went by
        self._open = False  # whether tensors may be among these, and too many to pass over
        self._not_before = self._soonest = 0.0
        self._anyhow_at = 0.0
        self.frozen = 0  # objects that gc.freeze() hid when that was last asked: it goes through all of them
        self.cpu = time.thread_time

    def _beyond_known(self) -> int:
        """Return how many references to the classes there are beyond the tensors that are known and alive."""
        classes = [ref() for ref in self._types.tensors if ref() is not None]
        references = sum(map(sys.getrefcount, classes))  # first: who dies in between must not lower what is beyond
        return references - len(self._census.by_id) + self._census.dying()

    def _unsettled(self) -> bool:
        """Whether modules or counted classes have come or gone since the last look, or modules a moment ago."""
        now = self._census.clock()
        modules, classes = len(sys.modules), len(self._types.tensors)
        if modules != self._modules:
            self._imported_at = now
        others = classes != self._classes
        self._modules, self._classes = modules, classes
        return others or self._importing()

    def _importing(self) -> bool:
        return self._census.clock() - self._imported_at < IMPORT_SECONDS

    def _lasting(self, counts: int) -> int:
        """Return how many tensors must be there that are not known; few count only as the last `counts` tell them."""
        if self._missing > SLACK:
            return self._missing
        return min(self._lately[-counts:]) if len(self._lately) >= counts else 0

    def scanned(self, young: Young, types: Types, passed: int = 0, cost: float = 0.0) -> None:
        """A scan is over: what is tracked now is all there is."""
        now = self._census.clock()
        beyond = self._beyond_known()
        more = 0 if self._beyond is None else beyond - self._beyond
        # Where tensors moved on while the scan went by, it may have missed some: only what two scans have left over, as
        # much each time, are other references for certain.
        moved = young.passed - passed
        self._rough = moved > ROUGH and (self._beyond is None or (self._rough and abs(more) > SLACK))
        if self._beyond is None or self._unclear or not moved or abs(more - self._left_over) <= SLACK:
            self._beyond, more = beyond, 0
        self._left_over = more
        self._missing = self._unclear = 0
        self._open = False
        self._unsettled()
        self._lately = []
        self._passed = passed
        types.grown = False
        self._not_before = now + max(AUDIT_EVERY, cost / (self._budget * AUDIT_SHARE))
        self._soonest = now + max(AUDIT_EVERY, cost / (self._budget * IMPORT_SHARE))
        self._anyhow_at = now + ANYHOW_EVERY
        self.frozen = gc.get_freeze_count() if self._scanner.reason else 0

    def some_missing(self, young: Young) -> bool:
        """Whether there are more tensors than are known, and collections that may have moved them on unseen."""
        return self._rough or (self._missing + self._unclear > 0 and young.passed > self._passed)

    def check(self, young: Young) -> None:
        """Compare, right after a drain. What was missed by the last scan is not taken for what always was beyond."""
        if self._beyond is not None:
            gap = self._beyond_known()
            self._beyond = min(self._beyond, gap)
            more = gap - self._beyond
            self._unclear = min(self._unclear, more)
            if self._unsettled():
                self._unclear = max(self._unclear, more - self._missing)
            self._missing = more - self._unclear
            self._open = self._unclear > SLACK and young.passed > self._passed
            if young.looked == COMPANY.pieces:  # nobody has run since, so nothing was made since
                # Nothing can have been missed where no collection fell between two looks: a reference is no tensor.
                self._lately = [*self._lately[1 - MANY :], self._missing if young.passed > self._passed else 0]

    def audit_due(self, young: Young, types: Types) -> bool:
        """Whether something may have been missed, and the last audit was long enough ago for the next."""
        now = self._census.clock()
        settle = self._open and not self._importing()
        if now < (self._soonest if settle else self._not_before):
            return False
        if self._scanner.reason and gc.get_count()[0] > YOUNG_LIMIT:
            return False  # a disabled collector: its list can only be had in one go, which would stall the target
        # What the count does not tell of, as modules and tensors of other types, is looked for once in a while.
        return (
            settle
            or self._lasting(SEVERAL) > 0
            or types.grown
            or (young.passed > self._passed and now >= self._anyhow_at)
        )

    def reasons(self) -> List[str]:
        """Return one sentence for each cause of incomplete coverage."""
        found = []
        by_lists = bool(self._scanner.reason)
        if self.frozen:
            found.append("gc.freeze() hides %d objects" % self.frozen)
        if by_lists and not collecting():
            found.append("the garbage collector is disabled: new tensors are seen only while they are few")
        missing = self._lasting(MANY)
        if missing:
            found.append(MISSING % missing if missing > 1 else MISSING_ONE)
        if self._rough and not missing:
            found.append(CHURN)
        if self._open and self._importing():
            found.append(IMPORTING)
        if self._census.unseen_gradients[0]:
            found.append(UNSEEN_GRADIENTS % self._census.unseen_gradients)
        if DEPTHS.unnamed:
            found.append(NO_GRAD_FN)
        if audited():
            found.append(AUDITED)
        return found
