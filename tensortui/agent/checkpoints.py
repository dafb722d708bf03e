"""What `torch.utils.checkpoint` keeps to run a forward again: it hangs on the hook of each tensor that was not saved.

The function that would unpack such a tensor has a frame in its closure, and in that torch keeps the arguments, packed
by themselves as the graph packs what it saves. Nothing is unpacked, and only what is of torch's own classes is opened.
"""

import sys
from itertools import chain, islice
from operator import attrgetter
from types import FunctionType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.containers import TENSOR, Kinds

MODULE = "torch.utils.checkpoint"
RERUN = "_recomputation_hook."  # of what the forward that runs again saves: it is gone when backward is over
NAME = "checkpoint"
MOST = 256  # arguments of one checkpoint that are looked at
NESTED = 16  # checkpoints around one another
PARTS = attrgetter("unpack_hook", "data")

Read = Callable[[Iterator[Any]], List[Any]]  # what lazy iterators give, in a moment in which no backward runs


class Checkpoints:
    """Tells which tensors the hooks of checkpoints keep alive."""

    def __init__(self, kinds: Kinds, base: type, saved: Optional[type], function: Optional[type]) -> None:
        """Take torch's classes of saved tensors and of nodes that are written in Python."""
        self._kinds = kinds
        self._grad_fn = base.__dict__["grad_fn"].__get__
        self._saved = saved
        self._raws = vars(function).get("_raw_saved_tensors") if function is not None else None
        self.unread = False  # whether one was met that keeps its arguments in another way

    def is_hook(self, hook: Any) -> bool:
        """Whether a function unpacks what a checkpoint did not save."""
        if type(hook) is not FunctionType or not _is_torchs(hook):
            return False
        return type(hook.__qualname__) is str and not hook.__qualname__.startswith(RERUN)

    def kept(self, hooks: List[Any], read: Read) -> Iterator[Tuple[str, Any]]:
        """Yield the tensors that checkpoints keep, each checkpoint once; where one is in another, that one's too."""
        waiting = list(hooks)
        seen: Set[int] = set()
        while waiting and len(seen) < NESTED:
            frame = self._frame(waiting.pop())
            if frame is None:
                self.unread = True
            elif id(frame) not in seen:
                seen.add(id(frame))
                for name, tensor, hook in self._arguments(frame, read):
                    if tensor is not None:
                        yield NAME + name, tensor
                    elif self.is_hook(hook):
                        waiting.append(hook)

    def _frame(self, hook: Any) -> Any:
        module = sys.modules.get(MODULE)
        wanted = vars(module).get("_CheckpointFrame") if module is not None else None
        found = _cell(hook, "frame")
        return found if found is not None and type(found) is wanted else None

    def _arguments(self, frame: Any, read: Read) -> Iterator[Tuple[str, Any, Any]]:
        """Yield what a frame keeps: where, the tensor if there is one, and else the hook that packed it."""
        space: Dict[str, Any] = (containers.instance_dict(frame) if self._kinds.may_open(frame) else None) or {}
        given, saver = space.get("saved_args"), space.get("input_saver")
        if type(given) is list:
            given = given[:MOST]
            packed = [one for one in given if self._saved is not None and type(one) is self._saved]
            told = dict(zip(map(id, packed), read(map(PARTS, packed))))  # in one go: each costs a look at all threads
            for place, one in enumerate(given):
                if id(one) in told:
                    hook, data = told[id(one)]
                    yield "[%d]" % place, self._tensor(data), hook
                else:
                    yield from self._within("[%d]" % place, one)
            again = space.get("recompute_fn")
            if type(again) is FunctionType and _is_torchs(again):
                yield from self._within("", _cell(again, "kwargs"))
        elif saver is not None and self._raws is not None and self._kinds.of(saver) >= TENSOR:
            node = self._grad_fn(saver)
            parts = read(map(PARTS, islice(chain.from_iterable(map(self._raws.__get__, (node,))), MOST)))
            for place, (hook, data) in enumerate(parts[1:]):  # the first is a dummy
                yield "[%d]" % place, self._tensor(data), hook
        else:
            self.unread = True

    def _within(self, name: str, one: Any) -> Iterator[Tuple[str, Any, None]]:
        """Yield the tensors in an argument that is a plain container."""
        if type(one) in (list, tuple):
            for place, inner in enumerate(one[:MOST]):
                yield name + "[%d]" % place, self._tensor(inner), None
        elif type(one) is dict:
            for key, inner in list(islice(one.items(), MOST)):
                yield name + "[%s]" % labels.key(key), self._tensor(inner), None

    def _tensor(self, thing: Any) -> Any:
        return thing if self._kinds.of(thing) >= TENSOR else None


def _is_torchs(function: Any) -> bool:
    """Whether a function says that it is of torch's module; a program may give it anything for a name."""
    return type(function.__module__) is str and function.__module__ == MODULE


def _cell(function: Any, name: str) -> Any:
    """Return the variable of its surroundings that a function knows by a name; None where there is none."""
    for known, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        if known == name:
            try:
                return cell.cell_contents
            except ValueError:  # it is empty
                return None
    return None
