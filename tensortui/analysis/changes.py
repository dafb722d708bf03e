"""What differs between two samples that do not say so themselves."""

from __future__ import annotations

from collections.abc import Mapping


def unlike(before: Mapping[int, object], after: Mapping[int, object]) -> list[int]:
    """The ids whose records are not the same object: new, gone or changed."""
    ids = [number for number, record in after.items() if before.get(number) is not record]
    ids.extend(number for number in before if number not in after)
    return ids
