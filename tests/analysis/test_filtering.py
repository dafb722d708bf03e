"""The filter language."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensortui.analysis.filtering import DTYPES, FIELDS, FilterError, parse
from tensortui.model import Process, Sample, Storage, Tensor

MIB = 1 << 20


def tensor(tid, **more):
    fields = {
        "storage": 1, "names": (), "type": "Tensor", "shape": (2, 3), "strides": (3, 1), "offset": 0,
        "dtype": "float32", "device": "cpu", "layout": "strided", "bytes": 24, "distinct_bytes": 24,
        "contiguous": True, "memory_format": "contiguous", "flags": (), "requires_grad": False, "is_leaf": True,
        "version": 0, "grad_fn": None, "category": "other", "python": True,
    }  # fmt: skip
    return Tensor(tid, **{**fields, **more})


SAMPLE = Sample(
    1,
    0.0,
    Process(1),
    storages={1: Storage(1, "cpu", 0, 64 * MIB, "memory"), 2: Storage(2, "cuda:0", 0, 20 * MIB, "shared")},
    tensors={
        one.id: one
        for one in (
            tensor(1, names=("model.attn.weight",), category="parameter", requires_grad=True, version=3),
            tensor(2, names=("Attn out",), device="cuda:0", dtype="bfloat16", bytes=20 * MIB, storage=2),
            tensor(3, device="cuda:1", dtype="float8_e4m3fn", category="saved", python=False, storage=None),
            tensor(4, names=("x",), shape=(4, 8, 3), is_leaf=False, grad_fn="AddBackward0", flags=("view",)),
            tensor(5, names=("odd",), shape=None, strides=None, bytes=None, dtype=None, device=None, version=None),
        )
    },
)

CASES = [
    ("", {1, 2, 3, 4, 5}),
    ("attn", {1, 2}),
    ('"attn out"', {2}),
    ("name:x", {4}),
    ("name:none", {3}),
    ("name~ATTN", {1, 2}),
    ("device:cuda", {2, 3}),
    ("device:cuda:1", {3}),
    ("device:cpu,cuda:1", {1, 3, 4}),
    ("device:cud", set()),
    ("device~cud", {2, 3}),
    ("device:none", {5}),
    ("dtype:bf16", {2}),
    ("dtype:torch.bfloat16", {2}),
    ("dtype:f8,bf16", {2, 3}),
    ("-dtype:f32", {2, 3, 5}),
    (">10MiB", {2}),
    (">=20MiB", {2}),
    ("> 10 MiB", {2}),
    ("bytes >= 20 mib attn", {2}),
    ("-> 10 MiB", {1, 3, 4, 5}),
    ("<1KiB", {1, 3, 4}),
    ("=24", {1, 3, 4}),
    ("->10MiB", {1, 3, 4, 5}),
    ("bytes:none", {5}),
    ("category:saved,parameter", {1, 3}),
    ("shape:(2,3)", {1, 2, 3}),
    ("shape:2x*", {1, 2, 3}),
    ("shape:(4,...)", {4}),
    ("shape:(*, *, 3)", {4}),
    ("shape:()", set()),
    ("strides:(3,1)", {1, 2, 3, 4}),
    ("ndim:3", {4}),
    ("numel>6", {4}),
    ("version>0", {1}),
    ("storage_bytes>32MiB", {1, 4, 5}),
    ("storage:none", {3}),
    ("backing:shared", {2}),
    ("is:view", {4}),
    ("is:leaf,view", {1, 2, 3, 4, 5}),
    ("-is:leaf", {4}),
    ("is:cpp-only", {3}),
    ("leaf:no", {4}),
    ("requires_grad:yes", {1}),
    ("grad_fn~add", {4}),
    ("grad_fn:none", {1, 2, 3, 5}),
    ("device:cuda dtype:bf16 >10MiB name~attn -category:saved", {2}),
]


@pytest.mark.parametrize(("text", "ids"), CASES, ids=[text or "nothing" for text, _ in CASES])
def test_filter_selects(text, ids):
    found = parse(text)
    assert found.select(SAMPLE) == sorted(ids)
    assert {tid for tid, one in SAMPLE.tensors.items() if found.matches(one, SAMPLE.storages)} == ids


ERRORS = [
    ("devise:cuda", "did you mean device?"),
    ("zzz:1", "fields are"),
    ("device>3", "text"),
    ("version~3", "number"),
    ("version:x", "not a whole number"),
    (">10Mib/s", "not a size"),
    ("category:paramter", "did you mean parameter?"),
    ("is:vieww", "did you mean view?"),
    ("shape:(2,a)", "not a size"),
    ("leaf:maybe", "yes or no"),
    ("dtype:", "value is missing"),
    (":cuda", "field is missing"),
]


@pytest.mark.parametrize(("text", "hint"), ERRORS, ids=[text for text, _ in ERRORS])
def test_a_mistake_is_told_in_one_line_with_a_hint(text, hint):
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert hint in caught.value.cause
    assert text in caught.value.cause
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", [">{}", "version>{}", "id:{}", "shape:({})", "strides:(2,{},*)", "storage_bytes={}GiB"]
)
@pytest.mark.parametrize("digits", [310, 5000])
def test_a_number_without_end_is_a_short_error(text, digits):
    with pytest.raises(FilterError, match="is not a") as caught:
        parse(text.format("9" * digits))
    assert len(caught.value.cause) < 200


def test_selection_keeps_the_order_it_is_given():
    assert parse("attn").select(SAMPLE, [5, 2, 99, 1]) == [2, 1]


LONG = st.sampled_from((19, 20, 21, 310, 5000)).flatmap(
    lambda size: st.sampled_from("0179").map(lambda one: one * size)
)
terms = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(("", "-")),
    st.sampled_from(("", *FIELDS)),
    st.sampled_from((":", "~", ">", ">=", "<", "<=", "=")),
    st.text(max_size=6)
    | st.builds("{}{}{}".format, st.sampled_from(("", "(", "(*,")), LONG, st.sampled_from(("", ")", "EiB", "k", ".5")))
    | st.sampled_from(("(2,3)", "10MiB", "none", "yes", "cuda", "view", *DTYPES)),
)


@settings(max_examples=500)
@given(st.lists(terms | st.text(max_size=8), max_size=4).map(" ".join))
def test_any_text_is_a_filter_or_a_clear_error(text):
    try:
        found = parse(text)
    except FilterError as error:
        assert error.cause.strip()
        return
    chosen = found.select(SAMPLE)
    assert set(chosen) <= set(SAMPLE.tensors)
    assert chosen == [tid for tid, one in SAMPLE.tensors.items() if found.matches(one, SAMPLE.storages)]


@given(terms.filter(lambda term: term[0] != "-" and not any(char.isspace() or char in '"(' for char in term)))
def test_a_minus_selects_the_others(term):
    try:
        chosen = parse(term).select(SAMPLE)
    except FilterError:
        return
    assert sorted(chosen + parse("-" + term).select(SAMPLE)) == list(SAMPLE.tensors)
