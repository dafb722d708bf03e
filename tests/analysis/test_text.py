"""Strings that are safe to show, sizes in words, groupings."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tensortui.analysis.grouping import KEYS, NO_HOLDER, holder_of
from tensortui.analysis.text import natural, pad, safe, shorten, truncate, width
from tensortui.analysis.units import format_age, format_bytes, format_many, format_number, format_share, parse_bytes

any_text = st.text(st.characters() | st.characters(categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Mn")), max_size=30)


@given(any_text)
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = safe(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in shown)
    assert not any(
        unicodedata.bidirectional(char) in ("RLE", "LRE", "RLO", "LRO", "RLI", "LRI", "FSI") for char in shown
    )
    shown.encode()
    assert safe(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\e[2J"),
        ("two\nlines\ttab", "two\\nlines\\ttab"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("\x9b31m", "\\x9b31m"),
        ("中文 [bold] naïve", "中文 [bold] naïve"),
    ],
)
def test_what_is_unsafe_is_written_out(text, shown):
    assert safe(text) == shown


@given(any_text.map(safe), st.integers(0, 20), st.sampled_from(("start", "end", "both")))
def test_truncating_keeps_to_the_cells(text, cells, keep):
    cut = truncate(text, cells, keep=keep)
    assert width(cut) <= cells
    if width(text) <= cells:
        assert cut == text
    assert width(pad(text, cells)) == cells


def test_truncating_keeps_what_is_asked_for():
    assert truncate("abcdefgh", 5) == "abcd…"
    assert truncate("abcdefgh", 5, keep="end") == "…efgh"
    assert truncate("abcdefghijkl", 10, keep="both") == "abc…ghijkl"
    assert truncate("中文中文", 5) == "中文…"
    assert pad("ab", 4, right=True) == "  ab"


def characters(*ranges):
    return [chr(code) for first, last in ranges for code in range(first, last + 1)]


# Letters, marks, symbols and pictures that were there long before any Python or terminal of today.
LATIN_TO_SYMBOLS, HANGUL_JAMO, CJK, PICTURES = (0x20, 0x2BFF), (0x1100, 0x11FF), (0x2E80, 0xA4CF), (0x1F300, 0x1F64F)
MORE = [(0xA960, 0xA97F), (0xAC00, 0xD7FF), (0xF900, 0xFFFD), (0x1D000, 0x1D37F), (0x20000, 0x200FF)]


@pytest.mark.parametrize("ranges", [[LATIN_TO_SYMBOLS, HANGUL_JAMO], [CJK], [PICTURES], MORE], ids=str)
def test_each_character_is_as_wide_as_the_screen_counts(ranges):
    shown = map(safe, characters(*ranges))
    assert [ascii(char) for char in shown if width(char) != cell_len(char)] == []


@given(st.text(st.characters(categories=("L", "M", "N", "P", "Cf")), max_size=20).map(safe))
def test_a_text_is_as_wide_as_its_characters_on_the_screen(text):
    assert width(text) == sum(map(width, text))
    assert cell_len(text) == sum(map(cell_len, text))  # nothing is left that joins others


def test_no_character_that_shows_nothing_or_is_for_private_use_is_left():
    categories = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    every = map(chr, range(sys.maxunicode + 1))
    assert [ascii(char) for char in every if unicodedata.category(char) in categories and safe(char) == char] == []


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (None, "n/a"), (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (16_384, "16.00 KiB"),
        (1_048_470, "1023.9 KiB"), (1_048_575, "1.00 MiB"), (103_022_592, "98.25 MiB"), (1 << 40, "1.00 TiB"),
        (-2048, "-2.00 KiB"), (1010 << 20, "1010.0 MiB"), (5 << 70, "5120.0 EiB"), (5 << 1300, "9.5e+373 EiB"),
    ],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_bytes_in_words(count, shown):
    assert format_bytes(count) == shown


@given(st.integers(0, 1 << 62))
def test_bytes_in_words_are_near_the_bytes_and_fit_their_column(count):
    assert len(format_bytes(count)) <= 10
    assert abs(parse_bytes(format_bytes(count)) - count) <= count * 0.005 + 1


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "n/a"), (0, "0"), (999_999, "999999"), (1_234_567, "1.2M"), (51_511_296, "51.5M"), (999_960_000, "1.0G")],
)
def test_a_number_that_does_not_fit_is_rounded_never_cut(number, shown):
    assert format_number(number, 6) == shown


@given(st.integers(0, 1 << 63) | st.integers(0, 2000).map(lambda bits: 1 << bits))
def test_every_number_fits(number):
    assert len(format_number(number, 6)) <= 6


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10MiB", 10 << 20), ("10mib", 10 << 20), ("1.5G", 3 << 29), ("2MB", 2_000_000), ("512", 512), ("512B", 512),
        (".5k", 512), ("", None), ("MiB", None), ("1 MiB", 1 << 20), ("10ib", None), ("1e3", None), ("-1", None),
        ("1.2.3", None), ("10MiBs", None), ("9" * 310, None), ("9" * 305 + "EiB", None), ("9" * 5000 + "k", None),
    ],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_bytes_from_words(text, count):
    assert parse_bytes(text) == count


def test_shares_and_ages_in_words():
    assert [format_share(share) for share in (None, 0, 0.00001, 0.0003, 0.003, 0.5, 1)] == [
        "n/a", "0 %", "<0.01 %", "0.03 %", "0.3 %", "50.0 %", "100 %",
    ]  # fmt: skip
    assert [format_age(seconds) for seconds in (-1, 0.44, 12, 200, 7201, 200_000)] == [
        "0.0 s", "0.4 s", "12 s", "3 min", "2 h", "2 d",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "holder"),
    [
        ("model.layers.3.attn.weight", "model.layers.3.attn"),
        ("model.weight.grad", "model"),
        ("exp_avg of model.emb.weight", "model.emb"),
        ("row @ step() train.py:42", "step() train.py"),
        ("rows[7] @ step() train.py:42 [loader]", "rows @ step() train.py [loader]"),
        ("model.0.weight.grad @ main() train.py:9", "model.0 @ main() train.py"),
        ("exp_avg of model.0.weight @ main() train.py:9", "model.0 @ main() train.py"),
        ("trainer.logs['val.logits'][3]", "trainer.logs['val.logits']"),
        ("trainer.logs['it\\'s.a']", "trainer.logs"),
        ("x", "x"),
        ("", ""),
    ],
)
def test_the_holder_of_a_name(name, holder):
    assert holder_of(name) == holder


def test_grouping_keys(build):
    tid = build.tensor(None, (3,), name="m.weight", category="parameter")
    tensor = build.tensors[tid]
    assert {name: key(tensor) for name, key in KEYS.items()} == {
        "category": "parameter",
        "holder": "m",
        "shape": "(3,) float32 cpu",
    }
    nothing = build.tensors[build.tensor(None, None, device=None, dtype=None)]
    assert KEYS["holder"](nothing) == NO_HOLDER
    assert KEYS["shape"](nothing) == "shape n/a"


@given(any_text)
def test_any_name_has_a_holder(name):
    assert isinstance(holder_of(name), str)


LAYERS = "model.layers.{}.self_attn.in_proj_weight"


@pytest.mark.parametrize("form", [LAYERS, "momentum_buffer of " + LAYERS, LAYERS + ".grad", "exp_avg of " + LAYERS])
@pytest.mark.parametrize("cells", [22, 28, 34])
def test_a_shortened_name_keeps_what_tells_it_from_its_siblings(form, cells):
    names = [form.format(layer) for layer in range(120)] + [form.replace("in_proj", "out_proj").format(3)]
    names += [form.replace("in_proj_weight", f"{word}.weight").format(3) for word in ("up", "down", "gate")]
    short = [shorten(name, cells) for name in names]
    assert len(set(short)) == len(names)
    assert all(width(name) <= cells for name in short)


MODELS = [
    [
        f"bert.encoder.layer.{layer}.{part}.{word}"
        for layer in (0, 11)
        for part in ("attention.self.query", "attention.self.key", "attention.output.dense", "intermediate.dense",
                     "output.dense", "attention.output.LayerNorm", "output.LayerNorm")
        for word in ("weight", "bias")
    ],
    [
        f"model.transformer.h.{layer}.{part}.weight"
        for layer in (0, 11)
        for part in ("ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    ],
    [f"resnet.layer{a}.{b}.{word}.weight" for a in (1, 4) for b in (0, 1) for word in ("conv1", "bn1", "downsample.0")],
    [f"trainer.model.{part}.projection.weight" for part in ("encoder", "decoder", "generator")],
]  # fmt: skip


@pytest.mark.parametrize("names", MODELS, ids=["bert", "gpt", "resnet", "parts"])
@pytest.mark.parametrize("cells", [22, 30])
def test_tensors_of_real_models_read_differently_however_short(names, cells):
    forms = ("{}", "{}.grad", "exp_avg of {}", "exp_avg_sq of {}", "momentum_buffer of {}")
    names = [form.format(name) for name in names for form in forms]
    assert len({shorten(name, cells) for name in names}) == len(names)


@pytest.mark.parametrize("cells", [20, 22, 24, 26, 28, 30, 36, 40, 50])
def test_locals_of_one_frame_read_differently_however_short(cells):
    """Their frame is the same: it gives way before what tells them apart does."""
    paths = [
        f"m.rnn.{part}_{of}_l{layer}{way}"
        for part in ("weight", "bias")
        for of in ("ih", "hh")
        for layer in (0, 1)
        for way in ("", "_reverse")
    ]
    forms = ("{}", "{}.grad", "exp_avg of {}", "exp_avg_sq of {}", "momentum_buffer of {}")
    names = [f"{form.format(path)} @ main() lstm.py:33" for path in paths for form in forms]
    assert len({shorten(name, cells) for name in names}) == len(names)


@pytest.mark.parametrize("cells", [20, 22, 26, 30])
def test_locals_of_one_name_in_several_frames_read_differently(cells):
    frames = ["encode() model.py:7", "decode() model.py:9"]
    frames += [f"work() loader.py:3 [worker-{number}]" for number in (1, 2, 12)]
    frames += ["forward() encoder.py:1", "forward() decoder.py:1"] if cells > 26 else []
    assert len({shorten(f"hidden @ {frame}", cells) for frame in frames}) == len(frames)


@pytest.mark.parametrize(
    ("name", "cells", "short"),
    [
        ("model.fc.weight", 20, "model.fc.weight"),
        ("model.encoder.fc.weight", 20, "…encoder.fc.weight"),
        ("model.layers.3.self_attn.in_proj_weight", 36, "…layers.3.self_attn.in_proj_weight"),
        ("bert.encoder.layer.11.attention.output.dense.weight", 26, "…11.atte.outp.dense.weight"),
        ("bert.encoder.layer.11.attention.output.dense.weight.grad", 20, "…11.a.o.dense.w.g"),
        ("trainer.model.decoder.projection.weight", 29, "…model.deco.projection.weight"),
        ("momentum_buffer of model.layers.3.self_attn.in_proj_weight", 40, "mome…ffer of …3.self_attn.in_proj_weight"),
        ("exp_avg_sq of model.layers.3.self_attn.in_proj_weight", 28, "ex…sq of …3.s.in_proj_weight"),
        ("exp_avg_sq of resnet.layer4.1.conv2.weight", 20, "…sq of …l4.1.c…v2.w…"),
        ("trainer.logs['val2.loss'][31]", 20, "…logs['val2.los…[31]"),
        ("row @ step() some/folder/train.py:47", 24, "row @ step() train.py:47"),
        ("row @ step() some/folder/train.py:47", 22, "row @ step() train.py"),
        ("row @ step() some/folder/train.py:47", 18, "row @ step()"),
        ("row @ work() train.py:47 [loader]", 18, "row @ [loader]"),
        ("row @ work() train.py:47 [worker-12]", 12, "row @…er-12]"),
        ("a_variable_with_a_long_name @ f() a.py:1", 20, "a_va_wi_a_lo_na"),
        ("momentum_buffer of m.rnn.weight_ih_l0 @ main() lstm.py:33", 40, "momentum_buffer of m.rnn.weight_ih_l0 @…"),
        ("momentum_buffer of m.rnn.weight_ih_l0 @ main() lstm.py:33", 24, "mo…er of …r.we_ih_l0 @…"),
        ("exp_avg of model.layers.11.mlp.down.weight", 22, "ex…vg of …11.m.down.w…"),
        ("mat2 saved by AddmmBackward0", 20, "mat2 saved by Addmm…"),
        ("x" * 50, 10, "xxx…xxxxxx"),
    ],
)
def test_a_name_gives_way_from_its_root(name, cells, short):
    assert shorten(name, cells) == short


@given(any_text, st.integers(1, 40))
def test_a_shortened_name_never_takes_more_cells(name, cells):
    assert width(shorten(safe(name), cells)) <= cells


def test_one_is_not_many():
    assert [format_many(count, "node") for count in (0, 1, 2, 9214)] == ["0 nodes", "1 node", "2 nodes", "9,214 nodes"]


def test_numbers_sort_as_numbers():
    assert sorted(["a[10]", "A[9]", "a[9].b10", "a[9].b9"], key=natural) == ["A[9]", "a[9].b9", "a[9].b10", "a[10]"]
