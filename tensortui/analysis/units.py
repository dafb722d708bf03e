"""Sizes, counts and durations in words: IEC units (KiB, MiB, GiB), and back."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([kmgtpe]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5, "e": 6}


def format_bytes(count: int | None, *, none: str = "n/a") -> str:
    """98.25 MiB, 1010.5 MiB, in at most ten cells below 10,000 EiB; plain bytes below 1 KiB."""
    if count is None:
        return none
    if abs(count) < 1024:
        return f"{count} B"
    if abs(count) >= 10_000 << 60:
        return f"{Decimal(count >> 60):.1e} {_UNITS[-1]}"
    value = float(count)
    for unit in _UNITS:
        # 1023.96 would print as 1024.0: it goes to the next unit.
        if abs(round(value, 1)) < 1024 or unit == _UNITS[-1]:
            return f"{value:.1f} {unit}" if abs(value) >= 999.995 else f"{value:.2f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def format_number(number: int | None, cells: int, *, none: str = "n/a") -> str:
    """A number in at most `cells` (six or more): exact where it fits, else rounded, as 12.3M."""
    if number is None:
        return none
    if -(10 ** (cells - 1)) < number < 10**cells:
        return str(number)
    if abs(number) >= 10**21:
        return f"{Decimal(number):.0e}"
    value = float(number)
    for unit in "kMGTPE":
        value /= 1000
        if abs(round(value, 1)) < 1000:
            return f"{value:.1f}{unit}"
    return f"{Decimal(number):.0e}"


def format_count(count: int | None, *, none: str = "n/a") -> str:
    """9,214."""
    return none if count is None else f"{count:,}"


def format_many(count: int, noun: str) -> str:
    """1 tensor, 9,214 tensors."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_share(share: float | None, *, none: str = "n/a") -> str:
    """0.3 %; what is small but there is never shown as 0."""
    if share is None:
        return none
    percent = share * 100
    if percent >= 99.95 or percent == 0:
        return f"{percent:.0f} %"
    if percent >= 0.1:
        return f"{percent:.1f} %"
    return f"{percent:.2f} %" if percent >= 0.01 else "<0.01 %"


def format_age(seconds: float) -> str:
    """0.4 s, 12 s, 3 min, 2 h, 4 d."""
    seconds = max(0.0, seconds)
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 9.95 and unit == "s" else f"{value:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def parse_bytes(text: str) -> int | None:
    """Bytes of "10MiB", "1.5g", "512", "2MB"; None for anything else. K, M, G alone are IEC; KB, MB, GB decimal."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    digits, prefix, iec, byte = match.groups()
    if iec and not prefix:
        return None
    base = 1000 if prefix and byte and not iec else 1024
    size = float(digits) * float(base ** _POWERS[prefix.lower()])
    return round(size) if math.isfinite(size) else None
