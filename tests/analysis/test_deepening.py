"""Graphs that become deeper with each step are told; those that are deep, or deep for a while, are not."""

import pytest

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import Thresholds, find
from tensortui.analysis.growth import Growth
from tensortui.model import Process, Sample


class Followed:
    """A program of which a sample is taken each second. Its optimizer makes `steps` of them in each."""

    def __init__(self, build, steps, category="optimizer"):
        self.build, self.steps, self.category = build, steps, category
        self.growth = Growth()
        self.seconds = 0

    def sample(self, depths):
        """`depths` are those of tensors with a name, or None for one that has none yet."""
        self.seconds += 1
        self.build.tensors.clear()
        if self.category:
            version = self.seconds * self.steps
            self.build.tensor(None, (), name="step of model.weight", category=self.category, version=version, tid=1)
        of = {}
        for place, (name, depth) in enumerate(depths):
            of[self.build.tensor(None, (), name=name, tid=1000 * self.seconds + place)] = depth
        sample = Sample(self.seconds, 1000.0 + self.seconds, Process(7), tensors=dict(self.build.tensors), depths=of)
        self.growth.update(sample)
        return find(sample, Accounts(sample), growth=self.growth)

    def follow(self, seconds, depths):
        found = []
        for at in range(seconds):
            found = self.sample(depths(at))
        return found


def test_a_sum_that_drags_each_step_along_is_told_by_its_name(build):
    program = Followed(build, steps=4)
    # Its tensor is another one with each step, and has no name yet in some samples.
    (found,) = program.follow(41, lambda at: [("total @ run() train.py:12" if at % 3 else None, 40 + 4 * at)])
    assert (found.kind, found.severity) == ("growth", "warning")
    assert found.title == (
        "the graph behind total @ run() train.py grows: 108 nodes more in 27 s and 108 steps (1 node a step), "
        "200 in a row now"
    )
    assert found.evidence["behind"] == ["total @ run() train.py"]
    assert found.tensors == (41_000,)
    assert "detach()" in found.advice
    deepest = program.growth.since_start().deepest
    assert (deepest.name, deepest.start, deepest.now) == ("total @ run() train.py", 40, 200)


@pytest.mark.parametrize(
    ("steps", "category", "severity"),
    [(0, "optimizer", "note"), (4, "optimizer", "warning"), (0, "", "warning"), (0, "gradient", "note")],
)
def test_one_long_sequence_is_a_note_where_a_step_is_known_to_be_one(build, steps, category, severity):
    found = Followed(build, steps, category).follow(41, lambda at: [("hidden", 50 + 10 * at)])
    assert [(one.kind, one.severity) for one in found] == [("growth", severity)]


@pytest.mark.parametrize(
    "depths",
    [
        lambda at: [("loss", 500)],
        lambda at: [("loss", 500 + 100 * (at % 5))],
        lambda at: [("loss", 100 + at)] if at < 20 else [("loss", 119)],
        lambda at: [("state", 40 + 200 * (at % 10))],
        lambda at: [("first", 40 + at)],  # too few
        lambda at: [("total", 40 + 10 * at)] if at < 38 else [],  # gone
        lambda at: [("late", 4000)] if at > 25 else [],
        lambda at: [],
    ],
)
def test_what_is_deep_or_goes_back_is_fine(build, depths):
    assert Followed(build, steps=4).follow(41, depths) == []


def test_what_grows_in_one_graph_is_told_once(build):
    def depths(at):
        return [("total", 40 + 10 * at), ("mean", 41 + 10 * at)]

    program = Followed(build, steps=4)
    (found,) = program.follow(41, depths)
    assert found.title.startswith("the graph behind mean grows: 270 nodes more")  # of one shape the deepest


def test_the_least_that_is_told_can_be_set(build):
    program = Followed(build, steps=4)
    program.follow(41, lambda at: [("first", 40 + at)])
    sample = Sample(99, 1041.5, Process(7))
    told = find(sample, Accounts(sample), growth=program.growth, thresholds=Thresholds(deepened_nodes=20))
    assert [one.kind for one in told] == ["growth"]
