"""Pictures of the Growth screen, kept in snapshots/screens/ like those of the other screens."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from growth_data import leaking
from test_screens import LARGE, MIDDLE, SIZES, SMALL, THEMES, ready
from textual.pilot import Pilot
from ui_data import NOW, Played, training

from tensortui.model import Ended, Sample
from tensortui.ui import feed as feed_module
from tensortui.ui.app import TensortuiApp

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "JUDGE_SECONDS", 0.0)
    monkeypatch.setattr(feed_module, "JUDGE_FACTOR", 0)


def picture(seconds: int, light: bool = False, ascii_only: bool = False) -> TensortuiApp:
    async def connect() -> Played:
        return Played(training())

    return TensortuiApp(connect, light=light, ascii_only=ascii_only, clock=lambda: NOW + seconds - 0.6)


def growth_of(seconds: int, *keys: str, last: Ended | None = None) -> Any:
    """Open the screen when so many samples were looked at."""

    async def watch(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp) and app.feed is not None
        feed = app.feed
        assert feed.sample is not None
        samples: list[Sample] = list(islice(leaking(seconds, feed.sample), 1, None))
        for sample in samples:
            feed.source.queue.put_nowait(sample)  # type: ignore[attr-defined]
            while feed.judged is not sample:
                await pilot.pause(0.001)
        if last is not None:
            feed.source.queue.put_nowait(last)  # type: ignore[attr-defined]
            while feed.ended is None:
                await pilot.pause(0.001)
        await pilot.press("7", *keys)
        await pilot.pause()

    return ready(then=watch)


@SIZES
@THEMES
def test_growth(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    assert snap_compare(picture(41, light), terminal_size=size, run_before=growth_of(41))


@pytest.mark.parametrize("size", [LARGE, SMALL], ids=["160x45", "80x24"])
def test_growth_in_ascii(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(picture(41, ascii_only=True), terminal_size=size, run_before=growth_of(41, "G"))


def test_growth_without_colour(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(picture(41), terminal_size=MIDDLE, run_before=growth_of(41))


def test_growth_too_early(snap_compare: Any) -> None:
    assert snap_compare(picture(4), terminal_size=SMALL, run_before=growth_of(4))


def test_growth_of_what_was_lost(snap_compare: Any) -> None:
    ended = Ended("the process was killed by signal 9 (SIGKILL)", NOW + 41, expected=False)
    assert snap_compare(picture(41), terminal_size=MIDDLE, run_before=growth_of(41, last=ended))


def test_growth_since_a_mark(snap_compare: Any) -> None:
    assert snap_compare(picture(41), terminal_size=SMALL, run_before=growth_of(41, "m"))
