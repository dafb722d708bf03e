"""Which objects a walk has asked for their `__dict__`, where that is not for free."""

from typing import Any, Dict, Set

from tensortui.agent.inline import LAYOUT, is_managed

OPENED = 100  # objects of one class that may be given a dictionary


def asking_costs(thing: Any) -> bool:
    """Whether asking `thing` for its attributes gives it a dictionary for good: where they cannot be read in place."""
    return not LAYOUT.usable and is_managed(type(thing))


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
