"""The JSON of what is on screen: one tensor for the clipboard, the whole sample for a file."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.document import document, dumps, storage_entry, tensor_entry
from tensortui.model import Sample, Storage, Tensor


def tensor_json(tensor: Tensor, storage: Storage | None, accounts: Accounts) -> str:
    """One tensor and its storage, as the document says them."""
    lies_on = storage_entry(storage, accounts) if storage is not None else None
    return dumps({"tensor": tensor_entry(tensor), "storage": lies_on}, indent=2)


def export(sample: Sample, folder: Path) -> Path:
    """Write the document of a sample into `folder`; a file that exists is never overwritten. May take seconds."""
    at = datetime.fromtimestamp(sample.taken_at, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    text = dumps(document(sample), indent=2)
    stem = f"tensortui-{sample.process.pid}-{at}"
    for number in range(1000):
        path = folder / (f"{stem}.json" if number == 0 else f"{stem}-{number}.json")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text + "\n")
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "there are too many such files here", str(folder))
