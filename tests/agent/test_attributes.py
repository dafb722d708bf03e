"""Attributes that the interpreter does not show at first sight lead to tensors too."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch.distributions.utils import lazy_property

from tensortui.agent.inline import LAYOUT


class State:
    def __init__(self) -> None:
        self.step = 0
        vars(self)  # as a logger does: on 3.13 the collector never learns of this dictionary
        self.kept = torch.ones(5)


class Mask:
    def __init__(self) -> None:
        self.kept, self.nothing, self.more = torch.ones(2), None, [torch.ones(3)]

    @lazy_property
    def mask(self) -> torch.Tensor:
        """Take the place of this descriptor from the first call on."""
        return torch.ones(9)

    @lazy_property
    def unasked(self) -> torch.Tensor:
        raise AssertionError("code of the program ran")


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


def test_an_attribute_that_hides_a_descriptor(agent: Callable[[], Any], module: types.ModuleType) -> None:
    module.one = Mask()
    hidden = module.one.mask
    beside = not LAYOUT.has_dictionary(module.one)  # from 3.11 on
    found = agent().names()
    assert LAYOUT.has_dictionary(module.one) is not beside
    names, _ = found.of(hidden)
    assert ("program.one.<attribute>" if beside else "program.one.mask") in names
    assert found.of(module.one.kept) == (["program.one.kept"], "other")
    assert found.of(module.one.more[0]) == (["program.one.more[0]"], "other")
    assert module.one.__dict__["mask"] is hidden
    names, _ = agent().names().of(hidden)
    assert "program.one.mask" in names
    assert "program.one.<attribute>" not in names
