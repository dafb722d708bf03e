"""Tensors that wrap others, such as DTensor: they are never watched themselves, but what they consist of is told."""

from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.census import Context
from tensortui.agent.containers import TENSOR, WRAPPER, Kinds
from tensortui.agent.gradients import GradientPointers
from tensortui.wire.messages import GRADIENT

DEPTH = 3  # wrappers in wrappers
MAX_PARTS = 16
MOST = 1_000  # attributes that are looked at

Part = Tuple[str, Any]  # name, tensor


class Wrappers:
    """One pass over the wrappers that are met. By their ids, as nothing may hold on to them."""

    def __init__(self, context: Context, kinds: Kinds) -> None:
        """Start with none."""
        self._kinds = kinds
        self._pointers: GradientPointers = context.census.memory["gradients"]
        self._types: Set[int] = {id(context.torch.Tensor)}  # that a gradient may have
        self._names: Dict[int, str] = {}
        self._classes: List[str] = []

    def parts(self, tensor: Any, name: str, category: int, suffix: str = "") -> Iterator[Tuple[str, Any, int]]:
        """Yield the tensors behind the wrapper called `name`, and behind its gradient: name, tensor, category."""
        self._meet(tensor, name + suffix)
        for way, part in self.within(tensor, name):
            yield way + suffix, part, category
        gradient = self._pointers.object_of(tensor, self._types)
        if gradient is not None:
            for way, part in self.within(gradient, name + ".grad"):
                yield way + suffix, part, GRADIENT

    def within(self, tensor: Any, name: str, depth: int = DEPTH) -> Iterator[Part]:
        """Yield the tensors that a wrapper keeps in its slots or else in its attributes, or any other tensor itself."""
        kind = self._kinds.of(tensor)
        if kind != WRAPPER:
            yield name, tensor
        elif depth:
            for key, part in self._attributes(tensor):
                yield from self.within(part, name + labels.attribute(key), depth - 1)

    def _attributes(self, tensor: Any) -> List[Part]:
        found = self._tensors([(key, value) for _, key, value in containers.slots(tensor)])
        if not found and self._kinds.may_open(tensor):
            space = containers.instance_dict(tensor) or {}
            found = self._tensors(list(islice(dict.items(space), MOST)))
        return found[:MAX_PARTS]

    def _tensors(self, entries: List[Part]) -> List[Part]:
        return [(key, value) for key, value in entries if self._kinds.of(value) >= TENSOR]

    def name_of(self, tensor: Any) -> Optional[str]:
        """Return the first name that this pass found for a wrapper."""
        return self._names.get(id(tensor))

    def _meet(self, tensor: Any, name: str) -> None:
        self._names.setdefault(id(tensor), name)
        self._types.add(id(type(tensor)))
        name = labels.type_name(type(tensor))
        if name not in self._classes and len(self._classes) < 8:
            self._classes.append(name)

    def reason(self) -> str:
        """Return the sentence for the coverage, "" where no wrapper was met."""
        if not self._names:
            return ""
        return (
            "%d tensors that torch exchanges in place (%s) are not listed themselves: it refuses to where one is "
            "watched. What they consist of is listed." % (len(self._names), ", ".join(sorted(self._classes)))
        )
