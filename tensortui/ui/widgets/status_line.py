"""The first line: who is attached, how fresh the sample is, and what looking costs the target."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tensortui.analysis.findings import count
from tensortui.analysis.units import format_age, format_share
from tensortui.model import LIVE, SCANNING
from tensortui.ui.feed import Feed
from tensortui.ui.glyphs import Glyphs
from tensortui.ui.lines import show
from tensortui.ui.markup import Piece, spread

TICK_SECONDS = 0.25
NARROW = 100  # below it our own name gives way to what is known of the program
WIDE = 140  # from it on there is room for whole sentences
SLOW_AFTER = 5.0  # seconds without a sample after which a live source counts as slow


def freshness(feed: Feed, now: float, glyphs: Glyphs) -> list[Piece]:
    """The state of the source in words, with the age of the sample."""
    age = format_age(max(now - feed.sample.taken_at, 0.0)) if feed.sample is not None else ""
    if feed.ended is not None:
        return [(f"{glyphs.lost} ended", "bold $error"), (f", last sample {age} ago" if age else "", "")]
    if feed.sample is None:
        return [("connecting", "$warning")]
    if feed.paused:
        return [(f"{glyphs.paused} paused", "bold $warning"), (f", sample {age} old", "")]
    if why := feed.held(now):
        return [(f"{glyphs.warn} {show(why, glyphs)}", "bold $warning"), (f", sample {age} old", "")]
    if feed.sample.phase == SCANNING:
        return [("first scan", "$warning")]
    if feed.sample.phase != LIVE:
        return [("waiting for torch", "$warning")]
    if now - feed.sample.taken_at > SLOW_AFTER:
        return [(f"{glyphs.warn} slow", "bold $warning"), (f", sample {age} old", "")]
    return [(f"{glyphs.live} live", "$success"), (f" {age} ago", "")]


class StatusLine(Static):
    """One line; what there is no room for is left out, the least important first."""

    DEFAULT_CSS = "StatusLine { height: 1; background: $panel; color: $foreground; text-wrap: nowrap; }"

    def __init__(self, feed: Feed, glyphs: Glyphs) -> None:
        """Tell of `feed`."""
        super().__init__("", markup=False)
        self._feed = feed
        self._glyphs = glyphs
        self._shown: Content | None = None

    def refresh_at(self, now: float) -> None:
        """Say what is true at `now`; nothing is painted when nothing differs."""
        line = status(self._feed, now, self._glyphs, self.size.width)
        if self._shown is None or not line.is_same(self._shown):
            self._shown = line
            self.update(line)


def press(key: str) -> list[Piece]:
    """The key to what was just said."""
    return [(", press ", "$dim"), (key, "bold $foreground")]


def findings(feed: Feed, glyphs: Glyphs, room: int) -> list[Piece]:
    """How many findings there are, and the key to them; the sign before them says that some are more than notes."""
    number = count(feed.findings)
    if not number and feed.graph is not None and feed.graph.in_part:
        return [("graph read in part", "$dim")]
    if not number:
        return [("no findings", "$dim")]
    words = "1 finding" if number == 1 else f"{number} findings"
    grave = any(finding.severity != "note" for finding in feed.findings)
    said = (f"{glyphs.warn} {words}", "bold $warning") if grave else (words, "")
    return [said, *(press("6") if room >= NARROW else [])]


def status(feed: Feed, now: float, glyphs: Glyphs, room: int) -> Content:
    """The status line in `room` cells."""
    sample = feed.sample
    lead = " "
    left: list[list[Piece]] = []
    if room >= NARROW:
        left.append([(" tensortui", "bold $primary")])
        lead = ""
    right: list[list[Piece]] = [[*freshness(feed, now, glyphs), (" ", "")]]
    if sample is None:
        left.append([(lead + show(feed.source.title, glyphs), "bold $strong")])
        return spread(left, right, room)
    process = sample.process
    left.append([(lead + show(process.program or "process", glyphs), "bold $strong")])
    left.append([("pid ", "$dim"), (str(process.pid), "")])
    if process.rank is not None:
        world = f"/{process.world_size}" if process.world_size is not None else ""
        left.append([("rank ", "$dim"), (f"{process.rank}{world}", "")])
    who = len(left)
    if process.torch:
        left.append([("torch ", "$dim"), (show(process.torch, glyphs), "")])
    if process.python:
        left.append([("py ", "$dim"), (show(process.python, glyphs), "")])
    if not sample.coverage.complete:
        right.append(
            [(f"{glyphs.warn} not all {'tensors ' if room >= WIDE else ''}seen", "bold $warning"), *press("w")]
        )
    if feed.judged is not None:
        right.append(findings(feed, glyphs, room))
    over = sample.cost.share > sample.cost.budget * 1.5
    if feed.ended is None:
        right.append(
            [
                ("costs the program " if room >= NARROW else "cost ", "$dim"),
                (format_share(sample.cost.share), "bold $warning" if over and not feed.first_look else ""),
                (" (first look)" if over and feed.first_look and room >= NARROW else "", "$dim"),
            ]
        )
    # The freshness stands at the right end and is the last to give way; versions are the first.
    return spread(left, right, room, keep=who)
