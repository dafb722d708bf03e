"""The autograd graph behind a tensor: its tree, what it saved, what that keeps alive, and what is stale of it."""

from __future__ import annotations

from tensortui.analysis.graph.behind import Behind
from tensortui.analysis.graph.keeping import Keeping
from tensortui.analysis.graph.reach import Reach, is_leaf, maker_of
from tensortui.analysis.graph.saves import Save, Saves, has_own_name, known
from tensortui.analysis.graph.tree import CUT, FOLD, LEAF, LINK, NODE, SAVED, Fold, Row, Tree
from tensortui.analysis.graph.versions import Writer, is_parameter, stale, unnoticed, writer

__all__ = [
    "CUT",
    "FOLD",
    "LEAF",
    "LINK",
    "NODE",
    "SAVED",
    "Behind",
    "Fold",
    "Keeping",
    "Reach",
    "Row",
    "Save",
    "Saves",
    "Tree",
    "Writer",
    "has_own_name",
    "is_leaf",
    "is_parameter",
    "known",
    "maker_of",
    "stale",
    "unnoticed",
    "writer",
]
