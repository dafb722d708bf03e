"""The steps between two moments are counted, whatever the rate was, and from samples that are of now."""

import random
from dataclasses import replace

import pytest

from tensortui.analysis import steps as steps_module
from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import Thresholds, find
from tensortui.analysis.growth import Growth
from tensortui.analysis.steps import StepClock
from tensortui.model import Change, Process, Sample

COUNTER = "step of model.weight"


class Leaking:
    """A program that keeps one tensor with each step. Its counter is read with every sample but the first."""

    def __init__(self, build, stale=0, **counter):
        self.build = build
        self.growth = Growth()
        self.steps = self.seq = 0
        self.now = 1000.0
        self.stale = stale  # so many steps ago the counter was read for the first sample
        fields = {"name": COUNTER, "category": "optimizer", **counter}
        self.counter = build.tensor(None, (), **fields)
        self.last = None

    def go(self, seconds, steps):
        self.now += seconds
        for _ in range(steps):
            self.build.tensor(None, (4,), name=f"losses[{self.steps}]")
            self.steps += 1

    def sample(self):
        self.seq += 1
        version = max(self.steps - (self.stale if self.seq == 1 else 0), 0)
        self.build.tensors[self.counter] = replace(self.build.tensors[self.counter], version=version)
        self.last = Sample(self.seq, self.now, Process(7), tensors=dict(self.build.tensors))
        self.growth.update(self.last)

    @property
    def per_step(self):
        (row,) = self.growth.grown()
        return row.count_per_step


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "counter", [{}, {"name": "model.weight", "category": "parameter", "requires_grad": True}, {"category": "other"}]
)
def test_one_tensor_a_step_is_one_whatever_the_rate(build, counter, seed):
    pieces = random.Random(seed)
    program = Leaking(build, **counter)
    for at in range(120):
        if at == 40:
            program.growth.mark()  # from here on the counter is watched
        program.go(pieces.uniform(1.0, 3.0), pieces.randint(1, 40))
        program.sample()
    (row,) = program.growth.since_mark().rows
    assert row.count_per_step == (None if counter == {"category": "other"} else 1.0)


def test_a_counter_that_was_not_watched_at_first_is_no_measure_of_what_was_before(build):
    program = Leaking(build, stale=100)
    program.go(1.0, 200)
    for _ in range(12):
        program.sample()
        program.go(1.0, 20)
    assert program.per_step == 1.0


def test_the_count_goes_on_where_another_tensor_tells_it(build):
    program = Leaking(build, name="model.weight", category="parameter", requires_grad=True)
    for second in range(60):
        if second == 30:
            del build.tensors[program.counter]
            program.counter = build.tensor(None, (), name="other.weight", category="parameter", requires_grad=True)
        program.sample()
        program.go(1.0, 20)
    assert program.per_step == pytest.approx(1.0, abs=0.02)


def test_the_optimizers_own_counter_is_taken_once_there_is_one(build):
    program = Leaking(build, name="model.weight", category="parameter", requires_grad=True)
    program.sample()
    assert program.growth.counter == program.counter
    own = build.tensor(None, (), name=COUNTER, category="optimizer")
    for at in range(2):
        change = Change(new=frozenset({own}), since=1) if not at else Change(since=2)
        program.growth.update(Sample(2 + at, 1001.0 + at, Process(7), tensors=dict(build.tensors), change=change))
        assert program.growth.counter == own


def test_finding_and_growth_tell_the_same(build):
    program = Leaking(build)
    for second in range(40):
        program.sample()
        program.go(1.0, 20 if second < 20 else 3)
    (row,) = program.growth.since_start().rows
    (finding,) = [
        one
        for one in find(program.last, Accounts(program.last), Thresholds(), growth=program.growth)
        if one.kind == "growth"
    ]
    assert (finding.evidence["count"], finding.evidence["steps"]) == (row.count - row.count_before, row.steps)
    assert row.count_per_step == 1.0
    assert "(1 tensor a step)" in finding.title


def test_a_long_time_takes_bounded_room_and_is_still_counted(build, monkeypatch):
    monkeypatch.setattr(steps_module, "_MOST", 16)
    counter = build.tensor(None, (), name=COUNTER, category="optimizer")
    clock = StepClock()
    for second in range(1000):
        build.tensors[counter] = replace(build.tensors[counter], version=7 * second)
        clock.look(Sample(second, float(second), Process(7), tensors=dict(build.tensors)), float(second), ())
    assert len(clock._times) <= 16
    for begun, ended in ((0, 999), (1, 2), (500, 731)):
        assert clock.steps(begun, ended) == 7 * (ended - begun)


def test_before_it_counted_there_are_no_steps(build):
    clock = StepClock()
    clock.look(Sample(1, 0.0, Process(7), tensors={}), 0.0, ())
    assert clock.steps(0.0, 100.0) is None
    counter = build.tensor(None, (), name=COUNTER, category="optimizer")
    for second in (100, 101, 102):
        build.tensors[counter] = replace(build.tensors[counter], version=second)
        clock.look(Sample(second, float(second), Process(7), tensors=dict(build.tensors)), float(second), ())
    assert clock.steps(0.0, 102.0) == 2


@pytest.mark.parametrize("first", ["parameter", "optimizer"])
def test_what_does_not_move_counts_no_steps(build, first):
    """A model that is not trained stands first; of those that are not watched a few are read with each sample."""
    name = "teacher.weight" if first == "parameter" else "step of teacher.weight"
    still = build.tensor(None, (), name=name, category=first, requires_grad=True, version=3)
    net = [build.tensor(None, (), name=f"net.{at}", category="parameter", requires_grad=True) for at in range(8)]
    growth, steps, now = Growth(), 0, 1000.0
    assert growth.counter is None
    for look in range(60):
        for at, tid in enumerate(net):
            if tid == growth.counter or (look + at) % len(net) == 0:
                build.tensors[tid] = replace(build.tensors[tid], version=steps)
        growth.update(Sample(look + 1, now, Process(7), tensors=dict(build.tensors)))
        for _ in range(5):
            build.tensor(None, (4,), name=f"losses[{steps}]")
            steps += 1
        now += 2.0
    assert growth.counter != still
    assert growth.since_start().steps_per_second == pytest.approx(2.5)
    (row,) = growth.grown()
    assert row.count_per_step == pytest.approx(1.0)


def test_a_counter_that_only_rests_stays(build):
    """Others that were not watched are read later, and then have risen since they were read before."""
    program = Leaking(build, name="model.weight", category="parameter", requires_grad=True)
    other = build.tensor(None, (), name="model.bias", category="parameter", requires_grad=True)
    for look in range(30):
        program.go(2.0, 10 if look < 10 or look > 20 else 0)
        if look % 12 == 0:
            build.tensors[other] = replace(build.tensors[other], version=program.steps)
        program.sample()
        assert program.growth.counter == program.counter


def test_another_counter_takes_over_from_one_that_stopped(build):
    program = Leaking(build)
    for _ in range(20):
        program.go(2.0, 10)
        program.sample()
    program.steps, stopped = 0, program.counter
    build.tensors[stopped] = replace(build.tensors[stopped], version=200)
    program.counter = build.tensor(None, (), name="head.weight", category="parameter", requires_grad=True)
    for _ in range(300):
        program.go(2.0, 6)
        program.sample()
    assert program.growth.counter == program.counter
    assert program.growth.since_start().steps_per_second == pytest.approx(3.0)
