"""How much GPU memory each process uses, asked of the driver through NVML."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuProcesses:
    """GPU memory by pid, in bytes, summed over devices; None where the driver knows the process but not its memory.

    `missing` says in one sentence why there are no figures, "" where NVML answered for every device. The pids are
    those of the driver's own pid namespace, so inside a container other processes' pids may not match.
    """

    used: dict[int, int | None] = field(default_factory=dict)
    missing: str = ""


def gpu_processes() -> GpuProcesses:
    """Ask NVML once. Never raises: a driver that is absent, lost or silent is a sentence in `missing`."""
    try:
        import pynvml
    except ImportError:
        return GpuProcesses(missing="nvidia-ml-py is not installed")
    used: dict[int, int | None] = {}
    missing = ""
    try:
        with _nvml(pynvml):
            for index in range(pynvml.nvmlDeviceGetCount()):
                try:
                    _add(used, pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(index)))
                except pynvml.NVMLError as error:
                    missing = f"GPU {index}: {error}"
    except pynvml.NVMLError as error:
        missing = f"NVML: {error}"
    return GpuProcesses(used, missing)


@contextmanager
def _nvml(pynvml: Any) -> Iterator[None]:
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _add(used: dict[int, int | None], processes: list[Any]) -> None:
    for process in processes:
        pid, memory = int(process.pid), process.usedGpuMemory
        before = used.get(pid, 0)
        used[pid] = None if memory is None or before is None else before + int(memory)
