"""GPU memory by process, against a real NVML interface: the fake libnvidia-ml.so.1 of tests/fakecuda."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

FAKECUDA = Path(__file__).resolve().parents[1] / "fakecuda"
MAX_DEVICES, MAX_PROCESSES, MAGIC = 16, 64, 0x46434432  # fakecuda.h

ASK = """
import json
from tensortui.gpu import gpu_processes
answer = gpu_processes()
print(json.dumps([{str(pid): used for pid, used in answer.used.items()}, answer.missing]))
"""


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler to build the fake NVML with")
    out = tmp_path_factory.mktemp("nvml")
    command = [compiler, "-std=gnu11", "-O1", "-fPIC", "-shared", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*command, "-o", out / "libnvidia-ml.so.1", FAKECUDA / "fakenvml.c"], check=True)
    return out


def ask(library: Path | None, **environment: str) -> tuple[dict[str, int | None], str]:
    env = {**os.environ, **environment}
    if library is not None:
        env["LD_LIBRARY_PATH"] = str(library)
    result = subprocess.run([sys.executable, "-c", ASK], env=env, check=True, capture_output=True, text=True)
    used, missing = json.loads(result.stdout)
    return used, missing


def shared_file(path: Path, used: list[int]) -> Path:
    """Write the rig's shared file with this very process using `used[d]` bytes on device d."""
    start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    padded = used + [0] * (MAX_DEVICES - len(used))
    ours = struct.pack("<iiQ", os.getpid(), 0, start) + struct.pack("<16Q", *padded) + bytes(8 * 16 * 5)
    head = struct.pack("<II16Q", MAGIC, len(used), *([8 << 30] * MAX_DEVICES))
    path.write_bytes(head + ours + bytes(len(ours) * (MAX_PROCESSES - 1)))
    return path


def test_sums_the_devices_of_a_process(nvml: Path, tmp_path: Path) -> None:
    shared = shared_file(tmp_path / "shm", [256 << 20, 512 << 20])
    used, missing = ask(nvml, FAKECUDA_SHM=str(shared))
    assert used == {str(os.getpid()): 768 << 20}
    assert missing == ""


def test_memory_the_driver_will_not_tell_is_none(nvml: Path, tmp_path: Path) -> None:
    shared = shared_file(tmp_path / "shm", [256 << 20])
    used, _ = ask(nvml, FAKECUDA_SHM=str(shared), FAKENVML_NO_PROC_MEM="1")
    assert used == {str(os.getpid()): None}


def test_a_lost_gpu_is_said_and_the_others_go_on(nvml: Path, tmp_path: Path) -> None:
    shared = shared_file(tmp_path / "shm", [256 << 20, 512 << 20])
    used, missing = ask(nvml, FAKECUDA_SHM=str(shared), FAKENVML_FAIL="all@1=lost")
    assert used == {str(os.getpid()): 256 << 20}
    assert missing.startswith("GPU 1: ")


def test_no_driver_is_said(nvml: Path, tmp_path: Path) -> None:
    used, missing = ask(nvml, FAKECUDA_SHM=str(tmp_path / "none"), FAKENVML_FAIL="nvmlInit")
    assert used == {}
    assert missing.startswith("NVML: ")
