"""The tensors that a graph describes, from what a peer says of them, whatever it says."""

from hypothesis import given
from hypothesis import strategies as st

from tensortui.sources.held import Held
from tensortui.sources.messages import GraphParts


def entry(number=7, address=4096, **more):
    fields = {"shape": [2, 3], "strides": [3, 1], "offset": 6, "dtype": "float32", "device": "cpu", "layout": "strided",
              "flags": 1, "address": address, "bytes": 96, **more}  # fmt: skip
    return [number, *fields.values()]


def test_a_tensor_and_its_storage():
    held = Held()
    held.add([entry(), entry(8, shape=[], strides=[], offset=0), entry(9, 8192), entry(10, None)])
    tensor = held.tensors[7]
    assert (tensor.shape, tensor.strides, tensor.offset, tensor.dtype, tensor.bytes) == (
        (2, 3),
        (3, 1),
        6,
        "float32",
        24,
    )
    assert (tensor.flags, tensor.names, tensor.python, tensor.category) == (("view",), (), False, "saved")
    assert [held.tensors[number].storage for number in (7, 8, 9, 10)] == [-1, -1, -2, None]
    assert [(one.id, one.address, one.bytes) for one in held.storages.values()] == [(-1, 4096, 96), (-2, 8192, 96)]


def test_it_comes_with_the_nodes():
    parts = GraphParts()
    parts.add({"roots": [1], "nodes": [[1, "ExpBackward0", [], None, [], {"held": [entry(), "junk", [3]]}]]})
    graph = parts.graph()
    assert list(graph.tensors) == [7]
    assert list(graph.storages) == [-1]


def test_a_shape_or_an_id_that_cannot_be_is_left_out():
    held = Held()
    held.add([entry(-7), entry(8, shape=[2**62] * 20, strides=[0] * 20)])
    assert {number: tensor.shape for number, tensor in held.tensors.items()} == {8: None}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=12),
    max_leaves=40,
)


@given(ANYTHING, st.lists(ANYTHING, min_size=10, max_size=10))
def test_what_is_not_as_it_should_be_is_left_out(value, fields):
    held = Held()
    held.add(value)
    held.add([fields])
    for number, tensor in held.tensors.items():
        assert tensor.id == number and isinstance(number, int)
        assert tensor.storage is None or tensor.storage in held.storages
