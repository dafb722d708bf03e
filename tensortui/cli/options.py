"""Options that several commands share: each is declared, checked and worded once."""

from __future__ import annotations

import argparse


def add_attach_options(parser: argparse.ArgumentParser) -> None:
    """Declare how long attaching may take and what the agent may cost."""
    parser.add_argument(
        "--timeout", type=seconds, default=5.0, metavar="S", help="give up attaching after S seconds (default 5)"
    )
    add_budget_option(parser)


def add_budget_option(parser: argparse.ArgumentParser) -> None:
    """Declare what the agent may cost, as a fraction of the process's time."""
    parser.add_argument(
        "--budget",
        type=percent,
        default=0.01,
        metavar="PERCENT",
        help="the part of the process's time that the agent may use (default 1)",
    )


def add_view_options(parser: argparse.ArgumentParser) -> None:
    """Declare how the screens look."""
    parser.add_argument("--light", action="store_true", help="colours for a light terminal")
    parser.add_argument("--ascii", action="store_true", default=None, help="draw with ASCII characters alone")


def seconds(text: str) -> float:
    """Return a time in seconds, above 0 and at most a day."""
    return _between(text, 0.0, 86400.0, "a number of seconds above 0")


def percent(text: str) -> float:
    """Return the fraction that `text` percent are."""
    return _between(text, 0.0, 100.0, "a percentage above 0") / 100


def _between(text: str, low: float, high: float, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = low
    if not low < value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} and at most {high:g}")
    return value
