"""Strings that come from a target, made safe for a terminal: no control, no bidi override, a known width."""

from __future__ import annotations

import re
import unicodedata

# C0 and C1 controls, DEL, line and paragraph separators, bidi marks, embeddings, overrides and isolates, zero-width
# characters, variation of interlinear annotation, the byte order mark, tags, and lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def safe(text: str) -> str:
    """Return `text` with every character that a terminal could obey, or hide, written out as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """The cells `text` takes on a terminal; for text that went through `safe`."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def truncate(text: str, cells: int, *, ellipsis: str = "…", keep: str = "start") -> str:
    """Cut safe `text` to `cells`, the cut marked. `keep` says what matters: "start", "end" or "both".

    Of both the end gets two thirds: names that begin alike are told apart there.
    """
    if width(text) <= cells:
        return text
    room = cells - width(ellipsis)
    if room <= 0:
        return ellipsis[: max(0, cells)]
    if keep == "start":
        return _head(text, room) + ellipsis
    if keep == "end":
        return ellipsis + _tail(text, room)
    head = -(-room // 3)
    return _head(text, head) + ellipsis + _tail(text, room - head)


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Cut or fill `text` to exactly `cells`; `right` aligns it to the right."""
    text = truncate(text, cells)
    fill = " " * (cells - width(text))
    return fill + text if right else text + fill


def _head(text: str, cells: int) -> str:
    used = 0
    for at, char in enumerate(text):
        used += _char_width(char)
        if used > cells:
            return text[:at]
    return text


def _tail(text: str, cells: int) -> str:
    used = 0
    for at in range(len(text) - 1, -1, -1):
        used += _char_width(text[at])
        if used > cells:
            # A combining mark without its letter would join the ellipsis.
            return text[at + 1 :].lstrip("".join(c for c in text[at + 1 :] if _char_width(c) == 0))
    return text
