"""What an operation costs, against PyTorch doing it: the same strides, the same storage or not, the same refusals."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from places import place_of
from strided_tensors import any_tensors, as_strided, strided_tensors

from tensortui.analysis.layout import COPY, IMPOSSIBLE, SAME, VIEW, LayoutError, Place, absent_devices, cost
from tensortui.model import Process, strided

DTYPES = ("uint8", "int16", "bfloat16", "float32", "complex64", "float64")
ODD = ("int1", "int4", "uint4", "uint7", "bits8", "bits4x2", "bits16", "float4_e2m1fn_x2", "float8_e5m2", "uint16")
FORMATS = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")


@st.composite
def factors(draw, number):
    """Sizes whose product is a number, some of them 1, perhaps one written as -1, and now and then a wrong one."""
    sizes = []
    while number > 1 and draw(st.booleans()) | (len(sizes) < 2):
        part = draw(st.sampled_from([part for part in range(1, min(number, 200) + 1) if number % part == 0]))
        sizes.append(part)
        number //= part
    sizes.append(number)
    sizes = draw(st.permutations(sizes))
    match draw(st.integers(0, 9)):
        case 0 | 1 | 2:
            sizes[draw(st.integers(0, len(sizes) - 1))] = -1
        case 3:
            sizes[draw(st.integers(0, len(sizes) - 1))] = draw(st.integers(-2, 4))
        case 4:
            sizes = []
    return sizes


@st.composite
def merged(draw, shape):
    """The shape with neighbours joined and sizes of 1 strewn in."""
    sizes = []
    for size in shape:
        if sizes and draw(st.booleans()):
            sizes[-1] *= size
        else:
            sizes.append(size)
        if draw(st.integers(0, 5)) == 0:
            sizes.append(1)
    return sizes


@st.composite
def operations(draw, tensor, dtypes=DTYPES):
    """An operation on the tensor, as it is written; most make sense for it."""
    dims = tensor.dim()
    dim = st.integers(-dims - 1, dims)
    name = draw(
        st.sampled_from(
            [
                "view",
                "reshape",
                "view_dtype",
                "flatten",
                "unflatten",
                "permute",
                "transpose",
                "t",
                "T",
                "mT",
                "movedim",
                "squeeze",
                "unsqueeze",
                "expand",
                "contiguous",
                "clone",
                "to_dtype",
                "to_device",
                "to_format",
                "ravel",
                "select",
                "narrow",
            ]
        )
    )
    match name:
        case "view" | "reshape":
            sizes = draw(st.one_of(factors(tensor.numel()), merged(tuple(tensor.shape))))
            return f"{name}({sizes})"
        case "view_dtype":
            return f"view(torch.{draw(st.sampled_from(dtypes))})"
        case "flatten":
            return f"flatten({draw(dim)}, {draw(dim)})"
        case "unflatten":
            at = draw(dim)
            size = tensor.shape[at] if dims and -dims <= at < dims else 4
            return f"unflatten({at}, {tuple(draw(factors(size)))})"
        case "permute":
            wrong = draw(st.integers(0, 5)) == 0
            order = draw(st.lists(dim, max_size=5) if wrong else st.permutations(range(dims)))
            return f"permute({[at - dims if draw(st.booleans()) else at for at in order]})"
        case "transpose":
            return f"transpose({draw(dim)}, {draw(dim)})"
        case "movedim":
            count = draw(st.integers(1, 2))
            several = st.lists(dim, min_size=count, max_size=count, unique=True).map(tuple)
            return f"movedim({draw(several)}, {draw(several)})"
        case "squeeze":
            return draw(st.sampled_from(("squeeze()", f"squeeze({draw(dim)})", f"squeeze(({draw(dim)}, {draw(dim)}))")))
        case "select":
            return f"select({draw(dim)}, {draw(st.integers(-5, 5))})"
        case "narrow":
            return f"narrow({draw(dim)}, {draw(st.integers(-5, 5))}, {draw(st.integers(-1, 5))})"
        case "unsqueeze":
            return f"unsqueeze({draw(st.integers(-dims - 2, dims + 1))})"
        case "expand":
            own = [draw(st.sampled_from((size, -1, size if size != 1 else 3))) for size in tensor.shape]
            return f"expand({draw(st.lists(st.integers(-1, 4), max_size=2)) + own})"
        case "to_dtype":
            return f"to(torch.{draw(st.sampled_from(dtypes))}, copy={draw(st.booleans())})"
        case "to_device":
            return f"to('{draw(st.sampled_from(('cpu', 'meta')))}', copy={draw(st.booleans())})"
        case "to_format":
            return f"to(torch.float32, memory_format=torch.{draw(st.sampled_from(FORMATS))})"
        case "contiguous" | "clone":
            return f"{name}(memory_format=torch.{draw(st.sampled_from(FORMATS))})"
        case "T" | "mT":
            return name
    return f"{name}()"


def check(tensor, text):
    (step,) = cost(place_of(tensor), text)
    outcome = step.outcome
    try:
        made = eval(f"tensor.{text}", {"tensor": tensor, "torch": torch})
    except (RuntimeError, IndexError, TypeError) as error:
        assert outcome.what == IMPOSSIBLE, f"{text}: torch says {error}"
        assert outcome.why and outcome.result is None
        return
    if any(size < 0 for size in made.shape):  # zeros(()).expand(0, -1) is let through, and makes a shape with -1
        assert outcome.what == IMPOSSIBLE
        return
    assert outcome.what != IMPOSSIBLE, f"{text}: torch does it, {outcome.why}"
    result = place_of(made)
    assert (result.shape, result.strides, result.dtype, result.device) == (
        outcome.result.shape,
        outcome.result.strides,
        outcome.result.dtype,
        outcome.result.device,
    ), text
    shares = made.untyped_storage()._cdata == tensor.untyped_storage()._cdata
    itself, size = made is tensor, 0 if shares or made.is_meta else made.numel() * made.element_size()
    assert shares == (outcome.what != COPY), text
    assert itself == (outcome.what == SAME), text
    assert result.offset == outcome.result.offset
    assert outcome.written == size


@settings(max_examples=2000, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_operations_do_what_torch_does(data):
    tensor = data.draw(any_tensors(max_dims=4, max_size=4, max_stride=12), label="tensor")
    dtype = data.draw(st.sampled_from(DTYPES))
    if tensor.dtype != torch.float32:
        size = tensor.untyped_storage().nbytes()
        wide = torch.zeros(size, dtype=getattr(torch, dtype))
        tensor = wide.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    check(tensor, data.draw(operations(tensor), label="operation"))


@settings(max_examples=300, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_conjugated_or_negated_when_read_are_no_exception(data):
    place = data.draw(strided_tensors(max_dims=4, max_size=4, max_stride=12), label="place")
    tensor = as_strided(*place, torch.complex64)
    tensor = data.draw(st.sampled_from((torch.conj, torch._neg_view, lambda t: torch._neg_view(t.conj()))))(tensor)
    check(tensor, data.draw(operations(tensor), label="operation"))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "text",
    [
        "view(-1)",
        "t().view(-1)",
        "reshape(2, 6)",
        "t().reshape(-1)",
        "t().contiguous()",
        "t().clone()",
        "t().to('cpu', copy=True)",
        "expand(2, -1, -1)",
        "view(torch.int8)",
        "view(torch.float32)",
        "to(torch.float32)",
    ],
)
def test_quantised_tensors_lie_like_others(text):
    tensor = torch.quantize_per_tensor(torch.zeros(3, 4), 1.0, 0, torch.qint8)
    if text.startswith("t()."):
        tensor, text = tensor.t(), text.removeprefix("t().")
    check(tensor, text)


def with_dtype(tensor, dtype):
    """The same shape and strides in another dtype, of which no number is made."""
    dtype = getattr(torch, dtype)
    size = (tensor.storage_offset() + strided.extent(tensor.shape, tensor.stride())) * dtype.itemsize
    whole = torch.zeros(size, dtype=torch.uint8).view(dtype)
    return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_dtypes_that_torch_neither_copies_nor_converts_are_refused_where_it_raises(data):
    made = data.draw(any_tensors(max_dims=4, max_size=4, max_stride=12), label="tensor")
    tensor = with_dtype(made, data.draw(st.sampled_from(ODD + DTYPES), label="dtype"))
    check(tensor, data.draw(operations(tensor, ODD + DTYPES), label="operation"))


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_meta_tensor_has_nothing_to_copy(data):
    made = data.draw(any_tensors(max_dims=4, max_size=4, max_stride=12), label="tensor")
    tensor = torch.empty_strided(made.shape, made.stride(), dtype=torch.float32, device="meta")
    text = data.draw(st.one_of(operations(tensor), st.sampled_from(("cpu()", "to('cpu', torch.int8)"))), label="text")
    check(tensor, text)


@settings(max_examples=1000, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_torch_would_read_beyond_the_end_of_a_storage_is_never_told_as_a_copy(data):
    made = data.draw(any_tensors(max_dims=4, max_size=4, max_stride=12), label="tensor")
    tensor, whole = with_dtype(made, "float32"), with_dtype(made, "float32")
    text = data.draw(operations(tensor), label="operation")
    size = tensor.untyped_storage().nbytes()
    tensor.untyped_storage().resize_(data.draw(st.one_of(st.just(0), st.integers(0, size)), label="room"))
    (step,) = cost(place_of(whole), text)
    needed = (made.storage_offset() + strided.extent(made.shape, made.stride())) * 4 if made.numel() else 0
    copies = step.outcome.what == COPY and step.outcome.result.device != "meta"
    if copies and needed > tensor.untyped_storage().nbytes():
        (short,) = cost(place_of(tensor), text)  # torch is not asked: it reads what is not there
        assert short.outcome.what == IMPOSSIBLE and "can crash" in short.outcome.why
        return
    try:
        check(tensor, text)
    except AssertionError as error:
        raise AssertionError(str(error)) from None  # without the tensor, which would be read to be shown


@pytest.mark.parametrize("text", ["clone()", "to(torch.float64)", "ravel()", "contiguous()"])
def test_copying_what_has_no_storage_ends_the_process(text):
    program = f"""if True:
        import torch
        tensor = torch.ones(300, 800)[:, ::2]
        tensor.untyped_storage().resize_(0)
        tensor.{text}
    """
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=120)
    assert done.returncode < 0


def test_what_is_refused_says_why():
    four = Place((2, 4), (4, 1), dtype="int4")
    freed = Place((100,), (1,), room=0)
    meta = Place((3, 4), (4, 1), device="meta")
    said = [
        (four, "clone()", "PyTorch copies no int4: view(uint8) can be copied"),
        (four, "to(bfloat16)", "PyTorch converts nothing to or from int4"),
        (Place((4,), (1,)), "to(uint4)", "PyTorch converts nothing to or from uint4"),
        (freed, "clone()", "the storage has 0 B, 400 B are needed: a copy would read beyond it, and can crash"),
        (freed, "unsqueeze(0)", "the storage has 0 B, 400 B are needed: PyTorch makes no such view of it"),
        (meta, "to(cuda)", "a meta tensor has no data to copy: to_empty() of a module makes memory for it"),
        (Place((4,), (1,), dtype="qint8"), "to(meta)", "meta has no quantised tensors"),
    ]
    for place, text, why in said:
        outcome = cost(place, text)[-1].outcome
        assert (outcome.what, outcome.why) == (IMPOSSIBLE, why), text
    assert cost(freed, "view(-1).detach().contiguous()")[-1].outcome.what == SAME
    assert cost(meta, "to(bfloat16)")[0].outcome.why == cost(meta, "clone()")[0].outcome.why == ""
    assert cost(freed, "to(meta).clone()")[-1].outcome.link == "nothing: meta has no bytes"


def test_a_gpu_copies_memory_that_lies_alike_of_whatever_dtype():
    there = Place((2, 4), (4, 1), dtype="int4", device="cuda:0")
    assert cost(there, "clone()")[0].outcome.what == COPY
    assert cost(there, "cpu()")[0].outcome.what == COPY
    assert cost(there, "t().contiguous()")[1].outcome.what == IMPOSSIBLE
    assert cost(there, "half()")[0].outcome.what == IMPOSSIBLE


@pytest.mark.parametrize(
    ("torch_version", "cuda", "absent"),
    [
        ("2.13.0+cpu", None, {"cuda", "mps", "xpu"}),
        ("2.13.0", None, {"cuda"}),
        ("2.13.0+cu130", "13.0", set()),
        ("2.13.0", "13.0", set()),
        ("2.13.0+rocm6.4", None, set()),
        (None, None, set()),
    ],
)
def test_a_device_that_torch_is_built_without_is_refused(torch_version, cuda, absent):
    found = absent_devices(Process(1, torch=torch_version, cuda=cuda))
    assert found == absent
    outcome = cost(Place((4,), (1,)), "to(cuda:1)", found)[0].outcome
    assert outcome.what == (IMPOSSIBLE if absent else COPY)
    assert ("built without cuda" in outcome.why) == bool(absent)
    assert cost(Place((4,), (1,)), "cpu().half()", found)[1].outcome.what == COPY


XT = Place((32, 64), (1, 32))


@pytest.mark.parametrize(
    ("place", "text", "what", "read", "written", "why"),
    [
        (XT, "contiguous()", COPY, 8192, 8192, ""),
        (XT, "t().contiguous()", SAME, 0, 0, "it is that already"),
        (
            XT,
            "view(-1)",
            IMPOSSIBLE,
            0,
            0,
            "dims 0, 1 cannot merge into 2048: stride 1, not 64*32",
        ),
        (XT, "to(cuda:0)", COPY, 8192, 8192, ""),
        (XT, "to('cuda', torch.bfloat16)", COPY, 8192, 4096, "becomes bfloat16 on cpu first, then goes over"),
        (XT, "half()", COPY, 8192, 4096, ""),
        (Place((8, 4096), (0, 1)), "contiguous()", COPY, 16384, 131072, ""),
        (Place((1 << 20, 1 << 20), (1, 1 << 20)), "contiguous()", COPY, 1 << 42, 1 << 42, ""),
        (Place((4, 6), (6, 1)), "view(4, 5)", IMPOSSIBLE, 0, 0, "[4, 5] has 20 elements, the tensor has 24"),
        (Place((4, 6), (6, 1)), "x.y[2].view(2*3, -1)", VIEW, 0, 0, ""),
        (
            Place((4,), (1,), device="cuda:1"),
            "cuda()",
            SAME,
            0,
            0,
            "it is that already if cuda:1 is the current device",
        ),
        (Place((4,), (1,), device="cuda:1"), "to(cuda:0)", COPY, 16, 16, ""),
        (Place((2, 2), (2, 1), dtype="complex64", lazy=("conj",)), "view(float32)", IMPOSSIBLE, 0, 0, None),
        (Place((4,), (1,), dtype="quint8"), "to(float32)", IMPOSSIBLE, 0, 0, None),
    ],
)
def test_what_the_last_step_comes_to(place, text, what, read, written, why):
    outcome = cost(place, text)[-1].outcome
    assert (outcome.what, outcome.read, outcome.written) == (what, read, written)
    assert outcome.why == why if why is not None else outcome.why


def test_steps_follow_one_another_and_end_with_what_is_impossible():
    steps = cost(Place((2, 3, 4), (12, 4, 1)), "x.permute(0, 2, 1).view(2, 12).t().clone()")
    assert [(step.text, step.outcome.what) for step in steps] == [
        ("permute(0, 2, 1)", VIEW),
        ("view(2, 12)", IMPOSSIBLE),
    ]


def test_going_over_says_what_it_goes_over():
    assert cost(XT, "to(cuda:0)")[0].outcome.link == "PCIe"
    assert cost(XT, "half()")[0].outcome.link == ""
    on_gpu = Place((2,), (1,), device="cuda:1")
    assert cost(on_gpu, "to(device='cuda:0')")[0].outcome.link == "the link from cuda:1 to cuda:0"
    assert cost(on_gpu, "cpu()")[0].outcome.link == "PCIe"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "view",
        "view('a'",
        "sum()",
        "__import__('os').system('true')",
        "view(1.5)",
        "view(x for x in y)",
        "reshape(2, 'a')",
        "to(float33)",
        "clone(memory_format=sparse)",
        "flatten(0, 1, 2)",
        "permute(dims=3)",
        "view(" * 60 + ")" * 60,
        "view(9" + "9" * 400 + ")",
        "view(2**9)",
        "view(1 // 0)",
        "unsqueeze(True)",
        "view(\ud800)",
        "view(\0)",
    ],
)
def test_what_is_not_understood_is_said(text):
    with pytest.raises(LayoutError) as caught:
        cost(XT, text)
    assert str(caught.value)


def test_packed_dtypes_and_sizes_beyond_all_bounds_are_refused():
    with pytest.raises(LayoutError, match="share bytes"):
        cost(Place((4,), (1,), dtype="quint4x2"), "view(2, 2)")
    huge = cost(Place((1,), (1,)), f"expand({1 << 40}, {1 << 40})")[-1].outcome
    assert huge.what == IMPOSSIBLE and "63 bits" in huge.why


@pytest.mark.parametrize(
    ("shape", "strides", "text"),
    [
        ((2, 1, 3), (3, 99, 1), "view(6)"),  # the stride of a size of 1 does not stand in the way
        ((1, 2, 3), (99, 3, 1), "view(2, 1, 3)"),
        ((2, 3, 1), (3, 1, 99), "view(6)"),
        ((2, 1, 3, 4), (12, 0, 4, 1), "to(torch.float32, memory_format=torch.channels_last)"),
        ((4, 2, 1, 1), (2, 1, 1, 1), "to(torch.float32, memory_format=torch.contiguous_format)"),
        ((4, 1, 1, 1), (1, 1, 1, 1), "to(torch.float32, memory_format=torch.channels_last)"),
        ((2, 3, 4, 5), (120, 1, 30, 6), "to(torch.float32, memory_format=torch.channels_last)"),  # gaps and all
    ],
)
def test_corners_are_what_torch_makes_of_them(shape, strides, text):
    check(as_strided(shape, strides, 0, torch.float32), text)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("text", ["view(torch.float32)", "view(torch.complex64)"])
def test_bytes_of_lazy_tensors_are_viewed_as_torch_does(text):
    check(torch.zeros(4, dtype=torch.complex64).conj(), text)
