"""What is stale, and who changed it: only what the records show."""

from tensortui.analysis.graph import stale, unnoticed, words, writer
from tensortui.analysis.graph.versions import sharers
from tensortui.model import SavedTensor


def saved(tensor, then, now, *, name="self", stale=None):
    return SavedTensor(name, tensor, then, now, then != now if stale is None else stale, False)


def told(graphs, *roots):
    """The one stale save, and what is said of who changed it."""
    saves = graphs.saves(*roots)
    (save,) = stale(saves)
    reach = graphs.reach(*roots)
    return save, writer(save, reach, saves), words.by(writer(save, reach, saves))


def test_a_result_that_was_changed_in_place_is_told_by_the_tensor_on_its_storage(graphs):
    """exp saves its result: what the graph holds is another tensor on the storage, the program's has a new maker."""
    storage = graphs.build.storage(4000)
    kept = graphs.build.tensor(storage, version=1, category="saved", names=("result saved by ExpBackward0",))
    graphs.build.tensor(storage, version=1, name="w", grad_fn="AddBackward0")
    graphs.node(1, 2, name="SumBackward0")
    graphs.node(2, 3, name="ExpBackward0", saved=[saved(kept, 0, 1, name="result")])
    graphs.leaf(3)
    save, who, text = told(graphs)
    assert (save.node, who.kind, who.operation) == (2, "operation", "AddBackward0")
    assert text == "last changed in place by AddBackward0, which is recorded on w"
    assert words.stale(save) == "saved at v0, now v1: backward will raise"


def test_the_maker_itself_is_not_taken_for_a_writer(graphs):
    storage = graphs.build.storage(16)
    kept = graphs.build.tensor(storage, version=1, name="h", grad_fn="MulBackward0")
    graphs.build.tensor(storage, version=1, name="v", grad_fn="ViewBackward0", flags=("view",))
    graphs.node(1, 2, name="PowBackward0", saved=[saved(kept, 0, 1)])
    graphs.node(2, name="MulBackward0")
    _, who, text = told(graphs)
    assert who.kind == "unrecorded"
    assert text == "no operation is recorded for it: a write under no_grad, or through a view or detach()"


def test_two_nodes_of_one_kind_are_told_apart_where_the_graph_says_which_made_the_tensor(graphs):
    kept = graphs.build.tensor(graphs.build.storage(16), version=1, name="h", grad_fn="AddBackward0")
    graphs.node(1, 2, name="PowBackward0", saved=[saved(kept, 0, 1)])
    graphs.node(2, name="AddBackward0")
    graphs.node(3, 2, name="AddBackward0", tensors=(kept,))
    _, who, _ = told(graphs, 1, 3)
    assert (who.kind, who.node) == ("operation", 3)
    graphs.change(2, tensors=(kept,))
    graphs.change(3, tensors=())
    assert told(graphs, 1, 3)[1].kind == "unrecorded"


def test_a_write_through_a_view(graphs):
    kept = graphs.build.tensor(graphs.build.storage(16), version=1, name="h", grad_fn="CopySlices")
    graphs.node(1, 2, name="PowBackward0", saved=[saved(kept, 0, 1)])
    graphs.node(2, name="MulBackward0")
    _, who, text = told(graphs)
    assert who.kind == "view"
    assert text == "changed in place through a view of h, on which CopySlices is recorded"


def test_an_optimizer_step_is_told_by_the_parameters_that_went_up_together(graphs):
    build = graphs.build
    weights = [
        build.tensor(build.storage(16), version=3, name=f"model.{at}.weight", category="parameter") for at in range(3)
    ]
    graphs.node(1, 2, name="AddmmBackward0", saved=[saved(weights[0], 2, 3)])
    graphs.node(2, name="AddmmBackward0", saved=[saved(weights[1], 2, 3), saved(weights[2], 3, 3)])
    saves, reach = graphs.saves(), graphs.reach()
    found = stale(saves)
    assert [save.tensor.names for save in found] == [("model.0.weight",), ("model.1.weight",)]
    assert words.by(writer(found[0], reach, saves)) == (
        "2 parameters saved here went up by the same number, as an optimizer step does"
    )


def test_one_parameter_alone_is_no_optimizer_step(graphs):
    weight = graphs.build.tensor(graphs.build.storage(16), version=3, name="w", category="parameter")
    graphs.node(1, saved=[saved(weight, 2, 3)])
    assert told(graphs)[1].kind == "unrecorded"


def test_the_newest_sample_tells_what_was_changed_after_the_graph_was_read(graphs):
    kept = graphs.build.tensor(graphs.build.storage(16), version=2, name="h")
    graphs.node(1, saved=[saved(kept, 1, 1)])
    save, _, _ = told(graphs)
    assert (save.saved.version_saved, save.version) == (1, 2)


def test_what_cannot_be_known_is_not_stale(graphs):
    kept = graphs.build.tensor(graphs.build.storage(16), version=2, name="h")
    inference = graphs.build.tensor(graphs.build.storage(16), version=None)
    graphs.node(1, saved=[saved(kept, None, 2, stale=False), saved(inference, 0, 0), saved(None, None, None)])
    assert stale(graphs.saves()) == []


def test_writes_under_another_counter_go_unnoticed(graphs):
    """`.data` shares the bytes, not the counter; views share both."""
    storage = graphs.build.storage(16)
    kept = graphs.build.tensor(storage, version=0, name="h")
    graphs.build.tensor(storage, version=0, name="v", flags=("view",))
    data = graphs.build.tensor(storage, version=5, name="d")
    other = graphs.build.storage(16)
    written = graphs.build.tensor(other, version=2, name="g")
    graphs.build.tensor(other, version=0, name="never written through")
    graphs.node(1, saved=[saved(kept, 0, 0), saved(written, 2, 2)])
    saves = graphs.saves()
    save, fine = saves
    assert unnoticed(fine, saves) == []
    assert [tensor.id for tensor in unnoticed(save, saves)] == [data]
    tensors = saves.sample.tensors
    assert [tensor.names for tensor in sharers(tensors.values(), tensors[kept])] == [("v",)]


def test_who_saved_a_tensor(graphs):
    storage = graphs.build.storage(16)
    whole, part = graphs.build.tensor(storage, name="h"), graphs.build.tensor(storage, name="h[0]", flags=("view",))
    graphs.node(1, 2, saved=[saved(part, 0, 0)])
    graphs.node(2, saved=[saved(whole, 0, 0), saved(graphs.build.tensor(None), 0, 0)])
    saves = graphs.saves()
    tensors = saves.sample.tensors
    assert [save.node for save in saves.savers(tensors[whole])] == [2, 1]
    assert [save.node for save in saves.savers(tensors[part])] == [1, 2]
