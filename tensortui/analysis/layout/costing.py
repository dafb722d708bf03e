"""What would it cost? Operations as typed, each with its outcome, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tensortui.analysis.layout import operations
from tensortui.analysis.layout.arguments import FORMATS, Arguments, UnclearError
from tensortui.analysis.layout.casting import DTYPE_ALIASES, to, view_dtype
from tensortui.analysis.layout.expression import EXAMPLES, parse
from tensortui.analysis.layout.outcome import IMPOSSIBLE, Outcome, same, view
from tensortui.analysis.layout.place import LayoutError, Place

_LARGEST = 1 << 63
_DEVICES = ("cpu", "cuda", "mps", "xpu", "meta", "hpu")


@dataclass(frozen=True, slots=True)
class Step:
    """One operation and what it comes to."""

    text: str
    outcome: Outcome


def cost(place: Place, text: str, absent: Collection[str] = ()) -> tuple[Step, ...]:
    """What each operation of `text` would do, up to the first that is impossible.

    LayoutError where the text is not understood; what PyTorch would refuse is an outcome. `absent` are the kinds of
    device that it is built without.
    """
    steps: list[Step] = []
    if place.packed > 1:
        raise LayoutError(f"elements of {place.dtype} share bytes: what operations on them cost is not told")
    for call in parse(text):
        function = _OPERATIONS.get(call.name)
        if function is None:
            raise LayoutError(f"{call.name} is not among what is told: write {EXAMPLES}")
        arguments = Arguments(call)
        try:
            outcome = function(place, arguments)
            if outcome.result is not None and _too_large(outcome.result):
                raise LayoutError("more elements than fit in 63 bits")
            if outcome.result is not None and (kind := outcome.result.device.partition(":")[0]) in absent:
                raise LayoutError(f"the PyTorch of this process is built without {kind}")
        except LayoutError as error:
            if isinstance(error, UnclearError):
                raise
            outcome = Outcome(IMPOSSIBLE, None, why=str(error))
        steps.append(Step(str(call), outcome))
        if outcome.result is None:
            break
        place = outcome.result
    return tuple(steps)


def _too_large(place: Place) -> bool:
    return place.numel >= _LARGEST or any(size >= _LARGEST for size in (*place.shape, *place.strides))


def _sizes(function: Callable[[Place, tuple[int, ...]], Outcome], *names: str) -> Callable[[Place, Arguments], Outcome]:
    def run(place: Place, arguments: Arguments) -> Outcome:
        sizes = arguments.numbers("it takes whole numbers", *names)
        arguments.end()
        return function(place, sizes)

    return run


def _view(place: Place, arguments: Arguments) -> Outcome:
    if arguments.starts_with_word:
        dtype = arguments.dtype()
        arguments.end()
        return view_dtype(place, dtype)
    return _sizes(operations.view_shape, "size")(place, arguments)


def _in_format(function: Callable[[Place, str], Outcome], default: str) -> Callable[[Place, Arguments], Outcome]:
    def run(place: Place, arguments: Arguments) -> Outcome:
        memory_format = arguments.memory_format(default)
        arguments.end()
        return function(place, memory_format)

    return run


def _flatten(place: Place, arguments: Arguments) -> Outcome:
    wanted = "it takes the first and the last dimension"
    start = arguments.number(wanted, "start_dim", default=0)
    end = arguments.number(wanted, "end_dim", default=-1)
    arguments.end()
    return operations.flatten(place, start, end)


def _unflatten(place: Place, arguments: Arguments) -> Outcome:
    wanted = "it takes a dimension and the sizes, as unflatten(0, (2, -1))"
    dim, sizes = arguments.number(wanted, "dim"), arguments.group(wanted, "sizes")
    arguments.end()
    return operations.unflatten(place, dim, sizes)


def _transpose(place: Place, arguments: Arguments) -> Outcome:
    wanted = "it takes two dimensions"
    one, two = arguments.number(wanted, "dim0"), arguments.number(wanted, "dim1")
    arguments.end()
    return operations.transpose(place, one, two)


def _t(place: Place, arguments: Arguments) -> Outcome:
    arguments.end()
    return operations.t(place)


def _all_reversed(place: Place, arguments: Arguments) -> Outcome:
    arguments.end()
    return operations.permute(place, tuple(range(len(place.shape) - 1, -1, -1)))


def _last_two(place: Place, arguments: Arguments) -> Outcome:
    arguments.end()
    if len(place.shape) == 1:
        raise LayoutError("mT is for matrices: at least 2 dimensions")
    return operations.transpose(place, -2, -1) if place.shape else same(place)


def _movedim(place: Place, arguments: Arguments) -> Outcome:
    wanted = "it takes from where and to where, as movedim(1, -1)"
    source, target = arguments.group(wanted, "source"), arguments.group(wanted, "destination")
    arguments.end()
    return operations.movedim(place, source, target)


def _squeeze(place: Place, arguments: Arguments) -> Outcome:
    if arguments.empty:
        return operations.squeeze(place)
    which = arguments.group("it takes a dimension, or several in brackets", "dim")
    arguments.end()
    return operations.squeeze(place, which)


def _unsqueeze(place: Place, arguments: Arguments) -> Outcome:
    dim = arguments.number("it takes a dimension", "dim")
    arguments.end()
    return operations.unsqueeze(place, dim)


def _select(place: Place, arguments: Arguments) -> Outcome:
    wanted = "it takes a dimension and an index"
    dim, index = arguments.number(wanted, "dim"), arguments.number(wanted, "index")
    arguments.end()
    return operations.select(place, dim, index)


def _narrow(place: Place, arguments: Arguments) -> Outcome:
    wanted = "it takes a dimension, the first index and how many"
    dim, start, length = (arguments.number(wanted, name) for name in ("dim", "start", "length"))
    arguments.end()
    return operations.narrow(place, dim, start, length)


def _ravel(place: Place, arguments: Arguments) -> Outcome:
    arguments.end()
    return operations.ravel(place)


def _to(place: Place, arguments: Arguments) -> Outcome:
    dtype = device = None
    memory_format = "preserve"
    always = arguments.flag("copy")
    arguments.flag("non_blocking")
    while (word := arguments.word("device", "dtype", "memory_format")) is not None:
        if word.partition(":")[0] in _DEVICES and device is None:
            device = word
        elif (plain := word.removesuffix("_format")) in FORMATS:
            memory_format = plain
        else:
            dtype = arguments.dtype(word)
    arguments.end()
    return to(place, dtype, device, memory_format, always=always)


def _becomes(dtype: str | None = None, device: str | None = None) -> Callable[[Place, Arguments], Outcome]:
    def run(place: Place, arguments: Arguments) -> Outcome:
        arguments.end()
        return to(place, dtype, device)

    return run


def _detach(place: Place, arguments: Arguments) -> Outcome:
    arguments.end()
    return view(place)


_OPERATIONS: Mapping[str, Callable[[Place, Arguments], Outcome]] = {
    "view": _view,
    "reshape": _sizes(operations.reshape, "shape"),
    "expand": _sizes(operations.expand, "size"),
    "broadcast_to": _sizes(operations.expand, "size"),
    "permute": _sizes(operations.permute, "dims"),
    "flatten": _flatten,
    "unflatten": _unflatten,
    "transpose": _transpose,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "t": _t,
    "T": _all_reversed,
    "mT": _last_two,
    "movedim": _movedim,
    "moveaxis": _movedim,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "select": _select,
    "narrow": _narrow,
    "ravel": _ravel,
    "contiguous": _in_format(operations.contiguous, "contiguous"),
    "clone": _in_format(operations.clone, "preserve"),
    "detach": _detach,
    "to": _to,
    "cpu": _becomes(device="cpu"),
    "cuda": _becomes(device="cuda"),
    **{name: _becomes(dtype=name) for name in ("bfloat16", "bool")},
    **{name: _becomes(dtype=dtype) for name, dtype in DTYPE_ALIASES.items()},
}
