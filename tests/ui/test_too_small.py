"""A terminal that has no room for anything says so, and what it needs; all goes on when there is room."""

from __future__ import annotations

import pytest
from driving import Driven, driven
from picture_text import svg_text
from ui_data import Played, training

from tensortui.ui.app import TensortuiApp
from tensortui.ui.screens.growth import GrowthScreen
from tensortui.ui.widgets.too_small import LEAST


def painted(app: TensortuiApp) -> str:
    return " ".join(" ".join(svg_text(app.export_screenshot(simplify=True))).split())


async def resize(it: Driven, width: int, height: int) -> None:
    await it.pilot.resize_terminal(width, height)
    await it.pilot.pause()


@pytest.mark.parametrize(("width", "height"), [(39, 30), (120, 9), (20, 5)])
async def test_what_is_too_small_says_so_and_nothing_else(width: int, height: int) -> None:
    async with driven(training(), size=(width, height)) as it:
        assert painted(it.app) == f"{width}x{height} is too small: 40x10 is needed"


async def test_in_a_few_cells_only_what_is_needed_is_said() -> None:
    async with driven(training(), size=(10, 3)) as it:
        assert painted(it.app) == "needs 40x10"


async def test_the_least_that_is_enough_shows_rows() -> None:
    async with driven(training(), size=LEAST) as it:
        text = painted(it.app)
        assert "too small" not in text
        assert "64.00 MiB" in text


async def test_what_was_there_is_there_again_and_keys_have_their_effect_meanwhile() -> None:
    async with driven(training()) as it:
        await it.press("down", "down")
        await resize(it, 30, 8)
        assert "30x8 is too small" in painted(it.app)
        await resize(it, 20, 8)
        assert painted(it.app) == "20x8 is too small: 40x10 is needed"
        await resize(it, 120, 30)
        assert "too small" not in painted(it.app)
        assert it.tree.cursor == 2
        await resize(it, 20, 5)
        await it.press("7")
        await it.until(lambda: isinstance(it.app.screen, GrowthScreen))
        await it.pilot.pause()
        assert painted(it.app) == "20x5 is too small: 40x10 is needed"
        await resize(it, 120, 30)
        assert "Growth" in painted(it.app)
        await it.press("escape")
        assert "too small" not in painted(it.app)
        assert it.tree.cursor == 2


async def test_before_there_is_a_source_it_is_said_too() -> None:
    async def connect() -> Played:
        return Played()

    app = TensortuiApp(connect, ascii_only=False)
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        assert painted(app) == "20x5 is too small: 40x10 is needed"
