"""Growth: what does not go back is told, what comes and goes with each step is not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tensortui.analysis.growth import BUCKETS, PARTS, Growth, kind_of
from tensortui.model import Process, Sample, Tensor


class Program:
    """Samples of a program at given moments."""

    def __init__(self, build):
        self.build = build
        self.growth = Growth()
        self.seq = 0

    def sample(self, seconds):
        self.seq += 1
        self.growth.update(Sample(self.seq, 1000.0 + seconds, Process(7), tensors=dict(self.build.tensors)))

    def set_version(self, tid, version):
        self.build.tensors[tid] = replace(self.build.tensors[tid], version=version)


def test_a_list_that_grows_is_told_with_its_rates_and_what_comes_and_goes_is_not(build):
    program = Program(build)
    counter = build.tensor(None, (), name="step of model.weight", category="optimizer")
    for step in range(41):
        passing = [build.tensor(None, (8,), name=f"hidden[{at}] @ step() train.py:{at}") for at in range(step % 3)]
        build.tensor(None, (4,), name=f"losses[{step}] @ main() train.py:{step}")
        program.set_version(counter, step)
        program.sample(step)
        for tid in passing:
            del build.tensors[tid]
    (grown,) = program.growth.grown()
    assert (grown.kind.name, grown.kind.holder) == ("losses[*] @ main() train.py", "losses @ main() train.py")
    assert (grown.count_before, grown.count) == (3, 30)
    assert (grown.count_per_second, grown.bytes_per_second) == (1.0, 16.0)
    assert (grown.count_per_step, grown.bytes_per_step) == (1.0, 16.0)
    assert len(grown.tensors) == 3
    assert {build.tensors[tid].names[0] for tid in grown.tensors} == {
        f"losses[{at}] @ main() train.py:{at}" for at in (38, 39, 40)
    }


def test_what_a_start_makes_and_what_is_freed_again_is_no_growth(build):
    program = Program(build)
    for second in range(60):
        if second < 10:
            build.tensor(None, name=f"cache[{second}]")
        if second % 20 == 19:  # a list that is emptied once in a while
            build.tensors = {tid: one for tid, one in build.tensors.items() if not one.names[0].startswith("log")}
        build.tensor(None, name=f"log[{second}]")
        program.sample(second)
    assert program.growth.grown() == []


def test_only_what_has_no_bytes_is_told_too_and_steps_may_be_unknown(build):
    program = Program(build)
    for second in range(20):
        build.tensor(None, (0,), name=f"nothing[{second}]")
        program.sample(second)
    (grown,) = program.growth.grown()
    assert (grown.count_per_second, grown.bytes_per_second, grown.count_per_step) == (1.0, 0.0, None)


def test_before_there_is_anything_to_compare_nothing_is_told(build):
    program = Program(build)
    assert program.growth.grown() == []
    program.sample(0)
    assert program.growth.grown() == []


@given(st.lists(st.tuples(st.floats(0.0, 40.0), st.integers(0, 30)), min_size=2, max_size=80))
def test_the_least_of_each_part_is_that_of_all_moments_in_it(steps):
    growth = Growth(1.0)
    rest = ("Tensor", (4,), (1,), 0, "float32", "cpu", "strided", 16, 16, True, "contiguous", (), False, True, 0, None)
    tensors = [Tensor(number, None, (f"x[{number}]",), *rest, "other") for number in range(31)]
    now, history = 0.0, []
    for number, (wait, count) in enumerate(steps):
        now += wait if number else 0.0
        there = {one: tensors[one] for one in range(count)}
        growth.update(Sample(number + 1, now, Process(7), tensors=there))
        history.append((now, count))
    parts, width = growth._part(), growth._seconds
    assert parts < BUCKETS
    series = growth._series.get(kind_of(tensors[0]))
    if series is None:
        assert len({count for _, count in history}) == 1
        return
    for part, (least, _) in enumerate(series.minima(parts)):
        before = [count for at, count in history if int(at / width) < part]
        inside = [count for at, count in history if int(at / width) == part]
        assert least == min([*before[-1:], *inside]) - history[0][1]


def test_there_are_as_many_parts_as_can_be_compared():
    assert BUCKETS % 2 == 0
    assert BUCKETS >= 2 * PARTS
