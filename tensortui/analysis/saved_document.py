"""Reading a JSON document of schema 1 that was saved before: the part of it that is compared. It may be anybody's."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import msgspec

from tensortui.analysis.document import SCHEMA


class DocumentError(ValueError):
    """Why something is no document that can be read: a verb and what follows, to stand behind the name of the file."""


class SavedTensor(msgspec.Struct, frozen=True):
    """One of `tensors`. Whatever else it says is passed over."""

    id: int
    storage: int | None = None
    names: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    bytes: int | None = None
    flags: tuple[str, ...] = ()
    category: str = "other"


class SavedStorage(msgspec.Struct, frozen=True):
    """One of `storages`."""

    id: int
    device: str | None = None
    bytes: int | None = None
    backing: str = "memory"
    counted_bytes: int | None = None
    category: str = "other"

    @property
    def counted(self) -> int:
        """What the totals count here: each byte once."""
        if self.counted_bytes is not None:
            return self.counted_bytes
        return 0 if self.backing == "none" else self.bytes or 0


class SavedProcess(msgspec.Struct, frozen=True):
    """`process`."""

    pid: int | None = None


class SavedDocument(msgspec.Struct, frozen=True):
    """A document."""

    schema: int
    tensors: tuple[SavedTensor, ...]
    storages: tuple[SavedStorage, ...]
    taken_at: datetime | None = None
    process: SavedProcess = SavedProcess()

    @property
    def moment(self) -> datetime | None:
        """When it was taken."""
        at = self.taken_at
        return at.replace(tzinfo=timezone.utc) if at is not None and at.tzinfo is None else at


_decoder = msgspec.json.Decoder(SavedDocument)


def decode(data: bytes) -> SavedDocument:
    """The document that `data` is. Raises DocumentError."""
    if not data.strip():
        raise DocumentError("is empty")
    try:
        return _checked(_decoder.decode(data))
    except (msgspec.MsgspecError, RecursionError):
        pass  # a name may hold half a surrogate, which msgspec refuses; what else is wrong the slow way tells
    found = _loads(data)
    try:
        return _checked(msgspec.convert(found, SavedDocument))
    except msgspec.ValidationError as error:
        raise _unlike(found, error) from None


def _loads(data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("is not text in UTF-8") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        bare = text.strip()
        if bare.startswith("{") and (not bare.endswith("}") or error.pos >= len(text.rstrip())):
            raise DocumentError(f"is cut off: its JSON breaks off after {len(data):,} bytes") from None
        place = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise DocumentError(f"is not JSON: {place[0].lower()}{place[1:]}") from None
    except RecursionError:
        raise DocumentError("is nested too deeply to be such a document") from None
    except ValueError:
        raise DocumentError("holds a number of more digits than anything has") from None


def _checked(document: SavedDocument) -> SavedDocument:
    if document.schema != SCHEMA:
        raise DocumentError(_other_schema(document.schema))
    return document


def _unlike(found: Any, error: msgspec.ValidationError) -> DocumentError:
    """What is wrong with JSON that has not the form of a document: of another schema it need not have it."""
    if not isinstance(found, dict) or found.get("schema") is None:
        return DocumentError("is JSON, but no document of tensortui: it has no `schema`")
    if found["schema"] != SCHEMA:
        return DocumentError(_other_schema(found["schema"]))
    message = str(error).replace("Object missing required field", "there is no").rstrip(".")
    return DocumentError(f"is not as schema {SCHEMA} has it: {message[0].lower()}{message[1:]}")


def _other_schema(schema: object) -> str:
    shown = json.dumps(schema, default=str)
    return f"is of schema {shown if len(shown) <= 20 else shown[:20] + '...'}, and this tensortui reads schema {SCHEMA}"
