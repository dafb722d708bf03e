"""Pictures of the Holders screen, kept in snapshots/screens/ like those of the other screens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from holders_data import CHAINS, GONE, WithHolders, leak
from test_screens import LARGE, MIDDLE, SIZES, SMALL, THEMES, ready
from textual.pilot import Pilot
from ui_data import NOW

from tensortui.model import Holders, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.holders import HoldersScreen
from tensortui.ui.screens.tensors import TensorsScreen

pytestmark = pytest.mark.filterwarnings("ignore:\\s*Can not relate snapshot")


def picture(
    sample: Sample, answer: Holders | Exception, light: bool = False, ascii_only: bool = False, said: str = ""
) -> TensortuiApp:
    async def connect() -> WithHolders:
        source = WithHolders(sample, answer=answer)
        if said:
            source.may.clear()
        return source

    return TensortuiApp(connect, light=light, ascii_only=ascii_only, clock=lambda: NOW + 0.4)


def holders_of(tid: int, *keys: str, said: str = "") -> Any:
    async def open_holders(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, TensortuiApp) and isinstance(app.screen, TensorsScreen)
        app.screen.go_to(tid)
        await pilot.press("h")
        while not isinstance(app.screen, HoldersScreen) or (app.screen.search.under_way and not said):
            await pilot.pause(0.01)
        if said:
            assert app.feed is not None
            while app.feed.source.progress is None:  # type: ignore[attr-defined]
                await pilot.pause(0.01)
            app.feed.source.progress(said)  # type: ignore[attr-defined]
            app.screen.tick()
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return ready(then=open_holders)


@SIZES
@THEMES
def test_holders(snap_compare: Any, size: tuple[int, int], light: bool) -> None:
    sample, found, tid = leak()
    assert snap_compare(picture(sample, found, light), terminal_size=size, run_before=holders_of(tid))


@pytest.mark.parametrize("size", [LARGE, SMALL], ids=["160x45", "80x24"])
def test_holders_in_ascii(snap_compare: Any, size: tuple[int, int]) -> None:
    sample, found, tid = leak(*CHAINS[1:], reasons=("the search was cut at 200 MiB of its own memory",))
    app = picture(sample, found, ascii_only=True)
    assert snap_compare(app, terminal_size=size, run_before=holders_of(tid, "j", "j", "j"))


def test_holders_without_colour(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    sample, found, tid = leak()
    assert snap_compare(picture(sample, found), terminal_size=MIDDLE, run_before=holders_of(tid, "C", "j"))


def test_holders_searching(snap_compare: Any) -> None:
    sample, found, tid = leak()
    said = "searching level 3, 412 MiB"
    app = picture(sample, found, said=said)
    assert snap_compare(app, terminal_size=SMALL, run_before=holders_of(tid, said=said))


def test_holders_none_found(snap_compare: Any) -> None:
    sample, found, tid = leak()
    app = picture(sample, replace(found, chains=()))
    assert snap_compare(app, terminal_size=SMALL, run_before=holders_of(tid))


def test_holders_of_a_tensor_that_is_gone(snap_compare: Any) -> None:
    sample, _, tid = leak()
    assert snap_compare(picture(sample, GONE), terminal_size=SMALL, run_before=holders_of(tid))
