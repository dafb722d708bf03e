"""`tensortui diff` on saved documents: what a leak looks like, and what is said of files that cannot be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]
LEAK = """
import sys, torch
history = {"logits": []}
model = torch.nn.Linear(8, 8)
print("READY", flush=True)
for line in sys.stdin:
    history["logits"] += [torch.ones(16, 8) for _ in range(int(line))]
    print("kept", flush=True)
"""


def document(tensors: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    storages = [{"id": one["id"], "bytes": one["bytes"], "device": "cpu"} for one in tensors or []]
    given = [{**one, "storage": one["id"]} for one in tensors or []]
    return {"schema": 1, "taken_at": "2026-01-02T03:04:05Z", "tensors": given, "storages": storages, **more}


def tensor(number: int, name: str, shape: list[int], size: int) -> dict[str, Any]:
    return {"id": number, "names": [name], "shape": shape, "dtype": "float32", "device": "cpu", "bytes": size}


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., str]:
    def write(name: str, found: Any) -> str:
        (tmp_path / name).write_text(found if isinstance(found, str) else json.dumps(found))
        return str(tmp_path / name)

    return write


def test_a_leak_is_named_with_its_tensors_and_bytes(
    tensortui: Run, start_ready: Callable[..., subprocess.Popen[str]], tmp_path: Path, save: Callable[..., str]
) -> None:
    program = tmp_path / "leak.py"
    program.write_text(LEAK)
    process = start_ready(str(program), stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    files = []
    for at in range(2):
        process.stdin.write(f"{5 + at}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "kept\n"
        snapshot = tensortui("snapshot", str(process.pid), "--json")
        assert snapshot.returncode == 0, snapshot.stderr
        files.append(save(f"{at}.json", snapshot.stdout))
    result = tensortui("diff", *files, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["groups"] == [
        {
            "shape": [16, 8], "dtype": "float32", "device": "cpu", "category": "other",
            "names": ["history['logits'][*]"], "tensors": 6, "storages": 6, "bytes": 6 * 512,
        }
    ]  # fmt: skip
    assert found["totals"] == {"tensors": 6, "storages": 6, "bytes": 6 * 512}
    assert found["seconds"] > 0
    assert found["a"]["file"] == files[0] and found["b"]["pid"] == process.pid
    assert [found[one]["totals"] for one in "ab"] == [
        {name: json.loads(Path(file).read_text())["totals"][name] for name in ("tensors", "storages", "bytes")}
        for file in files
    ]
    table = tensortui("diff", *files).stdout.splitlines()
    assert table[-1].split() == [
        "+3.00",
        "KiB",
        "+6",
        "+6",
        "(16,",
        "8)",
        "float32",
        "cpu",
        "other",
        "history['logits'][*]",
    ]
    assert table[2].startswith("change ") and "  +6 tensors, +6 storages, +3.00 KiB in " in table[2]


def test_the_table_begins_with_what_grew_and_ends_with_what_shrank(tensortui: Run, save: Callable[..., str]) -> None:
    a = save("a.json", document([tensor(1, "gone", [2, 2], 16), tensor(2, "same", [4], 16)]))
    b = save("b.json", document([tensor(7, f"\x1b[2J[{3}]", [4], 2048), tensor(8, "same", [4], 16)]))
    lines = tensortui("diff", a, b).stdout.splitlines()
    assert lines == [
        f"{a}  2026-01-02 03:04:05 UTC  2 tensors on 2 storages, 32 B",
        f"{b}  2026-01-02 03:04:05 UTC  2 tensors on 2 storages, 2.02 KiB",
        f"{'change':<{len(a)}}  0 tensors, 0 storages, +1.98 KiB in 0.0 s",
        "",
        "    bytes  tensors  storages  shape   dtype    device  category  names",
        "+2.00 KiB       +1        +1  (4,)    float32  cpu     other     \\e[*J[*]",
        "    -16 B       -1        -1  (2, 2)  float32  cpu     other     gone",
    ]
    assert all(len(line) <= 72 for line in tensortui("diff", a, b, COLUMNS="72").stdout.splitlines()[4:])


def test_two_that_do_not_differ_say_so_and_two_processes_too(tensortui: Run, save: Callable[..., str]) -> None:
    a = save("a.json", document([tensor(1, "x", [2], 8)], process={"pid": 7}))
    b = save("b.json", document([tensor(5, "x", [2], 8)], process={"pid": 8}))
    result = tensortui("diff", a, b)
    assert result.returncode == 0
    assert "these are two processes: 7 and 8" in result.stdout
    assert result.stdout.endswith("\n\nThere are as many tensors, storages and bytes of each group in both.\n")
    assert json.loads(tensortui("diff", a, b, "--json").stdout)["groups"] == []


def test_one_of_them_may_come_from_standard_input(save: Callable[..., str]) -> None:
    a = save("a.json", document())
    command = [sys.executable, "-m", "tensortui", "diff", "-", a]
    result = subprocess.run(
        command, input=json.dumps(document()), capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.startswith("standard input")
    result = subprocess.run(command, input="{", capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("tensortui: Standard input is cut off: its JSON breaks off after 1 bytes.\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ('{"schema": 1, "tens', "is cut off: its JSON breaks off after 19 bytes"),
        ("PK\x03\x04", "is not JSON: expecting value at line 1, column 1"),
        ('{"schema": 3}', "is of schema 3, and this tensortui reads schema 1"),
        (
            '{"schema": 1, "tensors": [{}], "storages": []}',
            "is not as schema 1 has it: there is no `id` - at `$.tensors[0]`",
        ),
        ('{"schema": 1, "x": ' + "9" * 9999 + "}", "holds a number of more digits than anything has"),
    ],
    ids=["empty", "cut", "binary", "schema", "form", "digits"],
)
def test_a_file_that_is_none_is_one_clear_line_and_the_next_step(
    tensortui: Run, save: Callable[..., str], text: str, said: str
) -> None:
    good, bad = save("good.json", document()), save("bad.json", text)
    for files in ((good, bad), (bad, good)):
        result = tensortui("diff", *files)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.splitlines() == [
            f"tensortui: {bad} {said}.",
            "Save one with `tensortui snapshot PID --json > FILE`.",
        ]


def test_files_that_cannot_be_opened_say_why(tensortui: Run, save: Callable[..., str], tmp_path: Path) -> None:
    good = save("good.json", document())
    for name, why in (
        (str(tmp_path / "none\x1b.json"), "No such file or directory"),
        (str(tmp_path), "Is a directory"),
    ):
        result = tensortui("diff", good, name)
        assert (result.returncode, result.stdout) == (2, "")
        shown = name.replace("\x1b", "\\e")
        assert result.stderr.splitlines()[0] == f"tensortui: {shown} cannot be read: {why}."
    if os.geteuid():
        os.chmod(good, 0)
        assert "Permission denied" in tensortui("diff", good, good).stderr


def test_both_from_standard_input_is_a_usage_error(tensortui: Run) -> None:
    result = tensortui("diff", "-", "-")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("tensortui: Standard input cannot be both documents.\n")
