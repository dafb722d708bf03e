"""Random strided tensors: wild ones, as only as_strided makes them, and those that everyday operations leave."""

import itertools

import torch
from hypothesis import strategies as st

from tensortui.model import strided


@st.composite
def strided_tensors(draw, max_dims=5, max_size=6, max_stride=40):
    """Shape, strides and offset of a tensor that as_strided makes, in all the wild ways it can."""
    dims = draw(st.integers(0, max_dims))
    shape = draw(st.lists(st.integers(0, max_size), min_size=dims, max_size=dims))
    strides = draw(st.lists(st.integers(0, max_stride), min_size=dims, max_size=dims))
    return tuple(shape), tuple(strides), draw(st.integers(0, 7))


@st.composite
def everyday_tensors(draw):
    """A dense tensor after a few of the operations that programs use."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    tensor = torch.zeros(shape)
    for _ in range(draw(st.integers(0, 3))):
        dim = draw(st.integers(0, tensor.dim() - 1))
        match draw(st.sampled_from(("permute", "slice", "expand", "unfold", "channels_last", "select"))):
            case "permute":
                tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
            case "slice":
                step = draw(st.integers(1, 3))
                tensor = tensor[(slice(None),) * dim + (slice(draw(st.integers(0, 1)), None, step),)]
            case "expand":
                tensor = tensor.unsqueeze(dim).expand(*tensor.shape[:dim], 3, *tensor.shape[dim:])
            case "unfold" if tensor.shape[dim] >= 2:
                tensor = tensor.unfold(dim, 2, 1)
            case "channels_last" if tensor.dim() in (4, 5):
                form = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
                tensor = tensor.contiguous(memory_format=form)
            case "select" if tensor.dim() > 1 and tensor.shape[dim]:
                tensor = tensor.select(dim, tensor.shape[dim] - 1)
    return tensor


def addresses(shape, strides, offset=0):
    """Every element address, by walking all the indices."""
    return {
        offset + sum(i * stride for i, stride in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    }


def as_strided(shape, strides, offset, dtype=torch.uint8):
    length = offset + strided.extent(shape, strides)
    return torch.zeros(length, dtype=dtype).as_strided(shape, strides, offset)


def any_tensors(**bounds):
    """Both kinds."""
    return st.one_of(everyday_tensors(), strided_tensors(**bounds).map(lambda layout: as_strided(*layout)))
