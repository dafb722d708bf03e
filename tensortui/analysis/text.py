"""Strings that come from a target, made safe for a terminal: no control, no bidi override, a known width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

# C0 and C1 controls, DEL, line and paragraph separators, bidi marks, embeddings, overrides and isolates, zero-width
# characters, variation of interlinear annotation, the byte order mark, tags, and lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_DIGITS = re.compile(r"\d+")
_NUMBER_CELLS = 12
_LEAST_WORD = 5
_COMMON = ("weight", "bias")
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


def shorten(name: str, cells: int, *, ellipsis: str = "…") -> str:
    """Cut the safe name of a tensor to `cells` so that what tells it from its siblings stays.

    The path gives way first, from its root on, then what stands between its numbers and its last word; of
    "exp_avg of a.path" and of "row @ a frame" both sides keep a part.
    """
    if width(name) <= cells:
        return name
    variable, at, frame = name.partition(" @ ")
    if at:
        room = max(cells - width(at) - width(variable), cells // 3)
        return truncate(truncate(variable, cells - room, ellipsis=ellipsis) + at + frame, cells, ellipsis=ellipsis)
    if " saved by " in name:
        return truncate(name, cells, ellipsis=ellipsis)
    lead, of, path = name.rpartition(" of ")
    for short in dict.fromkeys([lead, _initial(lead, 4, ellipsis), _initial(lead, 2, ellipsis)]):
        for stem, last in _shorter(path, ellipsis):
            if width(text := short + of + stem + last) <= cells:
                return text
    room = cells - width(short + of + stem)
    if room >= _LEAST_WORD and stem:
        return short + of + stem + truncate(last, room, ellipsis=ellipsis, keep="both")
    return truncate(name, cells, ellipsis=ellipsis, keep="both")


def _initial(word: str, cells: int, ellipsis: str) -> str:
    """Both ends of a word: exp_avg and exp_avg_sq begin alike."""
    short = _head(word, cells) + ellipsis + _tail(word, cells)
    return short if width(short) < width(word) else word


def _shorter(path: str, ellipsis: str) -> Iterator[tuple[str, str]]:
    """A dotted path before its last word, and that word, shorter and shorter; words with numbers in them stay."""
    words = path.removesuffix(".grad").split(".")
    if len(words) > 1 and words[-1] in _COMMON:
        words[-2:] = [".".join(words[-2:])]  # alone it would tell nothing
    words[-1] += path[len(path.removesuffix(".grad")) :]
    last = len(words) - 1
    kept = [at for at, word in enumerate(words) if at == last or any(map(str.isdigit, word))]
    yield "".join(f"{word}." for word in words[:-1]), words[-1]
    for start in range(1, kept[0] + 1):
        yield ellipsis + "".join(f"{word}." for word in words[start:-1]), words[-1]
    for gone in range(kept[0] + 1, last):
        if gone not in kept:
            left = [at for at in range(kept[0], last + 1) if at > gone or at in kept]
            parts = [words[at] + ("." if after - 1 == at else ellipsis) for at, after in pairwise(left)]
            yield (ellipsis if kept[0] else "") + "".join(parts), words[-1]


def natural(text: str) -> str:
    """A key to sort by that takes numbers as numbers: layer 9 comes before layer 10."""
    return _DIGITS.sub(lambda match: match[0].zfill(_NUMBER_CELLS), text.lower())


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
