"""What a graph describes stands in for what a sample does not have."""

from dataclasses import replace

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import Behind, known
from tensortui.analysis.graph.completing import complete
from tensortui.model import Graph, SavedTensor, Storage


def described(graphs, tensors, storages):
    return replace(graphs.graph(), tensors={one.id: one for one in tensors}, storages={one.id: one for one in storages})


def test_a_sample_that_has_it_all_stays_as_it_is(graphs):
    tid = graphs.build.tensor(graphs.build.storage(16), name="h")
    sample = graphs.build.sample()
    assert complete(Graph(), sample) is sample
    assert complete(described(graphs, [sample.tensors[tid]], []), sample) is sample


def test_a_step_that_is_over_is_counted_with_what_the_program_holds(graphs):
    """A view of a weight that still lives, and an activation whose memory another tensor uses by now."""
    build = graphs.build
    weight = build.tensor(build.storage(64, address=0x1000), shape=(4, 4), name="fc.weight", category="parameter")
    build.tensor(build.storage(32, address=0x2000), shape=(8,), name="w.grad", category="gradient")
    sample = build.sample()
    like = sample.tensors[weight]
    view = replace(like, id=901, storage=-1, names=(), flags=("view",), category="saved", python=False, version=None)
    activation = replace(like, id=902, storage=-2, shape=(8,), names=(), category="saved", python=False, version=None)
    again = replace(activation, id=903)
    graphs.node(1, saved=[SavedTensor("mat2", 901, 3, 3, False, False), SavedTensor("mat1", 902, 0, 1, True, False)])
    graphs.change(1, saved=(*graphs.nodes[1].saved, SavedTensor("self", 903, 0, 0, False, False)))
    storages = [Storage(-1, "cpu", 0x1000, 64), Storage(-2, "cpu", 0x2000, 32)]
    behind = Behind(described(graphs, [view, activation, again], storages), sample, Accounts(sample))
    assert behind.newest is sample
    saves = behind.saves.of(1)
    assert known(saves[0], behind.saves).names == ("fc.weight",)
    assert [save.elsewhere for save in saves] == [True, False, False]
    assert [save.bytes for save in saves] == [64, 32, 32]
    assert [save.first for save in saves] == [True, True, False]
    assert (behind.keeping.saved_bytes, behind.keeping.kept_bytes) == (96, 32)
    assert [save.saved.name for save in behind.stale] == ["mat1"]
    assert sample.tensors.keys() == {weight, weight + 2}


def test_a_storage_that_still_lives_is_the_one_of_the_sample(graphs):
    build = graphs.build
    storage = build.storage(32)
    here = build.tensor(storage, shape=(8,), name="h")
    sample = build.sample()
    base = replace(sample.tensors[here], storage=-1, names=())
    graphs.node(1, saved=[here, 900])
    graph = described(graphs, [base, replace(base, id=900)], [Storage(-1, "cpu", 7, 32)])
    assert {one.tensors[900].storage for one in [complete(graph, sample)]} == {storage}
