"""Strings that come from a target, made safe for a terminal: no control, no bidi override, a known width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

# Characters that show nothing, though Unicode calls them letters or marks: fillers, joiners and variation selectors.
# How much room a variation selector makes is for each terminal to say.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
# Wide since Unicode 16, which not every Python knows: trigrams, digrams, hexagrams, counting rods.
_WIDE = re.compile("[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d376]")
# Part of the character before: marks, vowels and finals of Hangul, skin tones.
_JOINED = re.compile("[\u1160-\u11ff\ud7b0-\ud7fb\U0001f3fb-\U0001f3ff]")
_DIGITS = re.compile(r"\d+")
_NUMBER_CELLS = 12
_NUMBERED = re.compile(r"([^\W\d]+)(\d+)")  # layer1
_LEAST_WORD = 5
_LEAST_VARIABLE, _LEAST_FUNCTION, _LEAST_FILE, _LEAST_THREAD = 20, 5, 8, 5
_FRAME = re.compile(r"(?P<function>\S+)\(\) (?P<file>.+?)(?P<line>:\d+)?(?P<thread> \[.+\])?")
_LETTERS = (1 << 10, 4, 2, 1)  # of each word of a path, fewer and fewer
_COMMON = ("weight", "bias")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def safe(text: str) -> str:
    """Return `text` with every character that a terminal could obey, or hide, written out as an escape."""
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(char if _is_plain(char) else _escape(char) for char in text)


def _is_plain(char: str) -> bool:
    # What is not printable is a control, a format, a surrogate, private, not assigned, or a separator; the spaces among
    # the last do no harm.
    return not _INVISIBLE.match(char) if char.isprintable() else unicodedata.category(char) == "Zs"


def _escape(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width(text: str) -> int:
    """The cells `text` takes on a terminal; for text that went through `safe`."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


@lru_cache(1 << 12)
def _char_width(char: str) -> int:
    if unicodedata.category(char)[0] == "M" or _JOINED.match(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" or _WIDE.match(char) else 1


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

    Of "row @ a frame" the frame gives way first. Of a path its root goes, its words get shorter, and only then those
    between its numbers and its last word are left out. Of "exp_avg of a.path" both sides keep a part.
    """
    if width(name) <= cells:
        return name
    variable, at, frame = name.partition(" @ ")
    if at:
        room = cells - width(variable)
        cut = f" @{ellipsis}"
        least = cut if room >= width(cut) or cells - width(cut) >= _LEAST_VARIABLE else ""
        place = next((one for one in _places(frame, room, ellipsis) if width(one) <= room), least)
        return shorten(variable, cells - width(place), ellipsis=ellipsis) + place
    if " saved by " in name:
        return truncate(name, cells, ellipsis=ellipsis)
    lead, of, path = name.rpartition(" of ")
    leads = dict.fromkeys([lead, _initial(lead, 4, ellipsis), _initial(lead, 2, ellipsis)])
    words, last = _words(path)
    for letters in _LETTERS:
        for short in leads:
            for stem in _stems(words, letters, ellipsis):
                if width(text := short + of + stem + last) <= cells:
                    return text
    shortest = dict.fromkeys([list(leads)[-1], ellipsis + _tail(lead, 2) if lead else ""])
    for fit in (_in_pieces, _last_word):
        for stem in (list(_stems(words, 1, ellipsis))[-1], *_gaps(words, ellipsis)):
            for short in shortest:
                if text := fit(last, cells - width(short + of + stem), ellipsis):
                    return short + of + stem + text
    return truncate(name, cells, ellipsis=ellipsis, keep="both")


def _places(frame: str, room: int, ellipsis: str) -> Iterator[str]:
    """Where a variable is, in fewer and fewer words: the line tells the least, the thread and the function the most."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        yield f" @ {truncate(frame, max(room - 3, _LEAST_FUNCTION), ellipsis=ellipsis)}"
        return
    function, file, line, thread = (match[key] or "" for key in ("function", "file", "line", "thread"))
    name = file.rpartition("/")[2]
    yield f" @ {function}() {name}{line}{thread}"
    yield f" @ {function}() {name}{thread}"
    left = room - width(f" @ {function}() {thread}")
    yield f" @ {function}() {truncate(name, max(left, _LEAST_FILE), ellipsis=ellipsis, keep='both')}{thread}"
    yield f" @ {function}(){thread}"
    yield f" @ {function}{thread}"
    left = room - width(f" @ {thread}")
    yield f" @ {truncate(function, max(left, _LEAST_FUNCTION), ellipsis=ellipsis, keep='both')}{thread}"
    if thread:
        yield f" @{truncate(thread, max(room - 2, _LEAST_THREAD), ellipsis=ellipsis, keep='end')}"


def _initial(word: str, cells: int, ellipsis: str) -> str:
    """Both ends of a word: exp_avg and exp_avg_sq begin alike."""
    short = _head(word, cells) + ellipsis + _tail(word, cells)
    return short if width(short) < width(word) else word


def _words(path: str) -> tuple[list[str], str]:
    """The words of a dotted path before its last one, and that; "weight" alone would tell nothing."""
    words = path.removesuffix(".grad").split(".")
    if len(words) > 1 and words[-1] in _COMMON:
        words[-2:] = [".".join(words[-2:])]
    return words[:-1], words[-1] + path[len(path.removesuffix(".grad")) :]


def _stems(words: list[str], letters: int, ellipsis: str) -> Iterator[str]:
    """What stands before the last word, without more and more of its root, with `letters` of each word."""
    short = [_cut(word, letters) for word in words]
    numbers = _numbers(words)
    last = numbers[0] if numbers else len(words) - (1 if letters == 1 or len(words) < 3 else 2)
    for start in range(max(last, 0) + 1):
        yield (ellipsis if start else "") + "".join(f"{word}." for word in short[start:])


def _cut(word: str, letters: int) -> str:
    """The first letters of a word, and its number; a word that would lose a single letter reads better whole."""
    match = _NUMBERED.fullmatch(word)
    if match is None and any(map(str.isdigit, word)):
        return word
    text, number = match.groups() if match is not None else (word, "")
    return word if len(text) <= letters + 1 else _head(text, letters) + number


def _gaps(words: list[str], ellipsis: str) -> Iterator[str]:
    """The numbers of a path, and the initials of fewer and fewer words between them and the last word."""
    kept = _numbers(words)
    for gone in range(kept[0] + 1 if kept else 0, len(words)):
        if gone not in kept:
            left = [at for at in range(kept[0] if kept else gone + 1, len(words)) if at > gone or at in kept]
            text = ellipsis if not kept or kept[0] else ""
            for at, after in pairwise([*left, len(words)]):
                text += (words[at] if at in kept else words[at][:1]) + ("." if after - 1 == at else ellipsis)
            yield text


def _numbers(words: list[str]) -> list[int]:
    return [at for at, word in enumerate(words) if any(map(str.isdigit, word))]


def _in_pieces(last: str, room: int, _ellipsis: str) -> str:
    """The last word of a path with all its parts, such as weight_ih_l0, each cut short; "" where that is too much."""
    word, grad = last.removesuffix(".grad"), last.endswith(".grad")
    parts = word.split("_")
    if len(parts) > 1 and "." not in word and "[" not in word:
        for letters in _LETTERS:
            short = "_".join(_cut(part, letters) for part in parts)
            for end in (".grad", ".g") if grad else ("",):
                if width(short + end) <= room:
                    return short + end
    return ""


def _last_word(last: str, room: int, ellipsis: str) -> str:
    """The last word of a path in `room` cells, "" where too little is left: "w" tells "weight" from "bias"."""
    if width(last) <= room:
        return last
    plain, grad = last.removesuffix(".grad"), ".g" if last.endswith(".grad") else ""
    for common in _COMMON:
        word = plain.removesuffix(f".{common}")
        if word != plain:
            end = f".{common[0]}{grad or ellipsis}"
            left = room - width(end)
            return truncate(word, left, ellipsis=ellipsis, keep="both") + end if left >= min(width(word), 3) else ""
    return truncate(last, room, ellipsis=ellipsis, keep="both") if room >= _LEAST_WORD else ""


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
