"""What viewers ask, checked: whatever is of a wrong type or out of range ends the connection that it came by."""

from typing import Any, Callable, Dict, List, Optional

from tensortui.wire.frames import Header, WireError
from tensortui.wire.messages import WATCH_LIMIT

MAX_WORD = 200  # characters of a name that a viewer gives its request
MAX_ROOTS = 10_000
LONGEST_INTERVAL = 86400.0
INT64 = 1 << 63


def _number(value: Any) -> int:
    if type(value) is not int or not -INT64 < value < INT64:
        raise WireError("a number is not one")
    return value


def _numbers(value: Any, limit: int) -> List[int]:
    if not isinstance(value, list):
        raise WireError("a list is not one")
    return [_number(one) for one in value[:limit]]


def _name(value: Any) -> Any:
    """What tells a request from others, sent back as it came: null, a number or a short string."""
    if value is None or (type(value) is str and len(value) <= MAX_WORD):
        return value
    return _number(value)


def _interval(value: Any) -> Optional[float]:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= LONGEST_INTERVAL:
        raise WireError("an interval is not one")
    return float(value)


def _ids(value: Any) -> List[int]:
    return _numbers([] if value is None else value, WATCH_LIMIT)


def _roots(value: Any) -> Optional[List[int]]:
    return None if value is None else _numbers(value, MAX_ROOTS)


def _limit(value: Any) -> Optional[int]:
    return None if value is None else max(_number(value), 0)


def _protocols(value: Any) -> List[int]:
    """The lowest and the highest that a viewer speaks; none where it says something else."""
    try:
        return _numbers(value, 2)
    except WireError:
        return []


def _token(value: Any) -> str:
    return value if type(value) is str else ""


FIELDS: Dict[str, Dict[str, Callable[[Any], Any]]] = {
    "hello": {"protocols": _protocols, "token": _token},
    "subscribe": {"interval": _interval},
    "watch": {"ids": _ids},
    "refresh": {"request": _name},
    "graph": {"request": _name, "roots": _roots, "limit": _limit},
    "holders": {"request": _name, "tensor": _number, "limit": _limit},
    "cancel": {"request": _name},
    "detach": {"request": _name, "if_alone": bool},
}


def checked(header: Header) -> Header:
    """Return a request with each field of its kind, whether it was given or not, and no other; raises WireError.

    Kinds that are not known pass without a field: a later viewer may know more.
    """
    kind: str = header["t"]
    fields = FIELDS.get(kind, {})
    return {"t": kind, **{name: check(header.get(name)) for name, check in fields.items()}}
