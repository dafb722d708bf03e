"""Snapshots of screens in snapshots/screens/; a mismatch prints the text that differs, not only an HTML report."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # ui_data, for the tests beside it
# Before Textual is imported: it reads these once.
os.environ.update(
    TEXTUAL_ANIMATIONS="none", TEXTUAL_SMOOTH_SCROLL="0", COLORTERM="truecolor", TERM="xterm-256color", TZ="UTC"
)
for _name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_FILTERS", "TEXTUAL_COLOR_SYSTEM", "COLUMNS", "LINES"):
    os.environ.pop(_name, None)

import pytest  # noqa: E402
import pytest_textual_snapshot as pts  # noqa: E402
from picture_text import svg_text  # noqa: E402

ROOT = Path(__file__).resolve().parents[2] / "snapshots" / "screens"


class ScreensExtension(pts.SVGImageExtension):
    """Keeps the pictures where people look for them."""

    @classmethod
    def dirname(cls, *, test_location: Any) -> str:
        return str(ROOT)


@pytest.fixture
def snap_compare(snapshot: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pts, "SVGImageExtension", ScreensExtension)
    inner = pts.snap_compare.__wrapped__(snapshot, request)

    def compare(app: Any, **options: Any) -> bool:
        same = bool(inner(app, **options))
        if not same:
            import pickle

            report = pickle.loads(pts.node_to_report_path(request.node).read_bytes())
            expected, actual = str(report[1] or ""), report[2]
            lines = list(difflib.unified_diff(svg_text(expected), svg_text(actual), "expected", "actual", "", n=1))
            print("\n".join(lines[:60]) if lines else "the text is the same: only colours or styles differ")
        return same

    return compare
