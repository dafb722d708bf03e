"""What holds for the project as a whole: who imports what, what the README promises, how long a module may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tensortui.version import VERSION

CORE = ("analysis", "attach", "cli", "gpu", "model", "sources", "wire")
LONGEST_MODULE = 450
MACHINE_WORDS = re.compile(r"(?<!\})(?<!\d)/(root|work|home)/|/tmp/(?!tensortui)\w|\b(TODO|FIXME|XXX)\b")


def modules_of(root: Path, *packages: str) -> list[str]:
    names = []
    for package in packages:
        for path in sorted((root / "tensortui" / package).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            names.append(name.removesuffix(".__init__"))
    return names


def tracked(root: Path, *patterns: str) -> list[Path]:
    """The files under version control; all that match where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        return [path for pattern in patterns for path in root.rglob(pattern) if ".venv" not in path.parts]
    return [root / name for name in listed if name and (root / name).is_file()]


def test_the_core_imports_without_textual_and_without_torch(root: Path) -> None:
    names = modules_of(root, *CORE)
    assert len(names) > 30
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n    importlib.import_module(name)\n"
        "print([name for name in ('textual', 'rich', 'torch', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert result.stdout.strip() == "[]"


def test_the_screens_import_without_torch(root: Path) -> None:
    names = modules_of(root, "ui")
    code = (
        f"import importlib, sys\nfor name in {names!r}:\n    importlib.import_module(name)\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert result.stdout.strip() == "False"


def test_what_runs_in_the_target_is_python_3_9(root: Path) -> None:
    paths = [*(root / "tensortui" / "agent").glob("*.py"), *(root / "tensortui" / "wire").glob("*.py")]
    paths.append(root / "tensortui" / "attach" / "loader.py")
    assert len(paths) > 10
    for path in paths:
        ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 9))


def test_the_readme_and_the_checks_run_the_same_command(root: Path) -> None:
    readme = (root / "README.md").read_text("utf-8")
    commands = re.findall(r"^python3 -m venv .*$", readme, re.MULTILINE)
    assert len(commands) == 2, "one command for the main job, one for the tests"
    script = (root / ".ci" / "run").read_text("utf-8")
    pattern = re.search(r"grep -m 1 -E '([^']+)' README\.md", script)
    assert pattern is not None
    assert [bool(re.search(pattern[1], command)) for command in commands] == [False, True]
    assert "-m pytest" not in script.replace(pattern[1], ""), "the checks have no test command of their own"


def test_the_readme_names_every_command(root: Path) -> None:
    from tensortui.cli.main import COMMANDS

    readme = (root / "README.md").read_text("utf-8")
    assert [name for name in COMMANDS if f"| `tensortui {name}" not in readme] == []


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_links_lead_somewhere(root: Path, page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (root / page).read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (root / link).exists()] == []


def changelog_faults(text: str, version: str) -> list[str]:
    """What is wrong with a changelog while the code says that it is `version`."""
    sections = re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE)
    faults = []
    released: list[tuple[int, ...]] = []
    to_come = ""
    for at, (heading, body) in enumerate(sections):
        match = re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", heading)
        if match is not None:
            released.append(tuple(map(int, match.groups())))
        elif heading == "[Unreleased]" and at == 0:
            to_come = body
        else:
            faults.append(f"a heading out of place: {heading}")
        if not re.search(r"^- \S", body, re.MULTILINE):
            faults.append(f"nothing changed in {heading}")
    if released != sorted(set(released), reverse=True):
        faults.append("the newest does not come first")
    current = tuple(map(int, version.split(".")))
    if not released or max(released) < current:
        if not to_come.strip():
            faults.append(f"{version} is not released, and nothing is to come")
    elif current not in released:
        faults.append(f"there is a newer version than {version}")
    return faults


def test_the_changelog_has_this_version_or_what_is_to_come(root: Path) -> None:
    assert changelog_faults((root / "CHANGELOG.md").read_text("utf-8"), VERSION) == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("## [Unreleased]\n- A.\n", 0),
        ("## [Unreleased]\n- A.\n## [0.1.0] - 2026-01-01\n- B.\n", 0),
        ("## [0.2.0] - 2026-01-02\n### Added\n\n- A.\n\n## [0.1.0] - 2026-01-01\n- B.\n", 0),
        ("", 1),
        ("## [0.1.0] - 2026-01-01\n- B.\n", 1),
        ("## [0.3.0] - 2026-01-02\n- A.\n", 1),
        ("## [Unreleased]\n", 2),
        ("## [0.2.0]\n- A.\n", 2),
        ("## [0.1.0] - 2026-01-01\n- B.\n## [0.2.0] - 2026-01-02\n- A.\n", 1),
        ("## [0.2.0] - 2026-01-02\n- A.\n## [Unreleased]\n- B.\n", 1),
    ],
)
def test_a_changelog_that_lags_behind_is_noticed(text: str, faults: int) -> None:
    assert len(changelog_faults(text, "0.2.0")) == faults


def test_no_module_is_too_long(root: Path) -> None:
    lengths = {str(path.relative_to(root)): len(path.read_text("utf-8").splitlines()) for path in tracked(root, "*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_files_speak_of_the_project_alone(root: Path) -> None:
    here = Path(__file__).resolve()
    found = []
    for path in tracked(root, "*.py", "*.md", "*.toml", "*.tcss", "*.sh", ".ci/run"):
        if path == here:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if MACHINE_WORDS.search(line):
                found.append(f"{path.relative_to(root)}:{number}: {line.strip()}")
    assert found == []
