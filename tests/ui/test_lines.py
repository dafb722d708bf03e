"""The lines of the table, as rows of glyphs."""

from __future__ import annotations

from dataclasses import replace

from ui_data import HOSTILE, Build, hostile, training

from tensortui.analysis.accounting import Accounts, Totals
from tensortui.analysis.filtering import parse
from tensortui.analysis.findings import Thresholds, find
from tensortui.analysis.text import width
from tensortui.model import CATEGORIES, Sample
from tensortui.ui.columns import COLUMNS, lay_out, needs_of
from tensortui.ui.glyphs import ASCII, UNICODE, Glyphs, ascii_only
from tensortui.ui.groups import View
from tensortui.ui.lines import Lines, storage_warning
from tensortui.ui.rows import Rows
from tensortui.ui.widgets.output_pane import plain_lines
from tensortui.ui.widgets.totals_line import lines, strip


def rows_of(sample: Sample) -> Rows:
    rows = Rows()
    for _ in rows.update(sample, Accounts(sample), None):
        pass
    return rows


def drawn(sample: Sample, room: int, glyphs: Glyphs = UNICODE) -> list[str]:
    rows = rows_of(sample)
    draw, layout = Lines(rows, glyphs), lay_out(room)
    return ["".join(text for text, _ in draw.row(row, layout)).rstrip() for row in rows.order]


def test_titles_never_run_together() -> None:
    """Columns that are as narrow as their titles have no room for the arrow beside it."""
    rows = rows_of(training())
    for glyphs in (UNICODE, ASCII):
        for room in (80, 120, 160, 200):
            for column in COLUMNS:
                view = View(sort_by=column.key, reverse=True)
                layout = lay_out(room, needs={})
                header = "".join(text for text, _ in Lines(rows, glyphs).header(layout, view))
                at = layout.storage
                for shown in (COLUMNS[0], *layout.columns):
                    at += layout.cell_width(shown)
                    assert header[at] == " ", header
                    at += 1


def test_a_shared_storage_and_a_kept_one() -> None:
    b = Build()
    shared = b.storage(4096)
    b.add("x", (32, 32), storage=shared, version=3)
    b.add("x.t()", (32, 32), storage=shared, strides=(1, 32))
    b.add("row", (4096,), device="cpu", storage=b.storage(64 << 20, "cpu"))
    assert drawn(b.sample(), 80) == [
        " ▼  64.00 MiB ╸┄┄┄┄ cpu  1 tensor  ▲! kept by a view of 16.00 KiB",
        "                      row                 (4096,)          f32     16.00 KiB ·",
        " ▼   4.00 KiB ━━━━━ cuda:0  2 tensors",
        "                      x                   (32, 32)         f32      4.00 KiB ·",
        "                      x.t()               (32, 32)         f32      4.00 KiB ·",
    ]


def test_a_tensor_without_memory_has_no_bar() -> None:
    b = Build()
    b.add("shadow", (1024, 1024), device="meta", storage=b.storage(4 << 20, "meta", "none"))
    (line,) = drawn(b.sample(), 120)
    assert "shadow" in line and UNICODE.full not in line and UNICODE.empty not in line


def test_the_base_that_a_view_keeps_is_not_counted_as_a_view() -> None:
    b = Build()
    held = b.storage(64 << 20, "cpu")
    b.add((), (4096, 4096), device="cpu", storage=held, flags=("base-only",))
    b.add("row", (4096,), device="cpu", storage=held, flags=("view",))
    header, base, view = drawn(b.sample(), 120)
    assert header.endswith("kept by a view of 16.00 KiB") and " base held only by row " in base

    assert ", one a view  " in header and " └ row  view of (4096, 4096) " in view
    assert "base held only by" in drawn(b.sample(), 80)[1] and " ` row  view of (" in drawn(b.sample(), 80, ASCII)[2]


def test_views_are_told_from_what_they_are_views_of() -> None:
    b = Build()
    shared = b.storage(4096)
    b.add("x.t()", (32, 32), storage=shared, strides=(1, 32), flags=("view",))
    b.add("x", (32, 32), storage=shared)
    b.add("x[0]", (32,), storage=shared, flags=("view",))
    lines = drawn(b.sample(), 160)
    assert [line[22:50].strip() for line in lines[1:]] == [
        "x  base of 2 views",
        "└ x.t()  view of x",
        "└ x[0]  view of x",
    ]
    b.add("p", (32, 32), storage=shared)  # another tensor over the same memory: whose views they are is not certain
    assert not any("view of" in line or "base of" in line for line in drawn(b.sample(), 160)[1:])


def test_other_names_are_said_to_be_names() -> None:
    b = Build()
    b.add(["model.embed.weight", "model.head.weight"], (32, 32))
    b.add(["model.decoder.embeddings.word.weight", "a", "b"], (32, 16))
    first, second = drawn(b.sample(), 160)
    assert " model.embed.weight  = 1 more name " in first and " +2 names " in second


def test_a_group_says_that_its_storages_count_in_others_too() -> None:
    b = Build()
    shared = b.storage(4096)
    b.add("w", (32, 32), category="parameter", storage=shared)
    b.add("v", (32,), category="activation", storage=shared)
    b.add("x", (64,), category="input")
    rows = rows_of(b.sample())
    for _ in rows.change(View(group_by="category"), False):
        pass
    draw, layout = Lines(rows, UNICODE), lay_out(120)
    said = {rows.key_at(row): "".join(text for text, _ in draw.row(row, layout)) for row in rows.order}
    assert {key for key, line in said.items() if "some storages are in other groups too" in line} == {
        "parameter",
        "activation",
    }
    for _ in rows.change(View(group_by="category", filter=parse("category:parameter,input")), False):
        pass
    assert not any(rows.shares_storages(key) for key in rows.keys)


def saved_views(count: int) -> Sample:
    b = Build()
    weight = b.storage(4096)
    for _ in range(count):
        b.add("mat2 saved by AddmmBackward0", (32, 32), category="saved", storage=weight, strides=(1, 32))
    b.add("self saved by MmBackward0", (4, 32), category="saved", storage=weight)
    b.add("fc.weight", (32, 32), category="parameter", storage=weight)
    return b.sample()


def test_saved_views_that_read_the_same_are_one_line_behind_their_owner() -> None:
    lines = drawn(saved_views(69), 160)
    assert len(lines) == 4
    assert [line.split("(")[0].strip() for line in lines[1:]] == [
        "fc.weight",
        "69 x mat2 saved by AddmmBackward0",
        "self saved by MmBackward0",
    ]


def test_the_table_warns_of_what_the_finding_tells_and_of_nothing_else() -> None:
    b = Build()
    told = b.storage(64 << 20)
    b.add("view", (1024,), storage=told)
    b.add("mapped", (1,), storage=b.storage(64 << 20, "cpu", "file"))
    b.add("empty", (0,), storage=b.storage(64 << 20))
    sample = b.sample()
    accounts = Accounts(sample)
    (finding,) = find(sample, accounts)
    warned = [sid for sid in sample.storages if storage_warning(accounts.account(sid), Thresholds())]
    assert warned == list(finding.storages) == [told]


def test_the_same_in_ascii() -> None:
    b = Build()
    b.add("row", (4096,), device="cpu", storage=b.storage(64 << 20, "cpu"))
    assert drawn(b.sample(), 80, ASCII) == [
        " v  64.00 MiB #.... cpu  1 tensor  /!\\ kept by a view of 16.00 KiB",
        "                      row                 (4096,)          f32     16.00 KiB .",
    ]


def test_every_line_fits_and_the_columns_stand_under_their_titles() -> None:
    sample = training()
    for room in (80, 100, 120, 160, 240):
        rows = rows_of(sample)
        draw, layout = Lines(rows, UNICODE), lay_out(room)
        header = "".join(text for text, _ in draw.header(layout, rows.view))
        for row in rows.order:
            line = "".join(text for text, _ in draw.row(row, layout))
            assert width(line) <= room + 1
            if row >= 0:
                assert line[header.index("dtype") - 1] == " "
                assert line[header.index("shape")] == "("


def test_wide_terminals_show_every_column_and_narrow_ones_what_matters() -> None:
    assert lay_out(200).hidden == ()
    assert [column.key for column in lay_out(79).columns] == ["shape", "dtype", "bytes", "category"]
    assert [column.key for column in lay_out(80, pan=4).columns][:2] == ["distinct", "strides"]


def test_what_columns_do_not_fill_goes_to_the_name() -> None:
    b = Build()
    b.add("model.layers.0.attention.query.weight", (64, 64), device="cpu")
    needs = needs_of(b.sample().tensors.values(), UNICODE)
    wide, fitted = lay_out(160), lay_out(160, needs=needs)
    assert [each.key for each in fitted.columns] == [each.key for each in wide.columns]
    assert {each.key: each.width for each in fitted.columns}["grad_fn"] == len("grad_fn")
    assert fitted.name >= wide.name + 20
    taken = fitted.storage + fitted.name + sum(each.width + 1 for each in fitted.columns)
    assert taken == wide.storage + wide.name + sum(each.width + 1 for each in wide.columns)


def test_a_sorted_column_shows_its_arrow_however_narrow_it_is() -> None:
    rows = rows_of(training())
    for column in COLUMNS:
        view = replace(rows.view, sort_by=column.key)
        for room in (80, 120, 160, 240):
            layout = lay_out(room)
            header = "".join(text for text, _ in Lines(rows, UNICODE).header(layout, view))
            assert (column.title[:-1] in header and "▼" in header) == (column in (COLUMNS[0], *layout.columns))


def test_large_numbers_are_rounded_in_the_table_never_cut() -> None:
    b = Build()
    b.add("w", (4,), version=1_234_567, device="cuda:15", offset=51_511_296, storage=b.storage(1010 << 20))
    (_, line) = drawn(b.sample(), 200)
    assert " 1.2M " in line and " 51.5M " in line and " cuda:15 " in line and "…" not in line


def test_chosen_columns_stand_in_their_order_and_give_way_from_the_right() -> None:
    chosen = ("grad_fn", "version", "strides", "offset", "shape")
    assert [column.key for column in lay_out(200, chosen=chosen).columns] == list(chosen)
    assert [column.key for column in lay_out(78, chosen=chosen).columns] == ["grad_fn", "version", "strides"]
    assert [column.key for column in lay_out(78, 2, chosen).columns] == ["strides", "offset"]


def test_strings_of_the_target_cannot_act() -> None:
    text = "\n".join(drawn(hostile(), 160))
    assert "[bold red]x[/]" in text
    assert "logs['[cuda:0]']" in text
    assert not set(text) & {"\x1b", "\u202e", "\ud800", "\r"}
    assert len(text.split("\n")) == len(HOSTILE)
    assert "".join(drawn(hostile(), 160, ASCII)).isascii()


def test_a_bar_shows_what_is_used_at_all_and_the_least_gap() -> None:
    assert UNICODE.bar(1.0, 4) == ("━━━━", "")
    assert UNICODE.bar(0.0, 4) == ("", "┄┄┄┄")
    assert UNICODE.bar(0.001, 4) == ("╸", "┄┄┄")
    assert UNICODE.bar(0.999, 4) == ("━━━╸", "")
    assert ASCII.bar(0.5, 4) == ("##", "..")
    assert UNICODE.bar(None, 4) == ("", "    ")


def test_every_glyph_is_one_cell() -> None:
    for glyphs in (UNICODE, ASCII):
        single = [*glyphs.category.values(), glyphs.full, glyphs.empty, glyphs.opened, glyphs.closed, glyphs.new]
        assert all(width(glyph) == 1 for glyph in single)
        assert len(set(glyphs.category.values())) == len(glyphs.category)


def test_the_locale_decides_about_ascii() -> None:
    assert ascii_only({"LANG": "C"})
    assert not ascii_only({"LC_ALL": "en_US.UTF-8", "LANG": "C"})
    assert ascii_only({"LC_ALL": "POSIX", "LANG": "en_US.utf8"})
    assert not ascii_only({"LC_ALL": "", "LANG": "en_US.utf8"})
    assert not ascii_only({})


def test_the_strip_of_categories_fills_its_cells_and_leaves_none_out() -> None:
    parts = strip({"parameter": 1_000_000, "gradient": 10, "other": 10}, 12, UNICODE)
    assert "".join(text for text, _ in parts) == "●" * 10 + "◆" + "·"


def test_the_totals_give_way_from_the_right() -> None:
    totals = Totals(3, 2, 3 << 20, {"parameter": 2 << 20, "other": 1 << 20}, {"cpu": 1 << 20, "cuda:0": 2 << 20}, {})
    first, second = lines(totals, UNICODE, 80).plain.split("\n")
    assert first.startswith(" 3 tensors on 2 storages, 3.00 MiB  cuda:0 2.00 MiB  cpu 1.00 MiB")
    assert second.startswith(" ● parameter 2.00 MiB  · other 1.00 MiB")
    assert lines(Totals(1, 1, 5), UNICODE, 80).plain.startswith(" 1 tensor on 1 storage, 5 B")
    first, second = lines(totals, UNICODE, 64).plain.split("\n")
    assert "cpu" not in first and "… 1 more" in first and "more" not in second


def test_the_legend_is_in_the_order_of_the_strip_and_leaves_out_the_smallest() -> None:
    sizes = {"parameter": 2 << 20, "gradient": 1 << 10, "other": 5 << 20, "activation": 3 << 20}
    for room in (74, 80, 120, 160):
        second = lines(Totals(9, 9, 1 << 24, sizes, {}, {}), UNICODE, room).plain.split("\n")[1]
        told = [word for word in second.split() if word in sizes]
        assert told == [name for name in CATEGORIES if name in told] and width(second) <= room
        assert ("gradient" in told) == (room > 100) and {"parameter", "activation", "other"} <= set(told)
        assert ("… 1 more" in second) == ("gradient" not in told)


def test_output_is_shown_as_a_terminal_would_leave_it() -> None:
    assert plain_lines("\x1b[31mred\x1b[0m\n10%\r50%\r100%\nbell\x07\ncrlf\r", UNICODE) == [
        "red",
        "100%",
        "bell\\x07",
        "crlf",
    ]
    assert plain_lines("naïve", ASCII) == ["na\\xefve"]
