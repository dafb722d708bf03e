"""Which storages lie over the memory of one, against looking at every byte."""

from hypothesis import given
from hypothesis import strategies as st

from tensortui.analysis.accounting import Accounts
from tensortui.model import Process, Sample, Storage

SPANS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 30)), min_size=1, max_size=7)


@given(SPANS)
def test_those_that_share_bytes_are_found_with_where_they_start(spans):
    storages = {at: Storage(at, "cpu", *span) for at, span in enumerate(spans)}
    accounts = Accounts(Sample(1, 0.0, Process(1), storages=storages))
    for at, (start, size) in enumerate(spans):
        own = set(range(start, start + size))
        others = {other: set(range(span[0], sum(span))) for other, span in enumerate(spans) if other != at}
        found = accounts.beside(at)
        assert found.starts == {other: spans[other][0] - start for other, held in others.items() if held & own}
        assert found.bytes == len(own & set().union(*others.values()))


def test_only_memory_of_one_device_is_shared():
    storages = {1: Storage(1, "cpu", 64, 64), 2: Storage(2, "cuda:0", 64, 64), 3: Storage(3, "cpu", 64, 64, "none")}
    accounts = Accounts(Sample(1, 0.0, Process(1), storages=storages))
    assert accounts.beside(1) == ({}, 0) and accounts.beside(9) == ({}, 0)
