"""Attributes that the interpreter does not show at first sight lead to tensors too."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch


class State:
    def __init__(self) -> None:
        self.step = 0
        vars(self)  # as a logger does: on 3.13 the collector never learns of this dictionary
        self.kept = torch.ones(5)


def test_what_an_object_got_after_its_dictionary_was_made(agent: Callable[[], Any], module: types.ModuleType) -> None:
    module.state = State()
    module.options = vars(State())
    module.deeper = [vars(State())]
    module.net = torch.nn.Module()
    module.net.own = vars(State())
    found = agent().names()
    assert found.of(module.state.kept) == (["program.state.kept"], "other")
    assert found.of(module.options["kept"]) == (["program.options['kept']"], "other")
    assert found.of(module.net.own["kept"]) == (["program.net.own['kept']"], "other")
    assert found.of(module.deeper[0]["kept"]) == (["program.deeper[0]['kept']"], "other")
