"""Growth: what does not go back is told, what comes and goes with each step is not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensortui.analysis import growth as growth_module
from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import find
from tensortui.analysis.growth import Growth, youngest
from tensortui.analysis.kinds import kind_of
from tensortui.analysis.windows import BUCKETS, PARTS
from tensortui.model import Change, Coverage, Process, Sample, Tensor
from tensortui.wire.messages import NOT_YET


class Program:
    """Samples of a program at given moments."""

    def __init__(self, build):
        self.build = build
        self.growth = Growth()
        self.seq = 0
        self.last = None

    def sample(self, seconds):
        self.seq += 1
        self.last = Sample(self.seq, 1000.0 + seconds, Process(7), tensors=dict(self.build.tensors))
        self.growth.update(self.last)

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
    assert (grown.count_before, grown.count) == (4, 31)
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
    window = growth._whole
    parts, width = window.parts, window.part_seconds
    assert parts < BUCKETS
    series = window.series.get(kind_of(tensors[0]))
    if series is None:
        assert len({count for _, count in history}) == 1
        return
    for part, least in enumerate(series.minima(parts)[0]):
        before = [count for at, count in history if int(at / width) < part]
        inside = [count for at, count in history if int(at / width) == part]
        assert least == min([*before[-1:], *inside])


def test_what_there_is_now_counts_those_that_never_changed(build):
    program = Program(build)
    for number in range(5):
        build.tensor(None, name=f"log[{number}]")
    for second in range(20):
        program.sample(second)
        build.tensor(None, name=f"log[{5 + second}]")
    program.sample(20)
    (row,) = program.growth.since_start().rows
    assert (row.start, row.now) == ((5, 80), (25, 400))
    assert row.trend == tuple(16 * (5 + max(second - 1, 0)) for second in range(20))
    assert row.steady


def test_a_mark_begins_anew_and_leaves_the_whole_time_alone(build):
    program = Program(build)
    for second in range(61):
        if second == 30:
            program.growth.mark()
        if second < 30:
            build.tensor(None, name=f"early[{second}]")
        else:
            build.tensor(None, name=f"late[{second}]")
        program.sample(second)
    marked = program.growth.since_mark()
    assert (marked.begun, marked.now) == (1029.0, 1060.0)
    assert [row.kind.name for row in marked.rows] == ["late[*]"]
    whole = program.growth.since_start().rows
    assert {row.kind.name: row.steady for row in whole} == {"late[*]": False, "early[*]": False}
    assert marked.rows[0].steady
    program.growth.unmark()
    assert program.growth.since_mark() is None


def test_until_there_is_something_to_compare_it_is_said_how_long_that_takes(build):
    program = Program(build)
    for second in range(5):
        build.tensor(None, name=f"log[{second}]")
        program.sample(second)
    early = program.growth.since_start()
    assert early.rows is None
    assert early.patience == 5.0
    program.sample(5)
    assert program.growth.since_start().rows


def test_results_of_many_shapes_are_one_group(build):
    program = Program(build)
    for step in range(41):
        build.tensor(None, (step * 7 % 11 + 1, 4), name=f"outputs[{step}]")
        passing = build.tensor(None, (step * 5 % 13 + 1,), name="hidden @ step() train.py:9")
        program.sample(step)
        del build.tensors[passing]
    (row,) = program.growth.grown()
    assert (row.kind.name, row.kind.shape, row.shapes, row.now.tensors) == ("outputs[*]", None, 11, 41)


def test_the_youngest_of_a_group_is_found_when_the_newest_are_gone(build):
    program = Program(build)
    for step in range(41):
        build.tensor(None, (step * 7 % 11 + 1, 4), name=f"outputs[{step}] @ main() train.py:{step} [loader]")
        build.tensor(None, (4,), name=None)
        build.tensor(None, (4,), name="outputs_of_another")
        program.sample(step)
    rows = {row.kind.name: row for row in program.growth.grown()}
    for name, pattern in (("outputs[30]", "outputs[*] @ main() train.py [loader]"), ("", "")):
        row = rows[pattern]
        assert youngest(row, program.last) is program.last.tensors[row.tensors[-1]]
        left = {tid: one for tid, one in build.tensors.items() if tid <= 93}
        found = youngest(row, replace(program.last, tensors=left))
        assert found is not None and "".join(found.names).startswith(name)
        assert found.id == max(tid for tid, one in left.items() if "".join(one.names)[:8] == name[:8])
        assert youngest(row, replace(program.last, tensors={})) is None


def test_groups_that_are_no_more_make_room_for_others(build, monkeypatch):
    monkeypatch.setattr(growth_module, "MOST_GROUPS", 10)
    program = Program(build)
    for second in range(60):
        passing = build.tensor(None, name=f"once_{chr(97 + second % 26)}_{chr(97 + second // 26)}")
        if second >= 20:
            build.tensor(None, name=f"log[{second}]")
        program.sample(second)
        del build.tensors[passing]
        assert len(program.growth._groups) <= 10
        assert len(program.growth._whole.series) <= 10
    assert [row.kind.name for row in program.growth.since_start().rows] == ["log[*]"]
    assert program.growth.since_start().rows[0].now.tensors == 40


def test_sizes_beyond_eight_bytes_are_no_failure(build):
    program = Program(build)
    for second in range(12):
        tid = build.tensor(None, name=f"huge[{second}]")
        build.tensors[tid] = replace(build.tensors[tid], bytes=(1 << 63) - 1)
        program.sample(second)
    (row,) = program.growth.since_start().rows
    assert row.now.bytes == 12 * ((1 << 63) - 1)


@given(st.lists(st.sets(st.integers(0, 40)), min_size=2, max_size=12), st.booleans())
def test_the_groups_count_what_the_newest_sample_has(steps, relative):
    growth = Growth()
    rest = ("Tensor", (4,), (1,), 0, "float32", "cpu", "strided", 16, 16, True, "contiguous", (), False, True, 0, None)
    pool = [Tensor(number, None, ("abcd"[number % 4] + f"[{number}]",), *rest, "other") for number in range(41)]
    before = set()
    for number, there in enumerate(steps):
        change = Change(frozenset(there - before), frozenset(), frozenset(before - there), since=number or None)
        change = change if relative else Change()
        tensors = {one: pool[one] for one in sorted(there)}
        growth.update(Sample(number + 1, float(number), Process(7), tensors=tensors, change=change))
        before = there
        for kind, group in growth._groups.items():
            assert group.count == sum(kind_of(one) == kind for one in tensors.values())
            assert group.bytes == 16 * group.count


def test_there_are_as_many_parts_as_can_be_compared():
    assert BUCKETS % 2 == 0
    assert BUCKETS >= 2 * PARTS


def test_what_only_gets_its_name_after_the_first_look_is_not_new(build):
    named = build.tensor(None, (4,), name="model.weight")
    before = Sample(1, 1000.0, Process(7), coverage=Coverage(False, (NOT_YET,)), tensors={})
    growth = Growth()
    growth.update(replace(before, tensors={named: replace(build.tensors[named], names=())}))
    for second in range(1, 60):
        growth.update(Sample(second + 1, 1000.0 + second, Process(7), tensors=dict(build.tensors)))
    comparison = growth.since_start()
    assert (comparison.rows, comparison.changed) == ((), 0)


def ring(build, program, unnamed, each=lambda second: None):
    """A buffer that is full: so many of its entries as `unnamed` says wait for their names at a moment."""
    entries = [build.tensor(None, (), name=f"ring[{at}]") for at in range(500)]
    for second in range(60):
        del build.tensors[entries.pop(0)]
        entries.append(build.tensor(None, (), category="input"))
        for at, tid in enumerate(entries):
            names = () if at >= 500 - unnamed(second) else (f"ring[{at}]",)
            build.tensors[tid] = replace(build.tensors[tid], names=names)
        each(second)
        program.sample(second)


def test_what_waits_longer_for_its_name_is_no_growth(build):
    program = Program(build)
    program.growth.mark()
    ring(build, program, lambda second: 8 + 8 * second)
    assert program.growth.grown() == []
    assert program.growth.since_start().rows == ()


def test_one_more_beside_those_that_wait_for_their_names_is_one(build):
    program = Program(build)
    ring(build, program, lambda second: 8 + 8 * second, lambda second: second % 9 or build.tensor(None, ()))
    assert program.growth.grown() == []
    assert all(row.now.tensors - row.start.tensors < 8 for row in program.growth.since_start().rows)


def test_tensors_without_a_name_that_are_kept_are_found_beside_those_that_wait_for_one(build):
    program = Program(build)
    ring(build, program, lambda second: 8 + 8 * second, lambda second: [build.tensor(None, ()) for _ in range(3)])
    rows = {row.kind.category: row for row in program.growth.grown()}
    assert rows["other"].steady and rows["other"].count_per_second == pytest.approx(3.0)
    (finding,) = find(program.last, Accounts(program.last), growth=program.growth)
    assert finding.evidence["count"] == rows["other"].count - rows["other"].count_before
    assert "other [] float32 on cpu" in finding.evidence["groups"]
    assert "holders" not in finding.evidence
    assert finding.evidence["seconds"] == round(finding.evidence["seconds"], 1)


@given(st.lists(st.sets(st.integers(0, 40)), min_size=2, max_size=12))
def test_the_totals_count_what_the_newest_sample_has(steps):
    growth = Growth()
    rest = ("Tensor", (4,), (1,), 0, "float32", "cpu", "strided", 16, 16, True, "contiguous", (), False, True, 0, None)
    pool = [Tensor(number, None, ("abcd"[number % 4],), *rest, ("other", "input")[number % 2]) for number in range(41)]
    for number, there in enumerate(steps):
        named = {one: replace(pool[one], names=() if (one + number) % 3 else pool[one].names) for one in there}
        growth.update(Sample(number + 1, float(number), Process(7), tensors=named))
        for total in growth._totals.values():
            assert total.size == (len(there), 16 * len(there))
        assert len(growth._totals) <= 1
