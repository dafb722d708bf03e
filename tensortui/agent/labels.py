"""Names for what hangs below an object, made only from objects of exact builtin types: no user code runs."""

import re
from typing import Any

MAX_KEY = 60  # characters of one key
IN_FRAME = " @ "  # in a name, before the frame that a variable belongs to: nothing else in a name may look like it
CLOSURE = ".<closure>."  # in a name, between a function and a variable that it has closed over
NO_FRAME = r" \x40 "
_LINE = re.compile(r":\d+(?= \[|$)")
MAX_NAME = 400  # characters of a whole name
_PLAIN = (int, float, bool, complex, bytes, type(None), type(Ellipsis))
_NAME = type.__dict__["__name__"].__get__


def key(thing: Any, depth: int = 2) -> str:
    """Return a short printable ASCII-or-letter label for a dictionary key; `<TypeName>` where its repr is not ours."""
    kind = type(thing)
    if kind is str:
        return clip(safe(repr(middle(thing))), MAX_KEY)
    if kind is int and not -(1 << 200) < thing < 1 << 200:
        return "<int>"
    if kind is bytes:
        return clip(safe(repr(thing[:MAX_KEY])), MAX_KEY)
    for plain in _PLAIN:
        if kind is plain:
            return repr(thing)
    if kind is tuple and depth:
        parts = [key(one, depth - 1) for one in thing[:8]]
        if len(thing) > 8:
            parts.append("...")
        return clip("(%s%s)" % (", ".join(parts), "," if len(thing) == 1 else ""), MAX_KEY)
    return "<%s>" % type_name(kind)


def type_name(kind: type) -> str:
    """Return the name of a class, made safe."""
    name = _NAME(kind)
    return clip(safe(name), MAX_KEY) if type(name) is str else "object"


def attribute(name: Any) -> str:
    """Return how `name` is written as an attribute of what stands before it."""
    if type(name) is str and name.isidentifier() and name.isascii() and len(name) <= MAX_KEY:
        return "." + name
    return ".__dict__[%s]" % key(name)


def member(name: Any) -> str:
    """Return how a parameter, buffer or submodule is written, as torch does: `.0`, `.weight`."""
    if type(name) is str and name.isprintable() and len(name) <= MAX_KEY and IN_FRAME not in name:
        return "." + name
    return "[%s]" % key(name)


def variable(name: Any) -> str:
    """Return how the variable `name` is written; what is no identifier is quoted."""
    if type(name) is str and name.isidentifier() and len(name) <= MAX_KEY:
        return safe(name)
    return "globals()[%s]" % key(name)


def without_line(name: str) -> str:
    """Return the name of a variable, or what follows it, without the line at which its function is by now."""
    path, at, frame = name.partition(IN_FRAME)
    return path + at + _LINE.sub("", frame, count=1) if at else name


def middle(text: str) -> str:
    """Return `text` with its middle left out where it is too long for a key."""
    if len(text) <= MAX_KEY - 2:
        return text
    half = (MAX_KEY - 5) // 2
    return text[:half] + "..." + text[-half:]


def clip(text: str, limit: int = MAX_NAME) -> str:
    """Return `text`, its middle replaced by three dots where it is longer than `limit`."""
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return text[: limit - 3 - half] + "..." + text[-half:]


def safe(text: str) -> str:
    """Return `text` with everything that is not printable escaped: control, bidi and surrogate characters."""
    while IN_FRAME in text:  # one may begin with the end of another
        text = text.replace(IN_FRAME, NO_FRAME)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
