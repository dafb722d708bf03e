"""The filter language: `device:cuda dtype:bf16 >10MiB name~attn category:saved -is:leaf shape:(*,1024)`.

A filter is a list of terms that must all hold; a leading `-` turns one round. A term is
- a plain word: a part of a name, in any case; quotes keep spaces together
- `field:value` is, `field:a,b` is one of, `field~text` contains (text fields)
- `field>value`, `>=`, `<`, `<=`, `=` (numbers); without a field it is about bytes: `>10MiB`, or `> 10 MiB`
- a bare word of FLAGS after `is:`, such as `is:leaf`, `is:view`
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tensortui.analysis.units import parse_bytes
from tensortui.errors import UsageError
from tensortui.model import CATEGORIES, Sample, Storage, Tensor

Predicate = Callable[[Tensor, Mapping[int, Storage]], bool]

DTYPES = {
    "f64": "float64", "double": "float64", "fp64": "float64",
    "f32": "float32", "float": "float32", "fp32": "float32",
    "f16": "float16", "half": "float16", "fp16": "float16",
    "bf16": "bfloat16",
    "c32": "complex32", "chalf": "complex32",
    "c64": "complex64", "cfloat": "complex64",
    "c128": "complex128", "cdouble": "complex128",
    "i8": "int8", "i16": "int16", "short": "int16", "i32": "int32", "int": "int32", "i64": "int64", "long": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "b8": "bool",
}  # fmt: skip
_PREFIXED_DTYPES = {"f8": "float8_", "fp8": "float8_", "f4": "float4_", "fp4": "float4_"}

_TOKEN = re.compile(r'(?:"[^"]*"?|\([^)]*\)?|[^\s"(])+')
# A size as it is written in prose, which is one term all the same.
_SPACED = re.compile(
    r"(?<!\S)(-?(?:bytes|size|distinct|distinct_bytes|storage_bytes)?)\s*([<>]=?)\s*(\d[\d.]*)\s*([kmgtpe]?i?b)(?!\S)",
    re.IGNORECASE,
)
_TERM = re.compile(r"(?P<field>[A-Za-z_]\w*)?(?P<op>:|~|>=|<=|>|<|=)(?P<value>.*)", re.DOTALL)
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq, ":": operator.eq,
}  # fmt: skip
_DIGITS = 20  # of the largest id or size
_SHOWN = 40  # characters of a value in the error about it
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


class FilterError(UsageError):
    """A filter that cannot be understood; `cause` says it in one line."""

    kind = "filter"


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter. An empty one lets everything through."""

    text: str
    predicates: tuple[Predicate, ...]
    by_name: bool = False  # whether a term asks for a name: what has none cannot pass it

    def __bool__(self) -> bool:
        """Whether it can leave anything out."""
        return bool(self.predicates)

    def matches(self, tensor: Tensor, storages: Mapping[int, Storage]) -> bool:
        """Whether one tensor passes."""
        return all(predicate(tensor, storages) for predicate in self.predicates)

    def select(self, sample: Sample, ids: Iterable[int] | None = None) -> list[int]:
        """The ids of `sample` (or those of `ids` that it has) that pass, in their order."""
        tensors, storages = sample.tensors, sample.storages
        if ids is None:
            chosen: Iterable[Tensor] = tensors.values()
        else:
            chosen = [tensors[tid] for tid in ids if tid in tensors]
        for predicate in self.predicates:
            chosen = [tensor for tensor in chosen if predicate(tensor, storages)]
        return [tensor.id for tensor in chosen]


def parse(text: str) -> Filter:
    """Parse a filter; raises FilterError with one line that says what is wrong."""
    tokens = _TOKEN.findall(_SPACED.sub(r"\1\2\3\4", text))
    return Filter(text, tuple(map(_term, tokens)), any(map(_asks_for_a_name, tokens)))


def _asks_for_a_name(token: str) -> bool:
    if token.startswith("-"):
        return False
    match = None if token.startswith('"') else _TERM.fullmatch(token)
    return match is None or (match["field"] or "").lower() == "name"


def _term(token: str) -> Predicate:
    negative = len(token) > 1 and token[0] == "-"
    predicate = _positive(token[1:] if negative else token)
    if not negative:
        return predicate
    return lambda tensor, storages: not predicate(tensor, storages)


def _positive(token: str) -> Predicate:
    match = None if token.startswith('"') else _TERM.fullmatch(token)
    if match is None:
        return _text(lambda tensor: tensor.names, _unquoted(token))
    name, op, value = match["field"], match["op"], match["value"]
    if name is None:
        if op in (":", "~"):
            raise FilterError(f"{token}: a field is missing before {op}")
        name = "bytes"
    field = _ALIASES.get(name.lower(), name.lower())
    if field not in FIELDS:
        near = difflib.get_close_matches(field, FIELDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"fields are {', '.join(sorted(FIELDS))}"
        raise FilterError(f"{token}: there is no field {name}; {hint}")
    if not value:
        raise FilterError(f"{token}: a value is missing after {op}")
    return FIELDS[field](field, op, _unquoted(value))


def _unquoted(value: str) -> str:
    return value.replace('"', "")


# One maker a kind of field: field, operator and value in, predicate out.


def _string(get: Callable[[Tensor], str | None], same: Callable[[str, str], bool] = operator.eq) -> _Maker:
    def make(field: str, op: str, value: str) -> Predicate:
        if op == "~":
            return _text(lambda tensor: (get(tensor) or "",), value)
        if op not in (":", "="):
            raise FilterError(f"{field}{op}{value}: {field} is text; use {field}:value or {field}~part")
        wanted = [one.lower() for one in value.split(",") if one]

        def predicate(tensor: Tensor, _: Mapping[int, Storage]) -> bool:
            text = get(tensor)
            if text is None:
                return "none" in wanted
            text = text.lower()
            return any(same(text, one) for one in wanted)

        return predicate

    return make


def _text(get: Callable[[Tensor], Iterable[str]], part: str) -> Predicate:
    part = part.lower()
    return lambda tensor, _: any(part in text.lower() for text in get(tensor))


def _name(field: str, op: str, value: str) -> Predicate:
    if op == "~":
        return _text(lambda tensor: tensor.names, value)
    if op not in (":", "="):
        raise FilterError(f"{field}{op}{value}: {field} is text; use {field}:value or {field}~part")
    wanted = value.lower()
    if wanted == "none":
        return lambda tensor, _: not tensor.names
    return lambda tensor, _: any(name.lower() == wanted for name in tensor.names)


def _number(get: Callable[[Tensor, Mapping[int, Storage]], int | None], *, size: bool = False) -> _Maker:
    def make(field: str, op: str, value: str) -> Predicate:
        compare = _COMPARE.get(op)
        if compare is None:
            raise FilterError(f"{field}{op}{value}: {field} is a number; use {field}>value")
        if value.lower() == "none" and op in (":", "="):
            return lambda tensor, storages: get(tensor, storages) is None
        number = parse_bytes(value) if size else _whole(value)
        if number is None:
            kind = "a size such as 10MiB" if size else f"a whole number of at most {_DIGITS} digits"
            raise FilterError(f"{field}{op}{_short(value)}: {_short(value)} is not {kind}")
        wanted = number

        def predicate(tensor: Tensor, storages: Mapping[int, Storage]) -> bool:
            found = get(tensor, storages)
            return found is not None and compare(found, wanted)

        return predicate

    return make


def _whole(text: str) -> int | None:
    """The number that `text` is; None where it is none, or one that no field can be."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _boolean(get: Callable[[Tensor], bool | None]) -> _Maker:
    def make(field: str, op: str, value: str) -> Predicate:
        word = value.lower()
        if op not in (":", "=") or word not in (*_TRUE, *_FALSE):
            raise FilterError(f"{field}{op}{value}: {field} is yes or no; use {field}:yes")
        wanted = word in _TRUE
        return lambda tensor, _: get(tensor) is wanted

    return make


def _shape(field: str, op: str, value: str) -> Predicate:
    if op not in (":", "="):
        raise FilterError(f"{field}{op}{value}: use {field}:(4,*,128)")
    parts = [part for part in re.split(r"[\s,x×]+", value.strip("()[]").strip()) if part]
    dims: list[int | None] = []
    open_ended = False
    for at, part in enumerate(parts):
        if part == "..." and at == len(parts) - 1:
            open_ended = True
        elif part == "*":
            dims.append(None)
        elif (number := _whole(part)) is not None:
            dims.append(number)
        else:
            raise FilterError(
                f"{field}{op}{_short(value)}: {_short(part)} is not a size; use numbers, * for any, ... for the rest"
            )

    def predicate(tensor: Tensor, _: Mapping[int, Storage]) -> bool:
        found = tensor.strides if field == "strides" else tensor.shape
        if found is None or (len(found) < len(dims) if open_ended else len(found) != len(dims)):
            return False
        return all(want is None or want == have for want, have in zip(dims, found, strict=False))

    return predicate


def _is(field: str, op: str, value: str) -> Predicate:
    if op not in (":", "="):
        raise FilterError(f"{field}{op}{value}: use {field}:view")
    words = [word.lower() for word in value.split(",") if word]
    for word in words:
        if word not in FLAGS and word not in _STATES:
            near = difflib.get_close_matches(word, (*FLAGS, *_STATES), 1)
            hint = f"did you mean {near[0]}?" if near else f"flags are {', '.join((*FLAGS, *_STATES))}"
            raise FilterError(f"{field}{op}{value}: there is no flag {word}; {hint}")
    checks = [_STATES.get(word) or _flag(word) for word in words]
    return lambda tensor, _: any(check(tensor) for check in checks)


def _flag(word: str) -> Callable[[Tensor], bool]:
    return lambda tensor: word in tensor.flags


def _category(field: str, op: str, value: str) -> Predicate:
    if op in (":", "="):
        for word in value.lower().split(","):
            if word and word not in CATEGORIES:
                near = difflib.get_close_matches(word, CATEGORIES, 1)
                hint = f"did you mean {near[0]}?" if near else f"categories are {', '.join(CATEGORIES)}"
                raise FilterError(f"{field}{op}{value}: there is no category {word}; {hint}")
    return _string(lambda tensor: tensor.category)(field, op, value)


def _dtype(field: str, op: str, value: str) -> Predicate:
    if op in (":", "="):
        words = [word.removeprefix("torch.") for word in value.lower().split(",")]
        value = ",".join(_PREFIXED_DTYPES.get(word) or DTYPES.get(word, word) for word in words)
    same = _string(
        lambda tensor: tensor.dtype, lambda text, want: text.startswith(want) if want[-1] == "_" else text == want
    )
    return same(field, op, value)


def _storage_bytes(tensor: Tensor, storages: Mapping[int, Storage]) -> int | None:
    storage = storages.get(tensor.storage) if tensor.storage is not None else None
    return None if storage is None else storage.bytes


def _backing(field: str, op: str, value: str) -> Predicate:
    wanted = value.lower().split(",")
    if op not in (":", "="):
        raise FilterError(f"{field}{op}{value}: use {field}:shared")

    def predicate(tensor: Tensor, storages: Mapping[int, Storage]) -> bool:
        storage = storages.get(tensor.storage) if tensor.storage is not None else None
        return (storage.backing if storage is not None else "none") in wanted

    return predicate


def _numel(tensor: Tensor, _: Mapping[int, Storage]) -> int | None:
    if tensor.shape is None:
        return None
    count = 1
    for size in tensor.shape:
        count *= size
    return count


_Maker = Callable[[str, str, str], Predicate]
FLAGS = (
    "view", "base-only", "transposed", "expanded", "overlapping", "conj", "neg", "inference", "quantized", "nested",
    "sparse", "meta", "fake", "subclass",
)  # fmt: skip
_STATES: dict[str, Callable[[Tensor], bool]] = {
    "leaf": lambda tensor: tensor.is_leaf is True,
    "grad": lambda tensor: tensor.requires_grad is True,
    "contiguous": lambda tensor: tensor.contiguous is True,
    "named": lambda tensor: bool(tensor.names),
    "cpp-only": lambda tensor: not tensor.python,
}
FIELDS: dict[str, _Maker] = {
    "name": _name,
    "type": _string(lambda tensor: tensor.type),
    "device": _string(lambda tensor: tensor.device, lambda text, want: text == want or text.startswith(want + ":")),
    "dtype": _dtype,
    "layout": _string(lambda tensor: tensor.layout),
    "format": _string(lambda tensor: tensor.memory_format),
    "grad_fn": _string(lambda tensor: tensor.grad_fn),
    "category": _category,
    "backing": _backing,
    "shape": _shape,
    "strides": _shape,
    "is": _is,
    "bytes": _number(lambda tensor, _: tensor.bytes, size=True),
    "distinct": _number(lambda tensor, _: tensor.distinct_bytes, size=True),
    "storage_bytes": _number(_storage_bytes, size=True),
    "numel": _number(_numel),
    "ndim": _number(lambda tensor, _: None if tensor.shape is None else len(tensor.shape)),
    "offset": _number(lambda tensor, _: tensor.offset),
    "version": _number(lambda tensor, _: tensor.version),
    "storage": _number(lambda tensor, _: tensor.storage),
    "id": _number(lambda tensor, _: tensor.id),
    "contiguous": _boolean(lambda tensor: tensor.contiguous),
    "requires_grad": _boolean(lambda tensor: tensor.requires_grad),
    "leaf": _boolean(lambda tensor: tensor.is_leaf),
    "python": _boolean(lambda tensor: tensor.python),
}
_ALIASES = {
    "dev": "device", "cat": "category", "size": "bytes", "dim": "ndim", "stride": "strides", "flag": "is",
    "flags": "is", "is_leaf": "leaf", "memory_format": "format", "distinct_bytes": "distinct", "names": "name",
    "ver": "version",
}  # fmt: skip
