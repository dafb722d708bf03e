"""Why the source cannot be asked for something just now, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

from tensortui.model import SCANNING, WAITING
from tensortui.ui.feed import Feed


class Words(NamedTuple):
    """What is said of one ability of a source where it lacks it, where it has ended, and before torch is there."""

    never: str
    no_longer: str
    not_yet: str


def impossible(feed: Feed, ability: str, words: Words) -> tuple[str, str] | None:
    """Why, and what to do; None where the source can be asked."""
    if ability in feed.source.missing:
        return words.never, feed.source.missing[ability]
    if feed.ended is not None:
        return words.no_longer, f"the source has ended: {feed.ended.reason}"
    if feed.sample is None or feed.sample.phase == WAITING:
        return words.not_yet, "the process has not imported torch; press r when it has"
    if feed.sample.phase == SCANNING:
        return "the tensors are still being looked for", "press r when the first scan is over"
    return None
