"""Which objects a walk has asked for their `__dict__`, where that is not for free."""

import sys
from typing import Any, Dict, Set

OPENED = 100  # objects of one class whose attributes may be laid out anew
# Asking for `__dict__` makes these lay the attributes out anew, and the program slower at using them for ever.
LAYS_OUT_ANEW = (3, 11) <= sys.version_info < (3, 13)


class Opened:
    """The objects whose `__dict__` was asked for where that has a price: a bounded number of each class at a time."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: Dict[int, Set[int]] = {}  # by the id of the class
        self._met: Dict[int, Set[int]] = {}  # those of them that this pass came by

    def admit(self, thing: Any) -> bool:
        """Whether `thing` may be asked: because it was before, or because few of its class were."""
        kind, at = id(type(thing)), id(thing)
        known = self._known.setdefault(kind, set())
        if at not in known:
            if len(known) >= OPENED:
                return False
            known.add(at)
        self._met.setdefault(kind, set()).add(at)
        return True

    def knows(self, thing: Any) -> bool:
        """Whether `thing` was asked before."""
        return id(thing) in self._known.get(id(type(thing)), ())

    def pass_over(self, complete: bool) -> None:
        """A pass is over: after one that came by everything, what it did not come by is gone."""
        if complete:
            self._known = self._met
        self._met = {}
