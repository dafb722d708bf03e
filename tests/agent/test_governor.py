"""The purses: what may be spent, on an injected clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tensortui.agent.governor import BURST, DEBT, MOMENT, PASS, REQUEST, SAMPLE, SHARES, Governor


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@given(
    st.lists(st.tuples(st.sampled_from([SAMPLE, PASS, REQUEST]), st.floats(0.0001, 0.002)), min_size=50, max_size=300)
)
def test_no_kind_of_work_spends_more_than_its_income_and_what_was_saved(asked: list[tuple[str, float]]) -> None:
    clock = Clock()
    governor = Governor(0.01, clock)
    spent = {SAMPLE: 0.0, PASS: 0.0, REQUEST: 0.0}
    for kind, seconds in asked:
        clock.now += governor.wait(kind)
        if governor.wait(kind) > 0:
            continue
        governor.spend(seconds, kind)
        clock.now += seconds
        spent[kind] += seconds
    took = clock.now - 100.0
    assert spent[SAMPLE] + spent[PASS] <= 0.01 * took + 2 * 0.01 + 2 * 0.002
    assert spent[REQUEST] <= 0.01 * SHARES[REQUEST] * took + BURST + 0.002


def test_a_request_that_used_up_its_purse_leaves_the_passes_theirs() -> None:
    clock = Clock()
    governor = Governor(0.01, clock)
    governor.spend(BURST + 0.1, REQUEST)
    governor.spend(0.02, SAMPLE)
    assert governor.wait(REQUEST) > 0
    assert governor.wait(SAMPLE) > 0
    assert governor.wait(PASS) == 0


def test_samples_are_paid_before_anything_else() -> None:
    clock = Clock()
    governor = Governor(0.01, clock)
    governor.spend(1.0, SAMPLE)
    governor.spend(2.0, PASS)
    clock.now += 0.95 / (0.01 * SHARES[SAMPLE])
    assert governor.wait(SAMPLE) > 0
    clock.now += 0.05 / (0.01 * SHARES[SAMPLE])
    assert governor.wait(SAMPLE) == 0
    assert governor.wait(PASS) > 0


def test_what_is_there_for_a_moment_is_read_on_credit_that_the_next_sample_pays_off() -> None:
    clock = Clock()
    governor = Governor(0.01, clock)
    governor.spend(0.01, SAMPLE)
    assert governor.wait(SAMPLE) > 0
    governor.spend(DEBT / 2, MOMENT)
    assert governor.wait(MOMENT) == 0
    governor.spend(DEBT, MOMENT)
    assert governor.wait(MOMENT) > 0
    clock.now += DEBT / (0.01 * SHARES[SAMPLE])
    assert governor.wait(SAMPLE) > 0
    clock.now += DEBT / (0.01 * SHARES[SAMPLE])
    assert governor.wait(SAMPLE) == 0


def test_a_request_goes_on_at_some_budgets_once_what_was_saved_is_spent() -> None:
    clock = Clock()
    governor = Governor(0.01, clock)
    governor.spend(BURST + 0.1, REQUEST)
    clock.now += 0.9
    assert governor.wait(REQUEST) > 0
    clock.now += 0.2
    assert governor.wait(REQUEST) == 0


def test_the_share_is_that_of_the_last_ten_seconds() -> None:
    clock = Clock()
    governor = Governor(0.01, clock)
    for _ in range(40):
        clock.now += 0.5
        governor.spend(0.01, SAMPLE)
    assert 0.018 < governor.share() < 0.022
    clock.now += 10.0
    governor.spend(0.0, SAMPLE)
    clock.now += 1.0
    governor.spend(0.0, SAMPLE)
    assert governor.share() < 0.012
