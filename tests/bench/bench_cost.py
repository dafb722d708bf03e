"""What watching costs the target: training slowed down, and its longest stall, against the usual gc.get_objects() loop.

    python tests/bench/bench_cost.py [--objects 500000 2000000] [--tensors 10000] [--seconds 6] [--rounds 3]

One process holds the heap and trains; a thread that ticks every 0.2 ms measures stalls. Each round runs the training
for a while with nothing, while the agent is attached and has its first look, in turns with the agent paused and at one
sample a second (told relative to paused), and with the forum's loop once a second. Medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

PAIRS = 4  # stretches without and with samples, one after the other, in each round
SETTLE = 12.0  # seconds after which what the first look costs is over


def target(objects: int, tensors: int) -> None:
    """Hold the heap, then run one stretch of training for each line `seconds mode` on stdin."""
    import gc

    import torch

    torch.set_num_threads(1)
    gc.disable()
    heap = [[number] for number in range(objects)]
    kept = [torch.zeros(16) for _ in range(tensors)]
    gc.enable()
    gc.collect()
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(256, 256)
    print("READY", len(heap) + len(kept), flush=True)

    def forum_loop(stop: threading.Event) -> None:
        while not stop.wait(1.0):
            rows = []
            for thing in gc.get_objects():
                try:
                    if torch.is_tensor(thing) or (hasattr(thing, "data") and torch.is_tensor(thing.data)):
                        rows.append((type(thing), thing.size()))
                except Exception:
                    pass

    def tick(stop: threading.Event, gaps: list[float]) -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.0002)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    for line in sys.stdin:
        seconds, mode = line.split()
        sys.setswitchinterval(0.0005)  # so that the ticking thread measures others' stalls, not its wait for its turn
        stop, gaps = threading.Event(), [0.0]
        threads = [threading.Thread(target=tick, args=(stop, gaps))]
        if mode == "forum":
            threads.append(threading.Thread(target=forum_loop, args=(stop,)))
        for thread in threads:
            thread.start()
        end, steps, began = time.perf_counter() + float(seconds), 0, time.process_time()
        start = time.perf_counter()
        while time.perf_counter() < end:
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        rate = steps / (time.perf_counter() - start)
        stop.set()
        for thread in threads:
            thread.join()
        gaps.sort()
        print(json.dumps({"rate": rate, "stall": gaps[-1], "cpu": time.process_time() - began}), flush=True)


def stretch(process: subprocess.Popen[str], seconds: float, mode: str) -> dict[str, Any]:
    """Have the target train for a while."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seconds} {mode}\n")
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


async def watched(process: subprocess.Popen[str], seconds: float, results: dict[str, list[dict[str, Any]]]) -> Any:
    """Attach and train (the first figure holds the attach and the scan), train on with and without samples, detach."""
    from tensortui.attach import attach
    from tensortui.sources import LiveSource

    training = asyncio.get_running_loop().run_in_executor(None, stretch, process, seconds, "agent")
    await asyncio.sleep(0.5)
    endpoint = await asyncio.to_thread(attach, process.pid)
    source = await LiveSource.connect(endpoint)
    await source.set_interval(1.0)
    sample: Any = None

    async def follow() -> None:
        nonlocal sample
        async for one in source.updates():
            sample = one if hasattr(one, "cost") else sample

    following = asyncio.create_task(follow())
    results["first"].append(await training)
    await asyncio.sleep(SETTLE)
    for _ in range(PAIRS):
        for name, interval in (("paused", None), ("steady", 1.0)):
            await source.set_interval(interval)
            await asyncio.sleep(0.5)
            results[name].append(await asyncio.to_thread(stretch, process, seconds / 2, "agent"))
    await source.detach()
    following.cancel()
    return sample


def main() -> None:
    """Print one line a heap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="+", default=[500_000, 2_000_000])
    parser.add_argument("--tensors", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.target:
        target(*options.target)
        return
    print(f"{'objects':>9} {'watched by':<22} {'training':>9} {'longest stall, ms: median':>26} {'max':>7}")
    for objects in options.objects:
        command = [sys.executable, __file__, "--target", str(objects), str(options.tensors)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, -10)  # what the viewer and others do beside it is not the cost
        try:
            process.stdout.readline()
            results: dict[str, list[dict[str, Any]]] = {name: [] for name in LABELS}
            sample = None
            for _ in range(options.rounds):
                results["nothing"].append(stretch(process, options.seconds, "nothing"))
                sample = asyncio.run(watched(process, options.seconds, results))
                results["nothing"].append(stretch(process, options.seconds, "nothing"))
                results["forum"].append(stretch(process, options.seconds, "forum"))
            report(objects, results, sample)
        finally:
            process.kill()
            process.communicate()


LABELS = {
    "nothing": "nothing",
    "first": "tensortui, attaching",
    "paused": "tensortui, paused",
    "steady": "tensortui, 1 sample/s",
    "forum": "gc.get_objects(), 1/s",
}


def report(objects: int, results: dict[str, list[dict[str, Any]]], sample: Any) -> None:
    """Print the medians for one heap, training speed as a ratio to the unwatched stretches."""
    base = statistics.median(one["rate"] for one in results["nothing"])
    for name, label in LABELS.items():
        if name == "steady":  # against the stretches right before: the machine drifts
            base = statistics.median(one["rate"] for one in results["paused"])
        rate = statistics.median(one["rate"] for one in results[name]) / base
        base = statistics.median(one["rate"] for one in results["nothing"])
        stalls = [1000 * one["stall"] for one in results[name]]
        print(
            f"{objects:>9} {label:<22} {rate - 1:>+8.1%} {statistics.median(stalls):>26.1f} {max(stalls):>7.1f}",
            flush=True,
        )
    if sample is not None:
        cost, reasons = sample.cost, "; ".join(sample.coverage.reasons)
        print(
            f"{'':>9} it says: {len(sample.tensors)} tensors, share {cost.share:.2%} of {cost.budget:.0%}, "
            f"longest slice {1000 * cost.longest_slice:.1f} ms, complete {sample.coverage.complete} {reasons}"
        )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
