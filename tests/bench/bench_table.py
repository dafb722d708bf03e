"""How the tensor table behaves at 100,000 rows, and Textual's DataTable at a size it can take, in one run.

    python tests/bench/bench_table.py [rows]

Prints first paint, key Down, page down, how long a sort takes and the longest that a key waits meanwhile, a sample of
1,000 changed tensors and the longest that a key waits while such samples come, idle CPU and memory. Keys are pressed
one at a time, as fingers do. Wall times are upper bounds on a shared machine; look at the ratios.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

os.environ.update(TEXTUAL_ANIMATIONS="none", TEXTUAL_SMOOTH_SCROLL="0", COLORTERM="truecolor", TERM="xterm-256color")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ui"))

import psutil
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import DataTable
from ui_data import Played, many

from tensortui.model import Change, Sample
from tensortui.ui.app import TensortuiApp
from tensortui.ui.columns import COLUMNS
from tensortui.ui.glyphs import UNICODE
from tensortui.ui.screens.tensors import TensorsScreen

SIZE = (160, 45)
KEYS = 40
BETWEEN_KEYS = 0.03  # seconds; pressed at once after each painting, keys would fall into step with the frames
COMPARED = 2_000  # rows of the DataTable
IDLE_SECONDS = 5.0


async def timed(pilot: Pilot[None], key: str, cursor: Callable[[], int]) -> list[float]:
    """Milliseconds from each press to the end of its painting."""
    out = []
    for _ in range(KEYS):
        start, before, painted = time.perf_counter(), cursor(), asyncio.Event()
        pilot.app.simulate_key(key)
        while cursor() == before:
            await asyncio.sleep(0)
        pilot.app.screen.call_after_refresh(painted.set)
        await painted.wait()
        out.append((time.perf_counter() - start) * 1e3)
        await asyncio.sleep(BETWEEN_KEYS)
    return out


async def longest_wait(true: Callable[[], bool]) -> float:
    """The longest, in milliseconds, that the event loop, and with it a key, waits while `true`."""
    longest = 0.0
    while true():
        start = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - start - 0.001)
    return longest * 1e3


async def cpu_share(seconds: float) -> float:
    """The part of a core that this process uses while nothing happens."""
    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - start)


def with_changes(sample: Sample, count: int, chance: random.Random) -> Sample:
    tensors = dict(sample.tensors)
    ids = chance.sample(list(tensors), count)
    for tid in ids:
        tensors[tid] = replace(tensors[tid], version=(tensors[tid].version or 0) + 1)
    return replace(
        sample,
        seq=sample.seq + 1,
        taken_at=time.time(),
        tensors=MappingProxyType(tensors),
        change=Change(changed=frozenset(ids), since=sample.seq),
    )


async def until(true: Callable[[], bool], pause: Callable[[float], Awaitable[None]]) -> None:
    while not true():
        await pause(0.001)


async def ours(rows: int) -> dict[str, str]:
    sample = replace(many(rows), taken_at=time.time())
    gc.collect()
    before = psutil.Process().memory_info().rss
    source = Played()

    async def connect() -> Played:
        return source

    app = TensortuiApp(connect, ascii_only=False)
    result = {}
    async with app.run_test(size=SIZE) as pilot:
        await until(lambda: isinstance(app.screen, TensorsScreen), asyncio.sleep)
        screen = app.screen
        assert isinstance(screen, TensorsScreen)
        start = time.perf_counter()
        source.queue.put_nowait(sample)
        await until(lambda: screen.rows.sample is sample, asyncio.sleep)
        await pilot.pause()
        result["first paint s"] = f"{time.perf_counter() - start:.2f}"
        for name, key in (("key Down ms", "down"), ("page ms", "pagedown")):
            times = await timed(pilot, key, lambda: screen.tree_view.cursor)
            result[name] = f"{statistics.median(times):.1f} (max {max(times):.1f})"
        await until(lambda: not screen.tree_view.busy, asyncio.sleep)
        start = time.perf_counter()
        screen.tree_view.sort_by("name")
        waited = await longest_wait(lambda: screen.tree_view.busy)
        result["sort ms, key meanwhile ms"] = f"{(time.perf_counter() - start) * 1e3:.0f}, {waited:.0f}"
        start = time.perf_counter()
        screen.set_filter("block.3")
        waited = await longest_wait(lambda: screen.tree_view.busy)
        result["filter ms, key meanwhile ms"] = f"{(time.perf_counter() - start) * 1e3:.0f}, {waited:.0f}"
        screen.set_filter("")
        await until(lambda: not screen.tree_view.busy, asyncio.sleep)
        result["idle % of a core"] = f"{await cpu_share(IDLE_SECONDS) * 100:.1f}"
        chance, cpu, waited = random.Random(3), 0.0, 0.0
        for _ in range(5):
            sample = with_changes(sample, 1_000, chance)
            begun, end = time.process_time(), time.perf_counter() + 1
            source.queue.put_nowait(sample)
            waited = max(waited, await longest_wait(lambda end=end: time.perf_counter() < end))  # type: ignore[misc]
            cpu += time.process_time() - begun
        result["1,000 changes a second, % of a core"] = f"{cpu / 5 * 100:.1f}"
        result["key meanwhile ms"] = f"{waited:.0f}"
        result["memory MiB"] = f"{psutil.Process().memory_info().rss / 2**20:.0f} (rows {before / 2**20:.0f})"
    return result


class Compared(App[None]):
    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row")

    def fill(self, sample: Sample) -> None:
        table = self.query_one(DataTable)
        table.add_columns(*(column.title for column in COLUMNS))
        table.add_rows([[column.text(t, UNICODE) for column in COLUMNS] for t in sample.tensors.values()])
        table.focus()


async def theirs(rows: int) -> dict[str, str]:
    sample = many(rows)
    app = Compared()
    result = {}
    async with app.run_test(size=SIZE) as pilot:
        table = app.query_one(DataTable)
        start = time.perf_counter()
        app.fill(sample)
        await pilot.pause()
        result["first paint s"] = f"{time.perf_counter() - start:.2f}"
        for name, key in (("key Down ms", "down"), ("page ms", "pagedown")):
            times = await timed(pilot, key, lambda: table.cursor_row)
            result[name] = f"{statistics.median(times):.1f} (max {max(times):.1f})"
        result["idle % of a core"] = f"{await cpu_share(2) * 100:.1f}"
    return result


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    mine, other = asyncio.run(ours(rows)), asyncio.run(theirs(COMPARED))
    print(f"{'':<38}{f'table, {rows:,} rows':<28}DataTable, {COMPARED:,} rows")
    for name, value in mine.items():
        print(f"{name:<38}{value:<28}{other.get(name, '-')}")
    paint = float(other["first paint s"]) / COMPARED / (float(mine["first paint s"]) / rows)
    down = float(other["key Down ms"].split()[0]) / float(mine["key Down ms"].split()[0])
    print(f"DataTable takes {paint:.0f} times as long a row to the first paint, {down:.1f} times as long a key Down")


if __name__ == "__main__":
    main()
