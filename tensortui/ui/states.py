"""What a screen says when there is nothing to show, or nothing more to come."""

from __future__ import annotations

from datetime import datetime, timezone

from textual.content import Content

from tensortui.model import LIVE, SCANNING, WAITING, Ended, Sample
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import content


def lost_notice(feed: Feed, ended: Ended, glyphs: Glyphs) -> Content:
    """Why the source ended, and that what is on screen is its last sample."""
    sample = feed.sample
    name = sample.process.program if sample is not None else ""
    name = name or feed.source.title
    stays = ""
    if sample is not None:
        at = datetime.fromtimestamp(sample.taken_at, timezone.utc).strftime("%H:%M:%S")
        stays = f" The last sample, taken at {at} UTC, stays here; nothing below is live."
    reason = show(ended.reason.rstrip("."), glyphs)
    return content([(f"{glyphs.lost} {show(name, glyphs)}: {reason}.", "bold $error"), (stays, "")])


def why_empty(feed: Feed, glyphs: Glyphs) -> Content:
    """Why there are no tensors, and what will bring them."""
    sample = feed.sample
    if feed.ended is not None:
        return content([("no tensors were seen", "$dim")])
    if sample is None:
        return content([("connecting to ", ""), (show(feed.source.title, glyphs), "bold $strong")])
    if sample.phase == WAITING:
        title = "this process has not imported torch yet"
        detail = "tensors will appear here as soon as it does; nothing else is to be done"
        return content([(f"{title}\n\n", "bold $strong"), (detail, "")])
    if sample.phase == SCANNING:
        share = sample.progress or 0.0
        return content(
            [
                ("looking for tensors\n\n", "bold $strong"),
                ("".join(glyphs.bar(share, 40)), "$bar"),
                (f" {share:4.0%}\n\n", ""),
                ("the first scan goes in small steps, so that the program is not held up", ""),
            ]
        )
    detail = "torch is imported, but no live tensor was found; they will appear here as they are made"
    return content([("no tensors\n\n", "bold $strong"), (detail, "")])


def coverage(sample: Sample | None, glyphs: Glyphs) -> tuple[str, str]:
    """Whether every tensor was seen, and if not, why, a line each; with a title."""
    if sample is None or sample.phase != LIVE:
        return "coverage", "The program was not looked through yet."
    if sample.coverage.complete:
        return "coverage", "Every live tensor that can be seen is here."
    reasons = [show(reason, glyphs) for reason in sample.coverage.reasons] or ["no reason was given"]
    return "not every tensor was seen", "\n".join(f"- {reason}" for reason in reasons)
