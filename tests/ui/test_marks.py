"""What is marked as changed: not what every step of a training loop changes."""

from dataclasses import replace

import pytest
from ui_data import NOW, PROCESS, tensor

from tensortui.model import Change, Sample
from tensortui.ui.marks import Marks

BEFORE = tensor(1, 2, ["data @ main() train.py:9 [loader]", "x"], (4,), version=3)


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        ({"version": 4}, ""),
        ({"names": ("data @ main() train.py:12 [loader]",)}, ""),
        ({"names": ("data @ main() train.py:12 [loader]", "p @ step() adam.py:7")}, ""),
        ({"names": ("rows @ main() train.py:9 [loader]",)}, "changed"),
        ({"category": "input"}, "changed"),
        ({"storage": 3}, "changed"),
    ],
)
def test_what_each_step_changes_is_not_marked(change: dict[str, object], mark: str) -> None:
    marks = Marks(lambda: 0.0)
    marks.begin(Change(changed=frozenset({1})), Sample(1, NOW, PROCESS, tensors={1: BEFORE}))
    assert marks.of(replace(BEFORE, **change)) == mark
