"""The JSON of what is on screen: one tensor for the clipboard, the whole sample for a file."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from tensortui.analysis.document import document, dumps
from tensortui.ui.feed import Feed


def tensor_json(feed: Feed, tid: int) -> str:
    """One tensor of the newest sample, and its storage, as the document says them."""
    assert feed.sample is not None
    whole = document(feed.sample, accounts=feed.accounts)
    tensor = next((entry for entry in whole["tensors"] if entry["id"] == tid), None)
    storage = next((entry for entry in whole["storages"] if tensor and entry["id"] == tensor["storage"]), None)
    return dumps({"tensor": tensor, "storage": storage}, indent=2)


def export(feed: Feed, folder: Path) -> Path:
    """Write the document of the newest sample into `folder`; a file that exists is never overwritten."""
    assert feed.sample is not None
    at = datetime.fromtimestamp(feed.sample.taken_at, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    text = dumps(document(feed.sample, accounts=feed.accounts), indent=2)
    stem = f"tensortui-{feed.sample.process.pid}-{at}"
    for number in range(1000):
        path = folder / (f"{stem}.json" if number == 0 else f"{stem}-{number}.json")
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text + "\n")
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "there are too many such files here", str(folder))
