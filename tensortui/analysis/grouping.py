"""What tensors can be grouped by, besides their storage: category, holder, shape."""

from __future__ import annotations

import re
from collections.abc import Callable

from tensortui.model import Tensor

NO_HOLDER = "(no name)"

# "rows[3] @ step() train.py:42 [loader]": a frame local. The line is where the frame is by now: it tells nothing apart.
_LOCAL = re.compile(r"(?P<path>\S.*) @ (?P<frame>\S+\(\) .+?)(?::\d+)?(?P<thread> \[.+\])?")
# "exp_avg of model.weight": optimizer state; it belongs with its parameter.
_STATE = re.compile(r"[\w\[\]'\"]+ of (?P<parameter>.+)")


_LINE = re.compile(r":\d+(?= \[|$)")


def without_line(name: str) -> str:
    """A name without the line at which the function is by now: that moves with each sample."""
    return _LINE.sub("", name)


def holder_of(name: str) -> str:
    """The module, container or frame that holds the tensor of this name."""
    local = _LOCAL.fullmatch(name)
    frame = local["frame"] + (local["thread"] or "") if local else ""
    name = local["path"] if local else name
    state = _STATE.fullmatch(name)
    if state:
        name = state["parameter"]
    name = name.removesuffix(".grad")
    cut = _last_step(name)
    if local:
        return f"{name[:cut]} @ {frame}" if cut else frame
    return name[:cut] or name


def _last_step(name: str) -> int:
    """Where the last attribute or the last subscripts of a name begin; 0 where it has none."""
    # Cut at the last dot or bracket outside quotes: what is left holds it.
    quote = ""
    cut = 0
    depth = 0
    for at, char in enumerate(name):
        if quote:
            quote = "" if char == quote and name[at - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            cut = at if depth == 0 else cut
            depth += 1
        elif char == "]":
            depth -= 1
        elif char == "." and depth == 0:
            cut = at
    return cut


def _holder(tensor: Tensor) -> str:
    return holder_of(tensor.names[0]) if tensor.names else NO_HOLDER


def _shape(tensor: Tensor) -> str:
    if tensor.shape is None:
        return "shape n/a"
    dims = ", ".join(map(str, tensor.shape)) + ("," if len(tensor.shape) == 1 else "")
    return f"({dims}) {tensor.dtype or 'dtype n/a'} {tensor.device or 'device n/a'}"


KEYS: dict[str, Callable[[Tensor], str]] = {
    "category": lambda tensor: tensor.category,
    "holder": _holder,
    "shape": _shape,
}
