"""Reading a graph: how long it takes and the longest stall of the program, against a plain walk in the program itself.

    python tests/bench/bench_graph.py [--nodes 10000] [--seconds 2] [--rounds 3]

One process holds a graph that saved two tensors for each three nodes, and a loop in it that ticks every 0.2 ms measures
stalls. Each round the loop runs with nothing beside it, with a walk of `grad_fn.next_functions` in another thread, with
one that looks at the saved tensors too, as scripts do it, and while the agent reads the graph. Medians are printed, and
the ratios to nothing (stall) and to the plain walk (time).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

MODES = {
    "nothing": "nothing",
    "walk": "next_functions",
    "saved": "next_functions, _saved_*",
    "agent": "tensortui, read",
    "behind": "tensortui, looked at",
}


def target(nodes: int) -> None:
    """Hold the graph, then tick for each line `seconds mode` on stdin."""
    import torch

    torch.set_num_threads(1)
    weight = torch.randn(8, 8, requires_grad=True)
    out = torch.randn(8, 8) @ weight
    for _ in range((nodes - 2) // 3):
        out = torch.relu(out @ weight) + out
    print("READY", flush=True)

    def walk(with_saved: bool, took: list[float]) -> None:
        begun = time.perf_counter()
        seen, waiting, found = set(), [out.grad_fn], []
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            waiting.extend(following for following, _ in node.next_functions)
            if with_saved:
                found += [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
        took += [time.perf_counter() - begun, float(len(seen))]

    for line in sys.stdin:
        seconds, mode = line.split()
        sys.setswitchinterval(0.0005)  # so that the loop measures others' stalls, not its wait for its turn
        took: list[float] = []
        thread = threading.Thread(target=walk, args=(mode == "saved", took)) if mode in ("walk", "saved") else None
        gaps, last = [0.0], time.perf_counter()
        end = last + float(seconds)
        if thread is not None:
            thread.start()
        while last < end:
            time.sleep(0.0002)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now
        if thread is not None:
            thread.join()
        print(json.dumps({"stall": max(gaps), "time": took[0] if took else None}), flush=True)


def stretch(process: subprocess.Popen[str], seconds: float, mode: str) -> dict[str, Any]:
    """Have the target tick for a while."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seconds} {mode}\n")
    process.stdin.flush()
    return dict(json.loads(process.stdout.readline()))


async def rounds(process: subprocess.Popen[str], count: int, seconds: float) -> tuple[dict[str, list[Any]], Any]:
    """Every mode in turns; the agent is there all the time, and idle but in its own turn."""
    from tensortui.analysis.accounting import Accounts
    from tensortui.analysis.graph import Behind
    from tensortui.attach import attach
    from tensortui.sources import LiveSource

    results: dict[str, list[Any]] = {mode: [] for mode in MODES}
    source = await LiveSource.connect(await asyncio.to_thread(attach, process.pid), interval=None)
    await source.refresh()
    graph: Any = None
    for _ in range(count):
        for mode in ("nothing", "walk", "saved"):
            results[mode].append(await asyncio.to_thread(stretch, process, seconds, mode))
        ticking = asyncio.create_task(asyncio.to_thread(stretch, process, 2 * seconds, "agent"))
        await asyncio.sleep(0.2)
        begun = time.perf_counter()
        graph = await source.graph()
        took = time.perf_counter() - begun
        results["agent"].append({**await ticking, "time": took})
        sample = await source.refresh()
        begun = time.perf_counter()
        Behind(graph, sample, Accounts(sample))
        results["behind"].append({"stall": None, "time": time.perf_counter() - begun})  # in the viewer
    await source.detach()
    return results, graph


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--target", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.target:
        target(options.target)
        return
    command = [sys.executable, __file__, "--target", str(options.nodes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        results, graph = asyncio.run(rounds(process, options.rounds, options.seconds))
        report(results, graph)
    finally:
        process.kill()
        process.communicate()


def report(results: dict[str, list[Any]], graph: Any) -> None:
    """Print the medians, and their ratios."""
    saved = sum(len(node.saved) for node in graph.nodes)
    print(f"{len(graph.nodes)} nodes, {saved} saved tensors, cut {graph.cut} {'; '.join(graph.reasons)}")
    print(f"{'beside the loop':<26} {'time, ms':>9} {'to walk':>8} {'longest stall, ms':>18} {'to nothing':>11}")
    walk = _median(results["walk"], "time")
    nothing = _median(results["nothing"], "stall")
    for mode, label in MODES.items():
        took, stall = _median(results[mode], "time"), _median(results[mode], "stall")
        print(
            f"{label:<26} {_ms(took):>9} {_ratio(took, walk):>8} {_ms(stall):>18} {_ratio(stall, nothing):>11}",
            flush=True,
        )


def _median(results: list[Any], key: str) -> float | None:
    known = [one[key] for one in results if one[key] is not None]
    return statistics.median(known) if known else None


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.1f}"


def _ratio(one: float | None, other: float | None) -> str:
    return "" if one is None or not other else f"{one / other:.1f}"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
