"""What asking for the holders of a tensor costs: time and the program's longest stall, against gc.get_referrers.

    python tests/bench/bench_holders.py [--objects 200000 2000000] [--rounds 3]

The tensor hangs under an attribute, a dictionary and a list. A thread of the program ticks every 0.2 ms and measures
stalls. In turns nothing is done, the agent (at its 1 %) is asked, and the program itself goes up one level at a time
with gc.get_referrers until it comes to a module's globals. Medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any

NAME = "trainer.logs['val'][3]"


def target(objects: int) -> None:
    """Hold the heap; for each line on stdin do nothing, or go up with gc.get_referrers, and tell the longest stall."""
    import gc
    import threading
    import types

    import torch

    main: Any = sys.modules["__main__"]
    main.heap = [{"number": number} for number in range(objects // 2)]
    main.trainer = types.SimpleNamespace(logs={"val": [torch.zeros(3) for _ in range(5)]})
    gc.collect()
    gaps: list[float] = [0.0]

    def tick() -> None:
        last = time.perf_counter()
        while True:
            time.sleep(0.0002)
            now = time.perf_counter()
            gaps[0] = max(gaps[0], now - last)
            last = now

    sys.setswitchinterval(0.0005)
    threading.Thread(target=tick, daemon=True).start()
    print("READY", flush=True)
    for line in sys.stdin:
        if line == "reset\n":
            gaps[0] = 0.0
        elif line == "climb\n":
            things: list[Any] = [main.trainer.logs["val"][3]]
            began = time.perf_counter()
            while not any(thing is main.__dict__ for thing in things):
                things = [one for one in gc.get_referrers(*things) if not isinstance(one, types.FrameType)][:8]
            print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)
            continue
        print(json.dumps({"stall": gaps[0]}), flush=True)


def say(process: subprocess.Popen[str], line: str) -> dict[str, float]:
    """Have the program do something and return what it said."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


async def measure(objects: int, rounds: int) -> None:
    """Print one line a way."""
    from tensortui.attach import attach
    from tensortui.sources import LiveSource

    process = subprocess.Popen(
        [sys.executable, __file__, "--target", str(objects)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        source = await LiveSource.connect(attach(process.pid), interval=None)
        sample = await source.refresh()
        tensor = next(one.id for one in sample.tensors.values() if NAME in one.names)
        seconds: dict[str, list[float]] = {"nothing": [], "holders": [], "gc.get_referrers": []}
        stalls: dict[str, list[float]] = {name: [] for name in seconds}
        for _ in range(rounds):
            for name, took in seconds.items():
                await asyncio.sleep(12)  # the agent's purse for what is asked for fills up again
                await asyncio.to_thread(say, process, "reset")
                began = time.perf_counter()
                if name == "nothing":
                    await asyncio.sleep(3)
                elif name == "holders":
                    found = await source.holders(tensor)
                    assert [step.label for step in found.chains[0]] == ["trainer", ".logs", "['val']", "[3]"], found
                else:
                    await asyncio.to_thread(say, process, "climb")
                took.append(time.perf_counter() - began)
                stalls[name].append((await asyncio.to_thread(say, process, "stall"))["stall"])
        for name, took in seconds.items():
            stall = 1000 * statistics.median(stalls[name])
            print(f"{objects:>9} {name:<18} {statistics.median(took):>8.2f} {stall:>18.1f}")
        await source.detach()
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measure each size of heap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="+", default=[200_000, 2_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.target:
        target(options.target)
        return
    print(f"{'objects':>9} {'way':<18} {'seconds':>8} {'longest stall, ms':>18}")
    for objects in options.objects:
        asyncio.run(measure(objects, options.rounds))


if __name__ == "__main__":
    main()
