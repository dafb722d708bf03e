import pytest

from tensortui.analysis.graph import words
from tensortui.model import Coverage, Graph, GraphNode


def test_why_a_graph_is_not_whole(graphs):
    coverage = Coverage(False, ("gc.freeze() hides 120 objects", "the graph is not read: reasons of torch"))
    assert words.incomplete(Graph(), coverage) == []
    assert words.incomplete(Graph(cut=True, reasons=("it is larger",)), coverage) == ["it is larger"]
    assert words.incomplete(Graph(cut=True), coverage) == ["the graph is not read: reasons of torch"]
    (said,) = words.incomplete(Graph(cut=True), Coverage())
    assert said.startswith("the graph was not read to its end")
    nodes = tuple(GraphNode(number, "N") for number in range(10_000))
    assert words.incomplete(Graph((), nodes, True), coverage) == ["the graph is read up to 10,000 nodes: it is larger"]


def test_a_torch_that_does_not_tell_what_was_saved(graphs):
    coverage = Coverage(False, ("the graph is not read: this torch does not tell what it saved without side effects",))
    graphs.node(1)
    assert words.blind(graphs.graph(), coverage) is True
    (said,) = words.incomplete(graphs.graph(), coverage)
    assert said.startswith("what the nodes saved is not read")
    assert words.incomplete(graphs.graph(), Coverage()) == []
    graphs.node(1, saved=[4711])
    assert words.blind(graphs.graph(), coverage) is False
    assert words.incomplete(graphs.graph(), coverage) == []


def test_what_a_backward_released_is_said(graphs):
    kept = graphs.build.tensor(graphs.build.storage(16))
    graphs.node(1, 2)
    graphs.node(2, 3, saved=[kept])
    graphs.node(3)
    assert words.freed(graphs.reach()) == ""
    graphs.change(3, freed=True)
    assert words.freed(graphs.reach()).startswith("partly freed: a backward has released what 1 node saved")
    graphs.change(2, freed=True, saved=())
    assert words.freed(graphs.reach()).startswith("freed: a backward has released what these nodes saved")


def test_who_packs_and_which_function_it_is():
    assert words.packed("torch.utils.checkpoint._checkpoint_hook.__init__.<locals>.unpack_hook").startswith(
        "checkpoint"
    )
    assert words.packed("torch.autograd.graph.save_on_cpu.__init__.<locals>.unpack_from_cpu") == "offloaded to the CPU"
    assert words.packed("m.un\x1bpack") == "packed by a hook, unpacked by m.un\\epack"
    assert words.packed("") == "packed by a hook"
    name = "torch._functorch._aot_autograd.runtime_wrappers.AOTDispatchAutograd.post_compile.<locals>.CompiledFunction"
    assert words.function(GraphNode(1, "CompiledFunctionBackward", function=name)) == "a graph that torch.compile made"
    assert words.function(GraphNode(1, "SwishBackward", function="model.Swish")) == "a Function of model.Swish"
    assert words.function(GraphNode(1, "MulBackward0")) == ""
    reentrant = GraphNode(1, "CheckpointFunctionBackward", function="torch.utils.checkpoint.CheckpointFunction")
    assert words.function(reentrant) == "checkpoint: its forward runs again in backward"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "it is a leaf that does not require grad: it came from data, or was detached, or made under no_grad()"),
        ({"requires_grad": True}, "it is a leaf that requires grad: graphs end in it, none begins with it"),
        ({"dtype": "int64"}, "it holds int64: graphs are recorded for floating point and complex numbers alone"),
        ({"flags": ("inference",)}, "it was made in inference mode, which records nothing"),
        ({"category": "saved"}, "a node saved it for its backward; no operation is recorded for it itself"),
        ({"is_leaf": False}, "the graph that made it is gone"),
        ({"is_leaf": None}, "no operation is recorded for it"),
    ],
)
def test_why_a_tensor_has_no_graph(build, fields, said):
    tensor = build.tensors[build.tensor(build.storage(16), **fields)]
    assert words.none_behind(tensor, ()) == said


def test_what_a_tensor_was_detached_from_is_named(build):
    storage = build.storage(16)
    made = build.tensors[build.tensor(storage, name="loss", grad_fn="MulBackward0", is_leaf=False)]
    plain = build.tensors[build.tensor(storage, name="plain")]
    kept = build.tensors[build.tensor(storage, name="losses[0]")]
    assert words.none_behind(kept, (plain, made)) == (
        "it was detached from loss, which is on the same storage and has a graph"
    )
    assert "leaf that does not require grad" in words.none_behind(kept, (plain,))
