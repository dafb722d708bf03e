"""The feed: takes every sample, tells what changed since it was last asked, and how the source ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ui_data import Played, after, tensor, training

from tensortui.errors import TensortuiError
from tensortui.model import SCANNING, Ended
from tensortui.ui.feed import Feed


async def test_changes_of_samples_that_were_not_painted_add_up() -> None:
    first = training()
    born = tensor(900, None, ["born"], (2,))
    second = after(first, new=[born], gone=[1])
    third = after(second, gone=[900, 2])
    feed = Feed(Played(first, Ended("done", 0.0)), lambda: 0.0)
    await feed.read()
    assert feed.take() is None
    for sample in (second, third):
        feed._put(sample)
    change = feed.take()
    assert change is not None
    assert (change.new, change.gone, change.since) == (frozenset(), frozenset({1, 2}), first.seq)
    assert not feed.dirty


async def test_a_sample_that_follows_another_one_is_taken_whole() -> None:
    first = training()
    feed = Feed(Played(first, Ended("done", 0.0)), lambda: 0.0)
    await feed.read()
    feed.take()
    second = after(first, gone=[1])
    feed._put(after(second, gone=[2]))
    assert feed.take() is None


async def test_a_fault_of_ours_ends_the_feed_with_words_instead_of_a_screen_that_stands_still() -> None:
    class Faulty(Played):
        async def updates(self):  # type: ignore[no-untyped-def]
            yield training()
            raise KeyError("x")

    feed = Feed(Faulty(), lambda: 5.0)
    await feed.read()
    assert feed.ended == Ended("internal error: KeyError('x')", 5.0, expected=False)


async def test_the_end_of_a_process_takes_the_place_of_the_news_that_it_is_exiting() -> None:
    class Exiting(Played):
        async def updates(self):  # type: ignore[no-untyped-def]
            yield training()
            yield Ended("the process is exiting", 1.0)
            told.append(feed.ended)
            feed.take()
            yield Ended("the process exited with status 3", 2.0, expected=False)

    told: list[Ended | None] = []
    feed = Feed(Exiting(), lambda: 5.0)
    await feed.read()
    assert told == [Ended("the process is exiting", 1.0)]
    assert feed.ended == Ended("the process exited with status 3", 2.0, expected=False)
    assert feed.dirty


async def test_nothing_is_judged_before_the_first_scan_is_over() -> None:
    feed = Feed(Played(replace(training(), phase=SCANNING), Ended("done", 0.0)), lambda: 0.0)
    await feed.read()
    await asyncio.wait_for(feed.judge(), 30)
    assert feed.judged is None


async def test_findings_are_those_of_the_newest_sample() -> None:
    first = training()
    feed = Feed(Played(first, Ended("done", 0.0)), lambda: 0.0)
    await feed.read()
    await asyncio.wait_for(feed.judge(), 30)
    assert feed.judged is first
    assert [finding.kind for finding in feed.findings] == ["retained-storage", "tied"]


async def test_what_goes_wrong_is_the_reason_of_the_end() -> None:
    class Broken(Played):
        async def updates(self):  # type: ignore[no-untyped-def]
            yield training()
            raise TensortuiError("the socket was closed", "attach again")

    feed = Feed(Broken(), lambda: 5.0)
    await feed.read()
    assert feed.ended == Ended("the socket was closed", 5.0, expected=False)
    assert feed.sample is not None
