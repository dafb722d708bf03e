"""The columns of the tensor table: what each says of a tensor, how it sorts, how wide it is, and when it gives way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensortui.analysis.text import natural, safe
from tensortui.analysis.text import width as cells
from tensortui.analysis.units import format_bytes, format_number
from tensortui.model import CATEGORY_RANK, Storage, Tensor
from tensortui.ui.glyphs import Glyphs

SHORT_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "complex64": "c64",
    "complex128": "c128",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "complex32": "c32",
}


@dataclass(frozen=True)
class Column:
    """One column. `priority` 0 never gives way; the highest goes first when the terminal is narrow."""

    key: str
    title: str
    width: int
    priority: int
    text: Callable[[Tensor, Glyphs], str]
    sort: Callable[[Tensor], Any]
    right: bool = False
    descending: bool = False  # the direction that is wanted first


def name_text(tensor: Tensor) -> str:
    """The first name; a tensor without one goes by its number, and what keeps it."""
    if tensor.names:
        return tensor.names[0]
    if "base-only" in tensor.flags:
        return f"unnamed #{tensor.id}, a base"
    return f"unnamed #{tensor.id}" if tensor.python else f"unnamed #{tensor.id}, C++ only"


def names_text(tensor: Tensor, glyphs: Glyphs) -> str:
    """The name, and how many others the tensor goes by."""
    return name_text(tensor) + more_names(tensor, glyphs)


def more_names(tensor: Tensor, glyphs: Glyphs) -> str:
    """How many other names a tensor goes by, to stand behind the first."""
    more = len(tensor.names) - 1
    return f"  {glyphs.equals} {names_count(more)}" if more > 0 else ""


def names_count(more: int) -> str:
    """1 more name, 3 more names."""
    return "1 more name" if more == 1 else f"{more} more names"


def dims_text(dims: tuple[int, ...] | None) -> str:
    """A shape or strides, as Python writes a tuple."""
    if dims is None:
        return "n/a"
    return f"({dims[0]},)" if len(dims) == 1 else "(" + ", ".join(map(str, dims)) + ")"


def dtype_text(dtype: str | None) -> str:
    """The usual short form of a dtype."""
    return "n/a" if dtype is None else SHORT_DTYPES.get(dtype, dtype)


def _distinct(tensor: Tensor, glyphs: Glyphs) -> str:
    if tensor.distinct_bytes is not None and tensor.distinct_bytes == tensor.bytes:
        return glyphs.equals  # the usual case, kept quiet so that the others stand out
    return format_bytes(tensor.distinct_bytes)


def _numel(tensor: Tensor) -> int:
    count = 1
    for size in tensor.shape or ():
        count *= size
    return count if tensor.shape is not None else -1


NAME = Column("name", "name", 0, 0, names_text, lambda t: natural(name_text(t)))
CATEGORY = Column(
    "category",
    "category",
    12,
    1,
    lambda t, g: f"{g.category.get(t.category, '?')} {t.category}",
    lambda t: CATEGORY_RANK.get(t.category, 99),
)
# The glyph alone: the totals above the table say which it is.
CATEGORY_GLYPH = replace(CATEGORY, title="cat", width=3, text=lambda t, g: g.category.get(t.category, "?"))
COLUMNS = (
    NAME,
    Column("shape", "shape", 16, 1, lambda t, g: dims_text(t.shape), _numel, descending=True),
    Column("dtype", "dtype", 6, 1, lambda t, g: dtype_text(t.dtype), lambda t: t.dtype or ""),
    Column("device", "device", 7, 4, lambda t, g: t.device or "n/a", lambda t: t.device or ""),
    Column("bytes", "bytes", 10, 2, lambda t, g: format_bytes(t.bytes), lambda t: t.bytes or 0, True, True),
    Column("distinct", "distinct", 10, 8, _distinct, lambda t: t.distinct_bytes or 0, True, True),
    Column("strides", "strides", 14, 5, lambda t, g: dims_text(t.strides), lambda t: t.strides or ()),
    Column("offset", "offset", 7, 6, lambda t, g: format_number(t.offset, 7), lambda t: t.offset or 0, True, True),
    Column("version", "ver", 6, 3, lambda t, g: format_number(t.version, 6), lambda t: t.version or 0, True, True),
    Column("grad_fn", "grad_fn", 14, 7, lambda t, g: t.grad_fn or "", lambda t: t.grad_fn or "~"),
    CATEGORY,
)
BY_KEY = {column.key: column for column in COLUMNS}
MIN_NAME, MIN_NAME_WIDE = 20, 28
NARROW = 100  # below it the category is its glyph
GAP = 1
BAR_WITH_SHARE = 10  # a bar of this width has its share in numbers beside it


@dataclass(frozen=True)
class Layout:
    """Where the columns stand on a line of `width` cells. `bar` is the width of the storage's bar."""

    width: int
    bar: int
    name: int
    columns: tuple[Column, ...]  # without the name
    hidden: tuple[Column, ...]

    @property
    def storage(self) -> int:
        """The width of the storage column: mark, arrow, bytes, bar and share."""
        return storage_width(self.bar)

    def cell_width(self, column: Column) -> int:
        """The width of one column's cell."""
        return self.name if column.key == "name" else column.width

    def column_at(self, x: int) -> str | None:
        """The key of the column whose title stands at `x`; the storage column sorts by its bytes."""
        right = self.storage
        if x < right:
            return "bytes"
        for column in (NAME, *self.columns):
            right += self.cell_width(column) + GAP
            if x < right:
                return column.key
        return None


def storage_width(bar: int) -> int:
    """A mark, an arrow, the bytes, the bar; the share in numbers where there is plenty of room."""
    return 4 + 10 + 1 + bar + (7 if bar >= BAR_WITH_SHARE else 0)


def lay_out(width: int, pan: int = 0, chosen: Sequence[str] = (), needs: Mapping[str, int] | None = None) -> Layout:
    """Choose the columns for a line of `width` cells: of those `chosen`, in that order, else of all.

    `pan` leaves out that many columns after the name. `needs` are the cells that columns fill in what is shown: what
    they leave goes to the name. It does not decide which columns there are, so that none comes and goes with a sample.
    """
    bar = BAR_WITH_SHARE if width >= 175 else 8 if width >= 110 else 5
    least = MIN_NAME_WIDE if width >= 110 else MIN_NAME
    columns = [BY_KEY[key] for key in chosen] if chosen else list(COLUMNS[1:])
    columns = columns[min(pan, len(columns) - 1) :]
    if width < NARROW:
        columns = [CATEGORY_GLYPH if column is CATEGORY else column for column in columns]
    taken = storage_width(bar)
    while len(columns) > 1 and taken + least + sum(c.width + GAP for c in columns) > width:
        # Chosen or panned: what is at the left was asked for, so the right gives way. Else the least important does.
        columns.remove(columns[-1] if pan or chosen else max(columns, key=lambda c: c.priority))
    if needs is not None:
        columns = [replace(c, width=min(c.width, max(len(c.title), needs.get(c.key, 0)))) for c in columns]
    name = max(width - taken - sum(c.width + GAP for c in columns), 8)
    shown = {column.key for column in columns}
    hidden = tuple(column for column in COLUMNS[1:] if column.key not in shown)
    return Layout(width, bar, name, tuple(columns), hidden)


def needs_of(tensors: Iterable[Tensor], glyphs: Glyphs, least: Mapping[str, int] | None = None) -> dict[str, int]:
    """The cells that each column fills for these tensors; not fewer than `least`."""
    needs = {**dict.fromkeys(BY_KEY, 0), **(least or {})}
    for tensor in tensors:
        for column in COLUMNS[1:]:
            needs[column.key] = max(needs[column.key], cells(safe(column.text(tensor, glyphs))))
    return needs


def storage_bytes(storage: Storage | None) -> int:
    """The bytes of a storage, 0 where unknown."""
    return storage.bytes or 0 if storage is not None else 0
