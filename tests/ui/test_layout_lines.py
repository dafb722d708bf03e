"""What the parts of the Layout screen say of a tensor: lines made of numbers, without a screen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from layout_data import BATCH, HEAD, MASK, PAIRS, ROW, SPARSE, STEPS, WINDOWS, XT, X, imports, layouts, look_at
from ui_data import HOSTILE, Build

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.layout.asking import Byte
from tensortui.analysis.text import width
from tensortui.ui.glyphs import ASCII, UNICODE, Glyphs
from tensortui.ui.screens.layout import KEYS
from tensortui.ui.sharing import LEAST_GRID, plan
from tensortui.ui.widgets.cost_table import asked_lines, costs_content
from tensortui.ui.widgets.element_facts import facts_content, find
from tensortui.ui.widgets.element_grid import OFFSETS, WALK, grid_content
from tensortui.ui.widgets.layout_head import head_content
from tensortui.ui.widgets.storage_ribbon import ribbon_content


def test_the_first_lines_say_what_it_is() -> None:
    text = head_content(look_at(XT), 3, 120, UNICODE).plain.splitlines()
    assert text[0].startswith(" x.t()  (32, 64)  strides (1, 32)  offset 0  float32  cpu") and "· other" in text[0]
    assert text[1:] == [
        " not contiguous: transposed (1, 0) of a contiguous (64, 32)",
        " memory runs along dim 0, then dim 1 (contiguous: dim 1, then dim 0)",
    ]
    assert (
        "shows 16.00 KiB and keeps the whole storage of 64.00 MiB alive"
        in head_content(look_at(ROW), 3, 80, ASCII).plain
    )
    assert "if a convolution reads this" in head_content(look_at(BATCH), 3, 120, UNICODE).plain
    assert "a sparse tensor has no strides" in head_content(look_at(SPARSE), 3, 120, UNICODE).plain


def test_the_ribbon_shows_where_each_tensor_lies() -> None:
    lines = ribbon_content(look_at(XT, (3, 5)), 9, 100, ASCII).plain.splitlines()
    ribbon = [line[42:] for line in lines]
    assert lines[0].startswith(" storage 8.00 KiB at 0x7f2010000000") and lines[0].rstrip().endswith("8.00 KiB")
    assert [line[:42].split()[-2:] for line in lines[1:5]] == [
        ["(64,", "32)"],
        ["(32,", "64)"],
        ["(64,", "11)"],
        ["(2,", "32)"],
    ]
    assert lines[2].startswith(" > x.t()")
    cells = len(ribbon[1])
    assert ribbon[1:4] == ["#" * cells, "#" * cells, "-" * cells]
    assert ribbon[4] == "#-" + "." * (cells - 2)
    assert lines[5].startswith("   in no tensor  0 B ") and ribbon[5] == "." * cells
    assert lines[6].startswith("   in several    8.00 KiB ") and ribbon[6] == "#" * cells
    assert ribbon[7].index("^") == 652 * cells // 8192 and "byte 652" in ribbon[7]


def test_gaps_are_drawn_and_counted() -> None:
    lines = ribbon_content(look_at(ROW), 3, 100, ASCII).plain.splitlines()
    assert lines[1][42:].count("-") == 1 and lines[1][42:].count("#") == 0
    assert lines[2].startswith("   in no tensor  63.98 MiB") and lines[2][42:].count("#") == len(lines[2][42:]) - 1
    assert not any("in several" in line for line in lines)


@pytest.mark.parametrize(
    ("shapes", "flags", "words"),
    [
        ([(0, 5)], (), "its storage has no bytes, and none are needed"),
        ([(0, 5), (100,)], (), "its storage was resized to nothing"),
        ([(100,)], (), "its storage was resized to nothing"),
        ([(100,)], ("subclass",), "its storage has no bytes, and none are needed"),
    ],
)
def test_a_storage_without_bytes_was_resized_where_some_are_needed(
    shapes: list[tuple[int, ...]], flags: tuple[str, ...], words: str
) -> None:
    b = Build()
    storage = b.storage(0, backing="none")
    for shape in shapes:
        b.add("freed", shape, storage=storage, flags=flags)
    look = look_at(1, sample=b.sample())
    assert ribbon_content(look, 3, 100, ASCII).plain.strip() == words


def test_no_copy_is_told_of_what_has_no_bytes() -> None:
    b = Build()
    b.add("freed", (100,), storage=b.storage(0, backing="none"), device="cpu")
    b.add("wrapper", (100,), storage=b.storage(0, backing="none"), device="cpu", flags=("subclass",))
    look = look_at(1, sample=b.sample())
    lines = costs_content(look.place, 9, 160, UNICODE).plain.splitlines()
    assert lines and "copy" not in [line.split()[1] for line in lines]
    (clone,) = (line for line in lines if line.startswith(" clone()"))
    assert "impossible the storage has 0 B, 400 B are needed: a copy would read beyond it, and can crash" in clone
    wrapper = costs_content(look_at(2, sample=b.sample()).place, 9, 160, UNICODE).plain
    assert "impossible" not in wrapper


def test_a_process_whose_torch_has_no_cuda_is_not_told_to_go_there() -> None:
    sample = layouts()
    sample = replace(sample, process=replace(sample.process, torch="2.13.0+cpu", cuda=None))
    look = look_at(XT, sample=sample)
    assert look.place is not None and "cuda" in look.absent
    assert "cuda" not in costs_content(look.place, 9, 160, UNICODE, absent=look.absent).plain
    asked = "".join(piece for piece, _ in asked_lines(look.place, "to(cuda)", 120, UNICODE, look.absent))
    assert "impossible the PyTorch of this process is built without cuda" in asked
    assert "to(cuda)" in costs_content(look_at(XT).place, 9, 160, UNICODE, absent=look_at(XT).absent).plain


def test_a_small_terminal_tells_most_costs_and_how_to_get_help() -> None:
    for mates, costs in ((1, 6), (2, 5), (4, 5)):
        share = plan(24, about=2, mates=mates, usual=8, asked=0, gone=False)
        assert share.costs >= costs and share.about >= 1 and share.grid >= LEAST_GRID
    assert sum(len(f"{key} {label}  ") for key, label in KEYS[: KEYS.index(("?", "help")) + 1]) < 80


def test_tensors_of_other_storages_over_the_same_memory_are_shown() -> None:
    sample = imports()
    first, last = look_at(1, (45,), sample=sample), look_at(2, sample=sample)
    head = " another storage lies over 80 B of it: both are imports of one block"
    assert head in head_content(first, 3, 80, UNICODE).plain.splitlines()
    lines = ribbon_content(first, 9, 120, ASCII).plain.splitlines()
    assert lines[1].startswith(" > first ") and set(lines[1][50:]) == {"#"}
    assert lines[2].startswith("   last ") and "(other storage) (60,)" in lines[2]
    cells = len(lines[1][50:].strip())
    assert lines[2][50:] == "." * (cells * 160 // 240) + "#" * (cells - cells * 160 // 240)
    assert lines[4].startswith("   in several    80 B ")
    assert "also last [5]" in facts_content(first, 9, 80, UNICODE).plain
    assert "also first [40]" in facts_content(last, 9, 80, UNICODE).plain
    neighbour = first.neighbour(1)
    assert neighbour is not None and neighbour.id == 2
    assert find(Byte(200), last) == ((50,), "byte 200")
    apart = replace(sample, storages={1: sample.storages[1], 2: replace(sample.storages[2], address=1 << 20)})
    assert first.take(apart, Accounts(apart)) and [mate.id for mate in first.mates] == [1] and not first.beside.bytes


def test_of_many_tensors_those_around_the_one_are_drawn() -> None:
    b = Build()
    storage = b.storage(64 * 100)
    for at in range(100):
        b.add(f"part{at}", (16,), storage=storage, offset=16 * at)
    look = look_at(51, sample=b.sample())
    lines = ribbon_content(look, 3, 100, ASCII).plain.splitlines()
    assert [line.split()[-3 if ">" not in line else 1] for line in lines[1:4]] and "> part50" in lines[2]
    assert "in no tensor  0 B" in lines[4]
    assert [mate and mate.names for mate in (look.neighbour(1), look.neighbour(-1))] == [("part51",), ("part49",)]


@pytest.mark.parametrize(("mode", "numbers"), [(OFFSETS, ["32", "33", "34"]), (WALK, ["4", "5", "6"])])
def test_the_grid_shows_offsets_or_the_order_of_memory(mode: str, numbers: list[str]) -> None:
    lines = grid_content(look_at(XT), 4, 24, mode, UNICODE).plain.splitlines()
    assert lines[1].split() == ["0", "1", "2"]
    assert [line.split()[2] for line in lines[2:5]] == numbers


def test_what_is_the_same_memory_has_a_sign() -> None:
    text = grid_content(look_at(WINDOWS, (3, 1)), 6, 60, OFFSETS, UNICODE).plain
    assert text.count("=4") == 3
    assert (
        "the same memory: [1, 3] [2, 2] [4, 0] of this tensor"
        in facts_content(look_at(WINDOWS, (3, 1)), 9, 80, ASCII).plain
    )
    assert "[0, 0] [1, 0] [2, 0] and 4,092 more" in facts_content(look_at(MASK, (3, 0)), 9, 80, ASCII).plain


def test_an_element_is_told_by_the_formula_and_by_who_else_reaches_it() -> None:
    assert facts_content(look_at(XT, (3, 5)), 9, 80, UNICODE).plain.splitlines() == [
        " [i, j] lies at 0 + i*1 + j*32",
        " [3, 5]: 0 + 3*1 + 5*32 = 163",
        " byte 652, at 0x7f201000028c",
        " also x [5, 3]",
        " also x[:, ::3] [5, 1]",
    ]
    assert facts_content(look_at(PAIRS, (1, 4)), 9, 80, UNICODE).plain.splitlines()[2].startswith(" byte 5, at")


def test_costs_say_view_copy_or_why_not() -> None:
    lines = costs_content(look_at(XT).place, 9, 160, UNICODE).plain.splitlines()
    said = {line.partition(")")[0].strip() + ")": " ".join(line.partition(")")[2].split()) for line in lines}
    assert said["contiguous()"] == "copy 8.00 KiB read and written, gives (32, 64) strides (64, 1)"
    assert said["view(-1)"] == "impossible dims 0, 1 cannot merge into 2048: stride 1, not 64*32"
    assert said["t()"] == "view 0 B, gives (64, 32) strides (32, 1)"
    assert said["to(cuda)"] == "copy 8.00 KiB over PCIe, gives (32, 64) strides (1, 32)"
    assert "share bytes" in costs_content(look_at(PAIRS).place, 5, 120, UNICODE).plain
    assert not costs_content(None, 5, 120, UNICODE).plain


EVERY = [X, XT, HEAD, STEPS, ROW, MASK, WINDOWS, SPARSE, PAIRS, BATCH]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("room", [20, 37, 80, 160])
@pytest.mark.parametrize("tid", EVERY)
def test_no_line_is_longer_than_the_room_and_no_part_than_its_lines(tid: int, room: int, glyphs: Glyphs) -> None:
    look = look_at(tid)
    parts = {
        "head": (head_content(look, 2, max(room, 60), glyphs), 4, max(room, 60)),
        "ribbon": (ribbon_content(look, 3, max(room, 60), glyphs), 8, max(room, 60)),
        "grid": (grid_content(look, 5, room, OFFSETS, glyphs), 7, room),
        "facts": (facts_content(look, 4, room, glyphs), 4, room),
        "costs": (costs_content(look.place, 3, max(room, 60), glyphs), 3, max(room, 60)),
    }
    for name, (text, lines, cells) in parts.items():
        written = text.plain.splitlines()
        assert len(written) <= lines, name
        assert all(width(line) <= cells for line in written), (name, written)
        assert glyphs is UNICODE or text.plain.isascii(), name


def test_names_of_the_target_are_neither_markup_nor_escapes() -> None:
    b = Build()
    storage = b.storage(64)
    for name in HOSTILE:
        b.add(name, (4, 4), storage=storage)
    look = look_at(1, sample=b.sample())
    for text in (
        head_content(look, 3, 200, UNICODE),
        ribbon_content(look, 12, 200, UNICODE),
        facts_content(look, 20, 200, UNICODE),
    ):
        assert not set(text.plain) & set("\x1b\u202e\ud800")
    assert "[bold red]x[/]" in ribbon_content(look, 12, 200, UNICODE).plain


@pytest.mark.parametrize("height", range(12, 60))
@pytest.mark.parametrize("mates", [1, 4, 500])
def test_the_parts_share_the_height(height: int, mates: int) -> None:
    for asked in (0, 4):
        share = plan(height, about=6, mates=mates, usual=9, asked=asked, gone=False)
        fixed = 3 + 2 + 2 + (1 if mates == 1 else 2) + 2 + 1 + (3 if height >= 34 else 0) + asked
        assert min(share) >= 0 and share.mates >= 1 and share.grid >= 1
        assert height < 22 + asked or (sum(share) + fixed == height and share.grid >= LEAST_GRID)


def test_what_is_typed_is_told_in_full_or_refused() -> None:
    place = look_at(XT).place
    assert place is not None
    text = "".join(piece for piece, _ in asked_lines(place, "t().contiguous().view(-1)", 120, UNICODE))
    assert [line.split()[:2] for line in text.splitlines()] == [
        ["t()", "view"],
        ["contiguous()", "itself"],
        ["view(-1)", "view"],
    ]
    text = "".join(piece for piece, _ in asked_lines(place, "view(-1)", 60, UNICODE))
    assert "64*32" in text and len(text.splitlines()) == 2
    assert "not understood" in asked_lines(place, "view(", 120, UNICODE)[0][0]
