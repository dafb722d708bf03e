"""The layout of a tensor: where its elements lie, what of its storage it covers, what an operation on it would cost.

Pure functions of shape, strides, offset and dtype; exact, or None where no exact answer is affordable.
"""

from __future__ import annotations

from tensortui.analysis.layout.addressing import Element, Hits, element, formula, hits
from tensortui.analysis.layout.advising import advice
from tensortui.analysis.layout.costing import Step, cost
from tensortui.analysis.layout.outcome import COPY, IMPOSSIBLE, SAME, VIEW, Outcome
from tensortui.analysis.layout.place import LayoutError, Place, has_memory, retained
from tensortui.analysis.layout.refusing import absent_devices
from tensortui.analysis.layout.ribbons import FULL, NONE, PART, UNKNOWN, Ribbon, Strip, ribbon
from tensortui.analysis.layout.windows import Window, window
from tensortui.analysis.layout.words import Kind, details, headline, kind, memory_order

__all__ = [
    "COPY",
    "FULL",
    "IMPOSSIBLE",
    "NONE",
    "PART",
    "SAME",
    "UNKNOWN",
    "VIEW",
    "Element",
    "Hits",
    "Kind",
    "LayoutError",
    "Outcome",
    "Place",
    "Ribbon",
    "Step",
    "Strip",
    "Window",
    "absent_devices",
    "advice",
    "cost",
    "details",
    "element",
    "formula",
    "has_memory",
    "headline",
    "hits",
    "kind",
    "memory_order",
    "retained",
    "ribbon",
    "window",
]
