"""Names for types in the agent: typing keeps what a generic is given, for as long as the program lives."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import tensortui.agent


def classes_in(alias: Any) -> list[str]:
    """The classes of ours that a generic keeps, at any depth."""
    given = alias if isinstance(alias, (list, tuple)) else getattr(alias, "__args__", ())
    found = [one.__name__ for one in given if isinstance(one, type) and one.__module__.startswith("tensortui.")]
    return found + [name for one in given if not isinstance(one, (type, str)) for name in classes_in(one)]


def test_no_alias_keeps_a_class_of_the_agent_alive() -> None:
    kept = {}
    for module in pkgutil.iter_modules(tensortui.agent.__path__, "tensortui.agent."):
        for name, value in vars(importlib.import_module(module.name)).items():
            found = classes_in(value) if type(value).__module__ == "typing" else []
            if found:
                kept[f"{module.name}.{name}"] = found
    assert kept == {}
