"""What following 100,000 tensors for growth takes, against counting the same rows into a plain dictionary, in one run.

    python tests/bench/bench_growth.py [tensors]

A source says what has changed since the sample before; where it cannot, all of both samples is compared. Both are
timed, each with 1,000 tensors that come and 1,000 that go, and so is what a judgement over every group takes, and the
difference of two documents. The ratio to the plain count is what to look at: wall times depend on the machine.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ui"))

from ui_data import many

from tensortui.analysis.difference import difference
from tensortui.analysis.document import document, dumps
from tensortui.analysis.growth import Growth
from tensortui.analysis.saved_document import decode
from tensortui.model import Change, Sample

CHANGED = 1_000
ROUNDS = 60


def plain_count(sample: Sample) -> dict[object, list[int]]:
    """The least that anybody who counts groups has to do."""
    counts: dict[object, list[int]] = {}
    for tensor in sample.tensors.values():
        entry = counts.setdefault((tensor.shape, tensor.dtype, tensor.device, tensor.category), [0, 0])
        entry[0] += 1
        entry[1] += tensor.bytes or 0
    return counts


def samples(first: Sample, relative: bool) -> list[Sample]:
    """A loop that keeps something: with each second the oldest thousand go, and a thousand others come."""
    tensors, numbers, out = dict(first.tensors), count(max(first.tensors) + 1), [first]
    for second in range(1, ROUNDS):
        gone = list(tensors)[:CHANGED]
        old = [tensors.pop(tid) for tid in gone]
        new = [replace(one, id=next(numbers), names=(f"kept[{second}]",)) for one in old]
        tensors.update((one.id, one) for one in new)
        change = Change(frozenset(one.id for one in new), frozenset(), frozenset(gone), since=out[-1].seq)
        out.append(
            replace(
                out[-1],
                seq=out[-1].seq + 1,
                taken_at=out[-1].taken_at + 1,
                tensors=MappingProxyType(dict(tensors)),
                change=change if relative else Change(),
            )
        )
    return out


def milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def followed(played: list[Sample]) -> tuple[Growth, float, float, float]:
    """Growth at the end of the samples, the time of its first update, the median of the others, and their longest."""
    growth = Growth()
    times = [milliseconds(lambda sample=sample: growth.update(sample)) for sample in played]  # type: ignore[misc]
    return growth, times[0], statistics.median(times[1:]), max(times[1:])


def main() -> None:
    tensors = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    first = many(tensors)
    gc.collect()
    gc.freeze()  # as the viewer does: a collection over all these records would be most of what is measured
    plain = statistics.median(milliseconds(lambda: plain_count(first)) for _ in range(5))
    kinds = statistics.median(
        milliseconds(lambda: Counter(one.category for one in first.tensors.values())) for _ in range(5)
    )
    print(f"{'plain count of all rows, by four fields':<52}{plain:9.1f} ms")
    print(f"{'the same by one field':<52}{kinds:9.1f} ms")
    for relative, said in ((True, "what changed is known"), (False, "all is compared")):
        played = samples(first, relative)
        gc.freeze()
        growth, begun, usual, longest = followed(played)
        print(f"{f'first update, {said}':<52}{begun:9.1f} ms")
        print(f"{f'update, {2 * CHANGED:,} changed, {said}':<52}{usual:9.1f} ms (longest {longest:.1f}), "
              f"{usual / plain:.2f} of the plain count")  # fmt: skip
        judged = milliseconds(growth.since_start)
        rows = growth.since_start().rows or ()
        print(f"{f'judging {len(growth._groups):,} groups':<52}{judged:9.1f} ms, {len(rows)} grew")
    tracemalloc.start()
    growth = followed(played)[0]
    print(f"{'memory of the groups and their history':<52}{tracemalloc.get_traced_memory()[0] / 2**20:9.1f} MiB")
    tracemalloc.stop()
    gc.disable()  # as the command does
    texts = [dumps(document(sample)).encode() for sample in (played[0], played[-1])]
    size = sum(map(len, texts)) / 2**20
    print(f"{'reading two documents':<52}{milliseconds(lambda: list(map(decode, texts))):9.1f} ms, {size:.0f} MiB")
    a, b = map(decode, texts)
    taken = milliseconds(lambda: difference(a, b))
    print(f"{'their difference':<52}{taken:9.1f} ms, {taken / plain:.2f} of the plain count")


if __name__ == "__main__":
    main()
