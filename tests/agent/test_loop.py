"""The agent's loop, turn by turn, in this very process: what it does with work that fails, waits or is given up."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tensortui.agent import jobs, loop
from tensortui.agent.answers import FAILED_FOR, Answers
from tensortui.agent.connections import Connection
from tensortui.agent.governor import PASS, REQUEST, SAMPLE
from tensortui.agent.jobs import Held, Job
from tensortui.agent.loop import Agent
from tensortui.agent.maps import read_mappings
from tensortui.agent.work import Workshop


class Thing:
    """Something of the target's."""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[tuple[Agent, Workshop, Connection]]:
    """An agent that has found torch, with nothing to do, and a viewer."""
    agent = Agent({"path": [str(tmp_path / "agent" / "a.sock")], "budget": 1.0})
    assert torch.__version__  # it is found where it has been imported
    agent._look_for_torch(time.monotonic())
    workshop = agent._workshop
    assert workshop is not None
    workshop._front = None
    workshop._drained_at = float("inf")
    agent._answers.live = True
    near, far = socket.socketpair()
    one = Connection(near, True, time.monotonic())
    one.greeted = True
    agent._server.connections.append(one)
    yield agent, workshop, one
    far.close()
    workshop.close()
    agent._server.close()


def test_nothing_that_a_failed_step_had_in_hand_outlives_its_piece(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, workshop, _ = here
    things = [Thing()]
    ref = weakref.ref(things[0])

    def work() -> Iterator[None]:
        thing = things.pop()
        if thing is not None:
            try:
                raise KeyError("within")
            except KeyError:
                raise ValueError("no good") from None
        yield

    alive: list[bool] = []
    monkeypatch.setattr(loop.time, "sleep", lambda seconds: alive.append(ref() is not None))
    workshop._front = Job(work(), SAMPLE)
    agent._turn()
    assert alive == [False]
    assert workshop._front is None
    assert "the agent failed: ValueError: no good" in agent._answers.sample(here[2], None)["coverage"]["reasons"]


def test_what_an_exception_of_the_programs_carries_is_not_changed_but_for_its_frames() -> None:
    def fail(error: Exception) -> None:
        raise error

    inner, outer = KeyError(1), ValueError(2)
    for error in (inner, outer):
        with contextlib.suppress(KeyError, ValueError):
            fail(error)
    outer.__context__ = inner
    jobs.forget_frames(outer)
    assert (inner.__traceback__, outer.__traceback__) == (None, None)
    assert outer.__context__ is inner


def maps() -> int:
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).endswith("/maps") for link in links if os.path.lexists(link))


def test_a_refresh_closes_what_the_work_that_it_takes_the_place_of_had_open(here: Any) -> None:
    agent, workshop, one = here
    passes = Job(read_mappings(lambda *_: None), PASS)
    workshop._behind = passes
    before = maps()
    for _ in range(3):
        agent._step(passes)
    assert maps() == before + 1
    one.requests = [7]
    agent._turn()
    assert maps() == before
    assert passes not in workshop.at_hand


def test_a_step_that_gives_up_the_lock_is_run_outside_of_a_piece(here: Any) -> None:
    agent, workshop, _ = here
    seen: list[Any] = []

    def work() -> Iterator[Any]:
        seen.append(loop.COMPANY.alone is None)
        yield loop.APART
        seen.append(loop.COMPANY.alone is None)
        yield None
        seen.append(loop.COMPANY.alone is None)

    workshop._front = Job(work(), REQUEST)
    while workshop._front is not None:
        agent._turn()
    assert seen == [False, True, False]


def test_what_work_holds_is_let_go_where_its_next_step_is_long_in_coming(here: Any) -> None:
    agent, workshop, _ = here
    things = Held(one=Thing())
    ref = weakref.ref(things["one"])

    def work() -> Iterator[Any]:
        yield things
        while True:
            yield 0.0

    workshop._behind = job = Job(work(), PASS)
    agent._turn()
    assert job.held is things
    agent._governor._purses[PASS] = -10.0
    agent._turn()
    assert ref() is not None
    job.ran_at -= 2 * jobs.LONG
    agent._turn()
    assert ref() is None


def test_failures_of_the_agents_own_are_told_for_a_while(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, _, one = here
    answers: Answers = agent._answers
    said = answers.failed(KeyError("x"))
    assert answers.sample(one, None)["coverage"]["reasons"] == [said]
    later = time.monotonic() + FAILED_FOR + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert answers.sample(one, None)["coverage"]["reasons"] == []


def test_a_brief_answer_before_everything_was_read_and_named_does_not_say_how_old(here: Any) -> None:
    sampler = here[1].sampler
    sampler.brief = True
    assert "asked too often to read all: not everything has been read and named yet" in sampler.reasons()
    sampler.complete_at = time.monotonic() - 3
    assert "asked too often to read all anew: versions and names may be up to 3 s old" in sampler.reasons()


def test_a_search_for_holders_gets_its_turns_beside_graphs_without_end(
    here: tuple[Agent, Workshop, Connection],
) -> None:
    agent, workshop, _ = here
    ran = []

    def endless(name: str) -> Iterator[None]:
        while True:
            ran.append(name)
            yield

    workshop._front = Job(endless("graph"), REQUEST)
    workshop.searches.job = Job(endless("holders"), REQUEST)
    for _ in range(6):
        agent._turn()
        workshop._front = Job(endless("graph"), REQUEST)
    assert set(ran) == {"graph", "holders"}
