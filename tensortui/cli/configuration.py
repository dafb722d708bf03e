"""The configuration file: from where on the findings are worth telling. What is wrong with it is one clear line."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensortui.errors import UsageError

if TYPE_CHECKING:
    from tensortui.analysis.findings import Thresholds

TABLE = "findings"


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Declare which configuration file is read."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="the configuration file (default: config.toml of the user)"
    )


def default_path() -> Path:
    """Where the configuration of the user is."""
    import platformdirs

    return platformdirs.user_config_path("tensortui", appauthor=False) / "config.toml"


def thresholds(path: Path | None = None) -> Thresholds:
    """What the file at `path` says, or that of the user, which need not exist. Raises UsageError."""
    from tensortui.analysis.findings import Thresholds

    file = path or default_path()
    try:
        text = file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if path is None:
            return Thresholds()
        raise UsageError(f"{file}: there is no such configuration file.", "Name one that exists.") from None
    except OSError as error:
        raise UsageError(
            f"{file}: the configuration file cannot be read: {error.strerror or error}.",
            "Mend its permissions, or name another with `--config FILE`.",
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file}: the configuration file is not UTF-8 at byte {error.start}.", "Save it as UTF-8."
        ) from None
    return _Reader(file, text).thresholds()


class _Reader:
    """Reads one file, and says where in it what is wrong."""

    def __init__(self, file: Path, text: str) -> None:
        self._file = file
        self._text = text

    def thresholds(self) -> Thresholds:
        from tensortui.analysis.findings import UNITS, Thresholds

        document = self._document()
        for key in document:
            if key != TABLE:
                raise self._wrong(key, f"{_show(key)} is not known", f"All settings are in [{TABLE}].")
        values = document.get(TABLE, {})
        if not isinstance(values, dict):
            raise self._wrong(TABLE, f"{TABLE} is no table", f"Begin a table with the line `[{TABLE}]`.")
        for key in values:
            if key not in UNITS:
                raise self._wrong(key, f"{_show(key)} in [{TABLE}] is not known", _known(key, UNITS))
        told: dict[str, Any] = {key: self._value(key, value, UNITS[key]) for key, value in values.items()}
        return Thresholds(**told)

    def _document(self) -> dict[str, Any]:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            return dict(tomllib.loads(self._text))
        except tomllib.TOMLDecodeError as error:
            raise UsageError(
                f"{self._file}: the configuration file is not TOML: {error}.", "Mend the line; see https://toml.io."
            ) from None

    def _value(self, key: str, value: object, unit: str) -> float:
        from tensortui.analysis.units import parse_bytes

        number = parse_bytes(value) if unit == "bytes" and isinstance(value, str) else value
        kinds = (int, float) if unit == "share" else (int,)
        least, most = LIMITS[unit]
        if isinstance(number, bool) or not isinstance(number, kinds) or not least <= number <= most:
            raise self._wrong(key, f"{key} = {_show(value)} is not {WANTED[unit]}", f"Give {WANTED[unit]}.")
        return number

    def _wrong(self, key: str, cause: str, next_step: str) -> UsageError:
        line = self._line_of(key)
        where = f"{self._file}" if line is None else f"{self._file}:{line}"
        return UsageError(f"{where}: {cause}.", next_step)

    def _line_of(self, key: str) -> int | None:
        """The line on which a key stands, as far as that is seen without reading TOML once more."""
        name = rf"[\"']?{re.escape(key)}[\"']?"
        pattern = re.compile(rf"\s*(\[\s*{name}\s*[\].]|([\"']?{TABLE}[\"']?\s*\.\s*)?{name}\s*[=.])")
        lines = enumerate(self._text.splitlines(), 1)
        return next((number for number, line in lines if pattern.match(line)), None)


WANTED = {
    "bytes": 'a number of bytes, or a size such as "64 MiB"',
    "share": "a share from 0 to 1",
    "count": "a whole number from 1 on",
}
LIMITS = {"bytes": (0, 1 << 62), "share": (0, 1), "count": (1, 1 << 62)}


def _known(key: str, known: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known)}."


def _show(value: object) -> str:
    from tensortui.analysis.text import truncate

    return truncate(repr(value) if not isinstance(value, bool) else str(value).lower(), 60, ellipsis="...")
