"""The configuration file, and what is said of one that cannot be used."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tensortui.analysis.findings import UNITS, Thresholds
from tensortui.cli.configuration import WANTED, default_path, thresholds
from tensortui.errors import UsageError

Run = Callable[..., "subprocess.CompletedProcess[str]"]
MANUAL = Path(__file__).parents[2] / "tensortui" / "manual" / "configuration.md"
ALL = """
# everything is in one table
[findings]
retained_bytes = "8 MiB"
retained_share = 0.25
expanded_bytes = 1_000_000
expanded_factor = 4
kept_steps = 10
deep_nodes = 500
grown_count = 20
deepened_nodes = 200
per_kind = 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_every_threshold_can_be_set(file: Path) -> None:
    file.write_text(ALL)
    assert thresholds(file) == Thresholds(8 << 20, 0.25, 1_000_000, 4, 10, 500, 20, 200, 5)
    assert [each.name for each in fields(Thresholds) if each.name not in ALL] == []
    file.write_text("findings.kept_steps = 7")
    assert thresholds(file) == replace(Thresholds(), kept_steps=7)
    file.write_text("")
    assert thresholds(file) == Thresholds()


def test_the_manual_names_every_threshold_with_its_default() -> None:
    text = MANUAL.read_text("utf-8")
    for each in fields(Thresholds):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{each.name}` |")]
        default = f'"{each.default >> 20} MiB"' if UNITS[each.name] == "bytes" else f"{each.default}"
        assert row.split("|")[2].strip() == default
        kinds, _, why = each.metadata["why"].partition(": ")
        assert why in row and (kinds in row)


@pytest.mark.parametrize(
    ("text", "said", "next_step"),
    [
        (
            "[findings]\n\nretaned_bytes = 1",
            "{}:3: 'retaned_bytes' in [findings] is not known.",
            "mean retained_bytes?",
        ),
        ("[findings]\nwhatever = 1", "{}:2: 'whatever' in [findings] is not known.", "There are: retained_bytes,"),
        ("[colours]\nred = 1", "{}:1: 'colours' is not known.", "All settings are in [findings]."),
        ("findings = 3", "{}:1: findings is no table.", "`[findings]`"),
        ("[findings]\nkept_steps = 'many'", f"{{}}:2: kept_steps = 'many' is not {WANTED['count']}.", "Give a whole"),
        ("[findings]\nkept_steps = true", f"{{}}:2: kept_steps = true is not {WANTED['count']}.", "Give a whole"),
        ("[findings]\nkept_steps = 0", f"{{}}:2: kept_steps = 0 is not {WANTED['count']}.", "Give a whole"),
        ("[findings]\nkept_steps = 1.5", f"{{}}:2: kept_steps = 1.5 is not {WANTED['count']}.", "Give a whole"),
        ("[findings]\nretained_share = 5", f"{{}}:2: retained_share = 5 is not {WANTED['share']}.", "Give a share"),
        ("[findings]\nretained_share = nan", f"{{}}:2: retained_share = nan is not {WANTED['share']}.", "Give a share"),
        ("[findings]\nretained_bytes = '1 lot'", f"{{}}:2: retained_bytes = '1 lot' is not {WANTED['bytes']}.", "MiB"),
        ("[findings]\nper_kind = [", "{}: the configuration file is not TOML: ", "Mend the line"),
        ("a\x1b[2J = 1", "{}: the configuration file is not TOML: ", "Mend the line"),
        (b"[findings]\n# \xff", "{}: the configuration file is not UTF-8 at byte 13.", "Save it as UTF-8."),
    ],
)
def test_what_is_wrong_is_said_with_its_place(file: Path, text: str | bytes, said: str, next_step: str) -> None:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UsageError) as caught:
        thresholds(file)
    assert caught.value.cause.startswith(said.format(file))
    assert "\n" not in caught.value.cause
    assert next_step in caught.value.next_step


def test_a_file_that_was_named_has_to_be_there_and_readable(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such configuration file"):
        thresholds(file)
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        thresholds(tmp_path)


def test_the_file_of_the_user_need_not_be_there_and_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert thresholds() == Thresholds()
    path = default_path()
    assert path.is_relative_to(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text("[findings]\ngrown_count = 3")
    assert thresholds().grown_count == 3


def test_a_snapshot_goes_by_it(tensortui: Run, trainer: subprocess.Popen[str], file: Path) -> None:
    file.write_text('[findings]\nexpanded_bytes = "64 B"\nexpanded_factor = 2')
    pid = str(trainer.pid)

    def kinds(*options: str) -> list[str]:
        done = tensortui("snapshot", pid, "--json", "--graph", *options)
        assert done.returncode == 0, done.stderr
        return [finding["kind"] for finding in json.loads(done.stdout)["findings"]]

    assert kinds() == []
    file.write_text("[findings]\nkept_steps = 1\ndeep_nodes = 2")
    assert kinds("--config", str(file)) == ["deep-graph"]


@pytest.mark.parametrize("command", ["attach", "snapshot", "run", "demo"])
def test_every_command_that_uses_it_ends_with_what_is_wrong(tensortui: Run, file: Path, command: str) -> None:
    assert "--config FILE" in tensortui(command, "--help").stdout
    file.write_text("[findings]\nper_knd = 3")
    done = tensortui(command, "--config", str(file), *{"demo": [], "run": [__file__]}.get(command, [str(os.getpid())]))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"tensortui: {file}:2: 'per_knd' in [findings] is not known.",
        "Did you mean per_kind?",
    ]
