"""Read the attributes of one tensor, each on its own, None where it raises; no value is read, no user code run."""

import sys
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from tensortui.agent import labels
from tensortui.agent.edges import PYTHON
from tensortui.agent.grad_fn import NodeNames
from tensortui.agent.nodes import DEPTHS
from tensortui.agent.sparse import SparseSize
from tensortui.wire.messages import TENSOR_FLAGS

BIT = {name: 1 << place for place, name in enumerate(TENSOR_FLAGS)}
VIEW, BASE_ONLY, CPP_ONLY = BIT["view"], BIT["base-only"], BIT["cpp-only"]
CONJ, NEG, INFERENCE, QUANTIZED = BIT["conj"], BIT["neg"], BIT["inference"], BIT["quantized"]
NESTED, SPARSE, META, FAKE, SUBCLASS = BIT["nested"], BIT["sparse"], BIT["meta"], BIT["fake"], BIT["subclass"]

_type_mro = type.__dict__["__mro__"].__get__
_type_dict = type.__dict__["__dict__"].__get__


class Kind:
    """What is known of one tensor type, found without running any of its code."""

    __slots__ = ("flags", "name", "opaque", "type", "unsized")

    def __init__(self, kind: type, torch: Any) -> None:
        """Look at the classes of the type's method resolution order."""
        self.type = weakref.ref(kind)
        self.name = labels.type_name(kind)
        plain = kind is torch.Tensor or kind is torch.nn.Parameter
        self.flags = 0 if plain else SUBCLASS
        # A class with its own __torch_dispatch__ may answer sizes and strides by Python code of its own; torch's own
        # classes are trusted, of others only what never dispatches is read.
        own = [c for c in _type_mro(kind) if "__torch_dispatch__" in _type_dict(c)]
        disabled = _type_dict(torch.Tensor).get("__torch_dispatch__")
        custom = bool(own) and _type_dict(own[0]).get("__torch_dispatch__") is not disabled
        mixin = vars(torch.nn.parameter).get("UninitializedTensorMixin")
        self.unsized = any(one is mixin for one in _type_mro(kind))  # a lazy module's parameter: it has no shape yet
        module = _type_dict(kind).get("__module__")
        self.opaque = custom and not (type(module) is str and (module == "torch" or module.startswith("torch.")))
        if self.name == "FakeTensor" and not self.opaque and custom:
            self.flags |= FAKE


class Facts:
    """What one reading of a tensor gave."""

    __slots__ = (
        "address", "base", "bytes", "device", "dtype", "flags", "grad_fn", "is_leaf", "layout", "nbytes", "offset",
        "owners", "requires_grad", "shape", "storage_id", "strides", "type", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        """Start with nothing read."""
        self.address: Optional[int] = None  # of the storage
        self.nbytes: Optional[int] = None  # of the storage
        self.storage_id: Optional[int] = None
        self.base: Any = None  # the tensor this one is a view of: drop it as soon as it is tracked
        self.owners: Optional[int] = None  # C++ references besides the Python object's own
        self.bytes: Optional[int] = None
        self.shape: Optional[Tuple[int, ...]] = None
        self.strides: Optional[Tuple[int, ...]] = None
        self.offset: Optional[int] = None
        self.dtype: Optional[str] = None
        self.device: Optional[str] = None
        self.layout: Optional[str] = None
        self.requires_grad: Optional[bool] = None
        self.is_leaf: Optional[bool] = None
        self.version: Optional[int] = None
        self.grad_fn: Optional[str] = None
        self.flags = 0
        self.type = ""


def plain_ints(values: Any) -> Optional[Tuple[int, ...]]:
    """Return a shape as a tuple of exact ints; None where a size is symbolic."""
    sizes = tuple(values)
    for size in sizes:
        if type(size) is not int:
            return None
    return sizes


class TensorReader:
    """Reads tensors with the functions this torch has. Call it inside `guard()`."""

    def __init__(self, torch: Any, nbytes_of: Callable[[int, Any], Optional[int]]) -> None:
        """Look up what this torch offers; `nbytes_of(storage id, tensor)` gives the size of a storage."""
        inner = torch._C
        self._torch = torch
        self._base = getattr(inner, "TensorBase", None) or inner._TensorBase
        guard = getattr(inner, "DisableTorchFunctionSubclass", None) or inner.DisableTorchFunction
        self.guard: Callable[[], Any] = guard
        self._storage_id = getattr(inner, "_storage_id", None)
        self._data_address = getattr(inner, "_data_address", None)
        self._nbytes_of = nbytes_of
        self._sparse = SparseSize(torch)
        self.nodes = NodeNames(torch)
        self._keys = inner._dispatch_keys
        key, bits = inner.DispatchKey, inner.DispatchKeySet
        self._key_flags = [(bits(key.Conjugate).raw_repr(), CONJ), (bits(key.Negative).raw_repr(), NEG)]
        self._normal_key: int = bits(key.ADInplaceOrView).raw_repr()  # every tensor but those of inference mode has it
        self._kinds: Dict[int, Kind] = {}
        self._names: Dict[Any, str] = {}

    def kind(self, kind: type) -> Kind:
        """Return what is known of a tensor type."""
        known = self._kinds.get(id(kind))
        if known is None or known.type() is not kind:
            if len(self._kinds) > 10_000:
                self._kinds.clear()
            known = self._kinds[id(kind)] = Kind(kind, self._torch)
        return known

    def _name(self, thing: Any) -> str:
        """`str()` of a dtype, layout or device, remembered."""
        name = self._names.get(thing)
        if name is None:
            name = str(thing)
            name = self._names[thing] = name[6:] if name.startswith("torch.") else name
        return name

    def read(self, tensor: Any) -> Facts:
        """Read everything that is safe to read of `tensor`."""
        facts = Facts()
        kind = self.kind(type(tensor))
        facts.type, facts.flags = kind.name, kind.flags
        get = self._base
        self._read_storage(tensor, facts)
        if not kind.opaque:
            self._read_geometry(tensor, facts)
        if kind.unsized:
            facts.shape = facts.strides = facts.offset = None
        try:
            facts.dtype = self._name(get.dtype.__get__(tensor))
        except Exception:
            pass
        try:
            facts.version = get._version.__get__(tensor)
        except Exception:
            pass
        try:
            facts.is_leaf = get.is_leaf.__get__(tensor)
            facts.requires_grad = get.requires_grad.__get__(tensor)
        except Exception:
            pass
        # That of a view changed in place would be made anew.
        if facts.is_leaf is False and not (facts.flags & VIEW and facts.version != 0):
            facts.grad_fn = self.nodes.of(tensor) if self.nodes.usable else PYTHON
            if facts.grad_fn == PYTHON:
                facts.grad_fn = self._node_of_python(tensor)
        return facts

    def _node_of_python(self, tensor: Any) -> Optional[str]:
        """Return the name of a node that is written in Python, which has an object anyway, or of one that may be.

        Others get an object with that, which makes freeing a chain deeper.
        """
        if not self.nodes.usable and not DEPTHS.may_touch(None):
            DEPTHS.unnamed = True
            return None
        try:
            node = self._base.grad_fn.__get__(tensor)
            if node is not None:
                DEPTHS.touched(node, *DEPTHS.measure(node))
                return labels.type_name(type(node))
        except Exception:
            pass
        return None

    def _read_storage(self, tensor: Any, facts: Facts) -> None:
        get = self._base
        try:
            if self._storage_id is not None:
                facts.storage_id = self._storage_id(tensor)
            if self._data_address is not None:
                facts.address = self._data_address(tensor)
            if facts.storage_id:
                facts.nbytes = self._nbytes_of(facts.storage_id, tensor)
        except Exception:
            pass
        try:
            facts.owners = get._use_count(tensor) - 1
        except Exception:
            pass
        try:
            base = get._base.__get__(tensor)
            if base is not None:
                facts.flags |= VIEW
                facts.base = base
        except Exception:
            pass

    def _read_geometry(self, tensor: Any, facts: Facts) -> None:
        get = self._base
        try:
            facts.device = self._name(get.device.__get__(tensor))
        except Exception:
            pass
        try:
            facts.layout = self._name(get.layout.__get__(tensor))
        except Exception:
            pass
        try:
            facts.shape = plain_ints(get.shape.__get__(tensor))
        except Exception:
            pass
        try:
            facts.flags |= self._state(tensor)
        except Exception:
            pass
        if facts.layout == "strided" and not facts.flags & NESTED:
            try:
                facts.strides = plain_ints(get.stride(tensor))
                facts.offset = get.storage_offset(tensor)
            except Exception:
                pass
            if facts.shape is None:
                facts.strides = None
        elif facts.shape is None or facts.layout != "strided":
            facts.bytes = self._bytes(tensor, facts)

    def _state(self, tensor: Any) -> int:
        get = self._base
        flags = 0
        # From the dispatch keys: is_conj() and its like give up the GIL, and with a reference in our hand the target
        # could find alive what it has just deleted.
        keys = self._keys(tensor).raw_repr()
        for bit, flag in self._key_flags:
            if keys & bit:
                flags |= flag
        if not keys & self._normal_key:
            flags |= INFERENCE
        if get.is_quantized.__get__(tensor):
            flags |= QUANTIZED
        if get.is_nested.__get__(tensor):
            flags |= NESTED
        if get.is_meta.__get__(tensor):
            flags |= META
        return flags

    def _bytes(self, tensor: Any, facts: Facts) -> Optional[int]:
        if facts.layout is not None and facts.layout.startswith("sparse"):
            facts.flags |= SPARSE
            return self._sparse.of(tensor, facts.layout)
        return int(self._base.nbytes.__get__(tensor))


def calibrate_references() -> int:
    """Return how many references to a thing `references` itself counts."""

    class Probe:
        __slots__ = ("__weakref__",)

    probes: List[Any] = [Probe()]
    return references(weakref.ref(probes[0])) - 1


def references(ref: Any) -> int:
    """Return the reference count of what `ref` points to, with the few that this function adds."""
    thing = ref()
    return sys.getrefcount(thing)
