"""Read single nodes of the autograd graph without running a hook or user code. Only `Alone`, and in no backward.

Every node that Python touches gets an object which lives as long as the node. When a chain of such nodes is freed, the
C stack grows with each; about 44,000 in a row overflow 8 MiB of it. So it must be known how deep a node lies before
its successors are touched: torch keeps the length of the longest path below each node in the node itself.
"""

import ctypes
import re
from array import array
from functools import partial
from itertools import chain, islice
from types import FunctionType
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from tensortui.agent import containers, labels
from tensortui.agent.checkpoints import PARTS, Checkpoints
from tensortui.agent.containers import TENSOR, Kinds
from tensortui.agent.guard import DisturbedError, Stillness
from tensortui.agent.memory import WORD, Memory, pairs

SHALLOW = 10_000  # nodes with no longer path below them may all be touched
DEEP = 5_000  # and this many others that live at the same time
SWEEP = 256  # of those that are looked at in one go
ENOUGH = 200  # nodes that agree with what the layout is believed to be
MAX_SAVED = 256  # tensors of one node
MAX_SUCCESSORS = 10_000  # of one node: of one with more none is touched, as it would be all of them in one go
NO_SEQUENCE = 1 << 63  # from here on what is no number of a sequence: the ends of a graph have such a one
NODE_POINTER = 16  # in the Python object of a C++ node, behind its head
RAW = "_raw_saved_"
_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_RELEASED = "a second time"  # in what torch says of saved tensors that a backward has released
_QUALNAME = type.__dict__["__qualname__"].__get__

Key = Tuple[int, int]  # address and sequence number: an address alone may be used again
Parts = Tuple[Any, Any]  # the hook that packed a tensor, or None, and what is stored
# Name, tensor or None, version it was saved at, and the function that would unpack it where a hook packed it, else "".
Saved = Tuple[str, Any, Optional[int], str]
Packed = Tuple[str, Any, Any]  # name, the hook that would unpack it, and what is stored in its place


class Depths:
    """How long the longest path below a node is, and how many deep nodes have been touched so far."""

    def __init__(self) -> None:
        """Nothing is known yet: the layout of a node is told from the first ones that are met."""
        self._places = [2, 3, 4]  # words of a node where its sequence number may be, the path length behind it
        self._agreed = 0
        self._deep: Dict[Key, int] = {}  # with the address of the Python object that each got
        self._memory: Optional[Memory] = None
        self.exhausted = False  # some were refused; room is made when deep nodes die
        self.unnamed = False  # and so some tensors were read without the name of their node

    def measure(self, node: Any) -> Tuple[Key, Optional[int]]:
        """Return what tells `node` from all others that live or lived, and the length of the longest path below it.

        The length is 0 for the ends of a graph and None where it cannot be told.
        """
        number = sequence(node)
        at = pointer(node)
        if at is None:
            return (id(node), number), None
        if number >= NO_SEQUENCE:
            return (at, number), 0
        words = (ctypes.c_uint64 * 8).from_address(at)
        for place in self._places:
            if words[place] == number and words[place + 1] < 1 << 40:
                return (at, number), words[place + 1]
            self._places = self._places[1:]
        return (at, number), None

    def check(self, length: Optional[int], successors: List[Any]) -> None:
        """Compare what the layout says with what is there: a path is one longer than the longest below it."""
        if length is None or self._agreed >= ENOUGH:
            return
        lengths = [self.measure(one)[1] for one in successors]
        if None in lengths:
            return  # a node written in Python
        if length == 1 + max((one for one in lengths if one is not None), default=-1):
            self._agreed += 1
        else:
            self._places = self._places[1:]
            self._agreed = 0

    @property
    def full(self) -> bool:
        """Whether no other deep node may be touched for now."""
        return len(self._deep) >= DEEP

    def may_touch(self, those: Optional[Iterable[Tuple[Key, int]]]) -> bool:
        """Whether nodes, with the length of the path below each, may be touched; None for some that are not known.

        They may where they are not deep, or were touched before, or where there is room for them.
        """
        if those is None:
            allowed = not self.full
        else:
            more = {key for key, length in those if length > SHALLOW and key not in self._deep}
            allowed = not more or len(self._deep) + len(more) <= DEEP
        self.exhausted = self.exhausted or not allowed
        return allowed

    def touched(self, node: Any, key: Key, length: Optional[int]) -> None:
        """Count a node that was touched, if it is a deep one. Those written in Python have an object anyway."""
        if (length is None or length > SHALLOW) and pointer(node) is not None:
            self._deep.setdefault(key, id(node))

    def forget_dead(self) -> None:
        """Look whether some of the deep nodes are gone: a few at a time, each time others."""
        if not self._deep:
            return
        if self._memory is None:
            self._memory = Memory()
        some = list(islice(self._deep.items(), SWEEP))
        words = array("Q", bytes(24 * len(some)))
        got = self._memory.read(pairs([wrapper for _, wrapper in some], 24), words)
        for place, (key, wrapper) in enumerate(some):
            del self._deep[key]
            count, _, at = words[3 * place : 3 * place + 3]
            if (place + 1) * 24 > got or (count and at == key[0]):
                self._deep[key] = wrapper
        if not self.full:
            self.exhausted = self.unnamed = False


DEPTHS = Depths()  # of this process: whatever reads a node counts here


def pointer(node: Any) -> Optional[int]:
    """Return the address of the C++ node; None where the node is written in Python, which has a layout of its own."""
    if not 0 < type(node).__basicsize__ - object.__basicsize__ <= 2 * WORD:
        return None
    return ctypes.c_uint64.from_address(id(node) + NODE_POINTER).value or None


def sequence(node: Any) -> int:
    """Return the sequence number of a node; leaves have the largest there is."""
    try:
        return int(node._sequence_nr())
    except Exception:
        return (1 << 64) - 1


def _read(now: Stillness, values: Iterator[Any]) -> List[Any]:
    """Return what `values` gives, [] where it raises: what backward has released does."""
    try:
        return now.read(values)
    except DisturbedError:
        raise
    except Exception:
        return []


def _qualified(module: Any, name: Any) -> str:
    """Return `module.name`, safe to show; the program may have put anything in their place."""
    parts = [labels.safe(one) for one in (module, name) if type(one) is str]
    return labels.clip(".".join(parts), labels.MAX_NAME)


class NodeReader:
    """Reads successors, leaves and saved tensors of nodes."""

    def __init__(self, torch: Any, base: type, kinds: Kinds) -> None:
        """Look up what this torch can do; `base` is the class that all tensors derive from."""
        self._kinds = kinds
        space = base.__dict__
        self._version = space["_version"].__get__
        self._hook_members = [
            space[one].__get__ for one in ("_backward_hooks", "_post_accumulate_grad_hooks") if one in space
        ]
        self._raw_names: Dict[str, Tuple[str, ...]] = {}
        self._lists: Dict[str, bool] = {}  # by node class and member
        saved = vars(torch._C._autograd).get("SavedTensor")
        self._saved_type = saved
        self.can_read_saved = saved is not None and "data" in vars(saved) and "unpack_hook" in vars(saved)
        self._function = getattr(torch._C, "_FunctionBase", None)
        self.checkpoints = Checkpoints(kinds, base, saved, self._function)

    def successors(self, node: Any) -> List[Any]:
        """Return the nodes that come next in backward; None for an input that needs no gradient."""
        return [one for one, _ in node.next_functions]

    def name(self, node: Any) -> str:
        """Return the class name of a node, such as MulBackward0."""
        return labels.type_name(type(node))

    def function(self, node: Any) -> str:
        """Return the class whose `forward` made `node`, with its module; "" for what torch has built in."""
        forward = containers.type_dict(type(node)).get("_forward_cls")
        if not any(one is type for one in containers.type_mro(type(forward))):
            return ""
        return _qualified(containers.type_dict(forward).get("__module__"), _QUALNAME(forward))

    def hooks(self, tensor: Any) -> int:
        """Return how many hooks the program registered on a leaf; of nodes see `NodeHooks`."""
        count = 0
        for get in self._hook_members:
            try:
                found = get(tensor)
            except Exception:
                continue
            if found is not None and containers.is_dict(found):
                count += dict.__len__(found)
        return count

    def leaf(self, node: Any) -> Any:
        """Return the tensor whose gradient an AccumulateGrad node fills; None for other nodes."""
        found = containers.type_dict(type(node)).get("variable")
        if found is None or containers.type_flags(type(node)) & containers.HEAP_TYPE:
            return None
        try:
            return found.__get__(node)
        except Exception:
            return None

    def saved(self, node: Any, versions: bool, now: Stillness) -> Iterator[Saved]:
        """Yield what `node` saved for backward; the version only if `versions`. Nothing once backward released it.

        What checkpoints keep to run a forward again comes last. Raises DisturbedError where a backward may have begun
        since `now`: what a node saved goes without a lock then.
        """
        if not self.can_read_saved:
            return
        hooks: List[Any] = []  # of checkpoints: all that these keep lives as long as they, so nothing else has them
        try:
            yield from self._saved(node, versions, now, hooks)
            for name, tensor in self.checkpoints.kept(hooks, partial(_read, now)) if hooks else ():
                yield name, tensor, None, ""
        finally:
            hooks.clear()

    def _saved(self, node: Any, versions: bool, now: Stillness, hooks: List[Any]) -> Iterator[Saved]:
        """Yield what `node` itself saved, and append the hooks of checkpoints to `hooks`."""
        kind = type(node)
        if containers.type_flags(kind) & containers.HEAP_TYPE:
            yield from self._saved_by_python(node, versions, now, hooks)
            return
        space = containers.type_dict(kind)
        for name in self._names_of(kind.__name__, space):
            get = space[name].__get__
            plain = name[len(RAW) :]
            several = self._several(get, kind.__name__ + name, node, now)
            if several is None:
                continue
            if several:
                for place, parts in enumerate(self._parts(get, node, now)):
                    yield self._one("%s[%d]" % (plain, place), parts, hooks)
                continue
            for parts in _read(now, map(PARTS, map(get, (node,)))):
                one = self._one(plain, parts, hooks)
                if versions and one[1] is not None and not one[3] and "_saved_" + plain in space:
                    member = space["_saved_" + plain]
                    one = (plain, one[1], self._version_saved(member.__get__, node, one[1], now), "")
                if one[1] is not None or one[3]:  # else an optional input that was not given
                    yield one

    def packed(self, node: Any, now: Stillness) -> Iterator[Packed]:
        """Yield what hooks packed of what `node` saved, and the hooks, none of which is run; see `saved`."""
        if not self.can_read_saved:
            return
        kind = type(node)
        if containers.type_flags(kind) & containers.HEAP_TYPE:
            raws = vars(self._function).get("_raw_saved_tensors") if self._function is not None else None
            members: List[Tuple[str, Any, Optional[bool]]] = [("saved_tensors", raws.__get__, True)] if raws else []
        else:
            space = containers.type_dict(kind)
            gets = ((name, space[name].__get__) for name in self._names_of(kind.__name__, space))
            members = [
                (name[len(RAW) :], get, self._several(get, kind.__name__ + name, node, now)) for name, get in gets
            ]
        for name, get, several in members:
            parts = self._parts(get, node, now) if several else _read(now, map(PARTS, map(get, (node,))))
            for place, (hook, data) in enumerate(parts):
                if hook is not None:
                    yield "%s[%d]" % (name, place) if several else name, hook, data

    def freed(self, node: Any, now: Stillness) -> bool:
        """Whether a backward has released what `node` saved; asked of a node that has nothing saved any more."""
        if not self.can_read_saved:
            return False
        kind = type(node)
        if containers.type_flags(kind) & containers.HEAP_TYPE:
            raws = vars(self._function).get("_raw_saved_tensors") if self._function is not None else None
            return raws is not None and self._refused(raws.__get__, node, now)
        space = containers.type_dict(kind)
        for name in self._names_of(kind.__name__, space):
            if self._refused(space[name].__get__, node, now):
                return True
            plain = space.get(name[len("_raw") :])
            if plain is None or self._several(space[name].__get__, kind.__name__ + name, node, now) is not False:
                continue
            for parts in _read(now, map(PARTS, map(space[name].__get__, (node,)))):
                # What holds nothing and has no hook is either refused or was never given: no code runs.
                if all(part is None for part in parts) and self._refused(plain.__get__, node, now):
                    return True
        return False

    def _refused(self, get: Any, node: Any, now: Stillness) -> bool:
        try:
            now.read(map(get, (node,)))
        except RuntimeError as error:
            return _RELEASED in str(error)
        except DisturbedError:
            raise
        except Exception:
            pass
        return False

    def _names_of(self, kind: str, space: Dict[str, Any]) -> Tuple[str, ...]:
        names = self._raw_names.get(kind)
        if names is None:
            names = self._raw_names[kind] = tuple(one for one in space if one.startswith(RAW))
        return names

    def _several(self, get: Any, member: str, node: Any, now: Stillness) -> Optional[bool]:
        """Whether a member holds a list of saved tensors, or one; None where that is not known yet."""
        known = self._lists.get(member)
        if known is None:
            for raw in _read(now, map(type, map(get, (node,)))):
                if raw in (tuple, list) or raw is self._saved_type:
                    known = self._lists[member] = raw is not self._saved_type
        return known

    def _parts(self, get: Any, node: Any, now: Stillness) -> List[Parts]:
        """Return the hooks and tensors of a member that holds a list of them."""
        return _read(now, map(PARTS, islice(chain.from_iterable(map(get, (node,))), MAX_SAVED)))

    def _one(self, name: str, parts: Parts, hooks: List[Any]) -> Saved:
        hook, data = parts
        if self.checkpoints.is_hook(hook):
            hooks.append(hook)
        return name, data if self._kinds.of(data) >= TENSOR else None, None, self._packer(hook)

    def _packer(self, hook: Any) -> str:
        """Return the name of a function that unpacks, "" where there is none."""
        if hook is None:
            return ""
        if type(hook) is FunctionType:
            return _qualified(hook.__module__, hook.__qualname__) or "?"
        return labels.type_name(type(hook)) or "?"

    def _saved_by_python(self, node: Any, versions: bool, now: Stillness, hooks: List[Any]) -> Iterator[Saved]:
        """Yield what a custom Function (or a compiled one) saved, properly or as an attribute of its context."""
        members = vars(self._function) if self._function is not None else {}
        raws = members.get("_raw_saved_tensors")
        parts = [] if raws is None else self._parts(raws.__get__, node, now)
        found = [self._one("saved_tensors[%d]" % at, one, hooks) for at, one in enumerate(parts)]
        if versions and found and not any(one[3] for one in found):
            found = self._all_versions(members.get("saved_tensors"), node, found, now)
        yield from found
        space = (containers.instance_dict(node) if self._kinds.may_open(node) else None) or {}
        for name, value in list(islice(dict.items(space), MAX_SAVED)):
            if self._kinds.of(value) >= TENSOR:
                yield labels.key(name).strip("'"), value, None, ""

    def _all_versions(self, member: Any, node: Any, found: List[Saved], now: Stillness) -> List[Saved]:
        """Return `found` with versions: torch tells of the first that was changed."""
        current = [None if one[1] is None else self.version(one[1]) for one in found]
        try:
            now.read(map(member.__get__, (node,)))
        except RuntimeError as error:
            told = _VERSIONS.search(str(error))
            changed = [place for place, one in enumerate(current) if told is not None and one == int(told.group(1))]
            if told is None or len(changed) != 1:
                return found
            then: List[Optional[int]] = [None] * len(found)
            then[changed[0]] = int(told.group(2))
        except DisturbedError:
            raise
        except Exception:
            return found
        else:
            then = current
        return [(name, tensor, one, hook) for (name, tensor, _, hook), one in zip(found, then)]

    def _version_saved(self, get: Any, node: Any, data: Any, now: Stillness) -> Optional[int]:
        """Return the version at which `data` was saved: reading it succeeds, or raises with both numbers."""
        try:
            now.read(map(get, (node,)))
        except RuntimeError as error:
            told = _VERSIONS.search(str(error))
            return int(told.group(2)) if told is not None else None
        except DisturbedError:
            raise
        except Exception:
            return None
        return self.version(data)

    def version(self, tensor: Any) -> Optional[int]:
        """Return the version counter of `tensor`; inference tensors have none."""
        try:
            return int(self._version(tensor))
        except Exception:
            return None
