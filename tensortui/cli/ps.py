"""List the Python processes that can be attached to.

Shown are the processes that have PyTorch loaded; with --all every Python process. Where attaching is not allowed, the
reason stands in the last column.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui ps`."""
    parser.add_argument("--all", action="store_true", help="every Python process, also those without PyTorch")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Print the processes."""
    return 0
