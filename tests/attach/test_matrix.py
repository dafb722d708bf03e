"""Attach to real programs in every state, under every CPython found; detach; nothing is left, and they go on."""

from __future__ import annotations

import sys

import pytest

from tensortui.attach import attach, find_endpoint


@pytest.mark.parametrize("state", ["busy", "sleeping", "locked", "waiting_for_input", "event_loop", "gil_free_in_c"])
def test_attaches_and_leaves_nothing(start, greet, python, state):
    program = start(state, python=python)
    endpoint = attach(program.pid)
    assert endpoint.fresh and endpoint.how in ("thread", "pending") and endpoint.pid == program.pid
    client = greet(endpoint)
    again = attach(program.pid)
    assert (again.path, again.fresh, again.how) == (endpoint.path, False, "connected")
    client.detach()
    assert find_endpoint(program.pid) is None
    assert program.finish() == "LEFT {}"


def test_attaches_to_many_threads(start, greet, python):
    program = start("many_threads", python=python)
    for _ in range(5):
        greet(attach(program.pid)).detach()
    assert program.finish() == "FAILURES []"


@pytest.mark.parametrize("state", ["training", "loader_of_batches"])
def test_attaches_to_torch(start, greet, state):
    pytest.importorskip("torch")
    program = start(state, "--torch", python=sys.executable)
    greet(attach(program.pid)).detach()
    assert program.finish() == "LEFT {}"
