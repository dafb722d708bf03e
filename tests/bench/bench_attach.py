"""How long an attach takes, and how long the training loop stands still meanwhile: ours against gdb.

    python tests/bench/bench_attach.py [--rounds 3] [--no-full-gdb]

All ways bring the same agent into the same torch process, in turns; the medians are printed, and their ratios to ours.
gdb runs the same bootstrap by PyGILState_Ensure, PyRun_SimpleString, PyGILState_Release. The loop leaves one core to
the attachers: otherwise their own work, wherever it is done, shows as a gap.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tensortui.attach import attach, bootstrap_source, find_endpoint
from tensortui.wire.frames import encode
from tensortui.wire.messages import PROTOCOLS

TARGET = """
import os, signal, time
import torch
torch.set_num_threads(max(1, os.cpu_count() - 1))
model = torch.nn.Sequential(*[torch.nn.Linear(128, 128) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
longest = 0.0
def tell(*_):
    global longest, last
    print(longest, flush=True)
    longest, last = 0.0, time.perf_counter()
def step():
    optimizer.zero_grad()
    model(torch.randn(32, 128)).square().mean().backward()
    optimizer.step()
for _ in range(20):
    step()
last = time.perf_counter()
signal.signal(signal.SIGUSR1, tell)
print("READY", flush=True)
while True:
    step()
    now = time.perf_counter()
    longest, last = max(longest, now - last), now
"""
GDB_SECONDS = 60  # its call deadlocks the target when the stopped thread holds a lock that the call needs
SETTLE = 0.5  # after a detach, before the next attach


class Target:
    """A torch training loop that knows its longest gap between two steps."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-c", TARGET]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._line()
        self.pid = self.process.pid

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def longest_gap(self) -> float:
        """The longest gap since the last call, in seconds."""
        os.kill(self.pid, signal.SIGUSR1)
        return float(self._line())

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()


def in_process(pid: int) -> None:
    """attach() as the viewer calls it."""
    attach(pid)


def as_command(pid: int) -> None:
    """A process of its own, with all its imports."""
    subprocess.run([sys.executable, "-c", f"from tensortui.attach import attach; attach({pid})"], check=True)


def nothing(pid: int) -> None:
    """The noise of the loop itself."""
    time.sleep(0.3)


def by_gdb(*options: str) -> Callable[[int], None]:
    """gdb, with `options` before the process is attached to."""

    def run(pid: int) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(bootstrap_source())
            file.flush()
            calls = [
                "sharedlibrary libpython",  # does nothing where all symbols are read, or Python is in the program
                "call (int)PyGILState_Ensure()",
                f"call (int)PyRun_SimpleString(\"exec(open('{file.name}').read())\")",
                "call (void)PyGILState_Release($1)",
            ]
            arguments = [word for call in calls for word in ("-ex", call)]
            command = ["gdb", "-nx", "-batch", *options, "-p", str(pid), *arguments]
            subprocess.run(command, capture_output=True, check=True, timeout=GDB_SECONDS)
            while find_endpoint(pid) is None:
                time.sleep(0.001)

    return run


def detach(pid: int) -> None:
    """End the agent, if there is one, and wait until it is gone."""
    endpoint = find_endpoint(pid)
    if endpoint is not None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(endpoint.path)
            client.sendall(encode({"t": "hello", "protocols": list(PROTOCOLS), "viewer": "bench", "token": ""}))
            client.sendall(encode({"t": "detach"}))
            while find_endpoint(pid) is not None:
                time.sleep(0.01)
    time.sleep(SETTLE)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-full-gdb", action="store_true", help="leave out gdb with all symbols, which is slow")
    arguments = parser.parse_args()
    ways: dict[str, Callable[[int], None]] = {
        "nothing (noise)": nothing,
        "tensortui, in process": in_process,
        "tensortui, as a command": as_command,
    }
    if shutil.which("gdb"):
        ways["gdb, symbols off"] = by_gdb("-iex", "set auto-solib-add off")
        if not arguments.no_full_gdb:
            ways["gdb, all symbols"] = by_gdb()
    else:
        print("gdb is not installed: its rows are left out")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    gaps: dict[str, list[float]] = {name: [] for name in ways}
    deaths = dict.fromkeys(ways, 0)
    target = Target()
    try:
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                target.longest_gap()
                began = time.perf_counter()
                try:
                    way(target.pid)
                    took = time.perf_counter() - began
                    time.sleep(0.02)
                    gaps[name].append(target.longest_gap())
                    seconds[name].append(took)
                    detach(target.pid)
                except (OSError, ValueError, subprocess.SubprocessError):
                    deaths[name] += 1
                    target.end()
                    target = Target()
    finally:
        target.end()
    report(seconds, gaps, deaths)


def report(seconds: dict[str, list[float]], gaps: dict[str, list[float]], deaths: dict[str, int]) -> None:
    """Print the medians, and the ratios to ours."""
    ours = "tensortui, in process"
    print(f"{'':24} {'ms to agent':>12} {'ratio':>8} {'longest gap ms':>15} {'ratio':>8}  rounds  failed")
    for name, measured in seconds.items():
        if not measured:
            print(f"{name:24} every round failed ({deaths[name]})")
            continue
        took, gap = statistics.median(measured), statistics.median(gaps[name])
        ratios = took / statistics.median(seconds[ours]), gap / statistics.median(gaps[ours])
        print(
            f"{name:24} {took * 1000:12.1f} {ratios[0]:8.2f} {gap * 1000:15.2f} {ratios[1]:8.2f}"
            f"  {len(measured):6}  {deaths[name]:6}"
        )


if __name__ == "__main__":
    main()
