"""Without colours the cursor is seen all the same, and where the keys go."""

import pytest
from rich.style import Style

from tensortui.ui.colourless import plain
from tensortui.ui.theme import THEMES


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_the_cursor_shows_without_colours(theme):
    focused = plain(Style(bgcolor=theme.variables["cursor"]))
    elsewhere = plain(Style(bgcolor=theme.variables["cursor-blurred"]))
    assert (focused.reverse, focused.bgcolor) == (True, None)
    assert (elsewhere.underline, elsewhere.reverse, elsewhere.bgcolor) == (True, None, None)
