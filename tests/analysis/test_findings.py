"""Findings: told where there is something, silent over healthy programs."""

from dataclasses import replace

import pytest

from tensortui.analysis import findings
from tensortui.analysis.accounting import Accounts
from tensortui.analysis.findings import Finding, Thresholds, count, find
from tensortui.analysis.growth import Growth
from tensortui.model import Graph, GraphNode, SavedTensor

MIB = 1 << 20


def found(build, graph=None, **thresholds):
    sample = build.sample()
    return find(sample, Accounts(sample), graph, Thresholds(**thresholds))


def kinds(findings):
    return [(finding.kind, finding.severity) for finding in findings]


def test_a_small_view_of_a_large_storage_is_told(build):
    storage = build.storage(64 * MIB)
    build.tensor(storage, (16 * MIB,), flags=("base-only",))
    row = build.tensor(storage, (1024,), offset=2048, name="row @ step() train.py:47", flags=("view",))
    (finding,) = found(build)
    assert kinds([finding]) == [("retained-storage", "warning")]
    assert (finding.tensors, finding.storages) == ((row,), (storage,))
    assert (finding.evidence["live_bytes"], finding.evidence["bytes"]) == (4096, 64 * MIB)
    assert finding.title == "row @ step() train.py:47 keeps 64.00 MiB alive for 4.00 KiB"
    assert "row.clone()" in finding.advice


def test_a_view_is_fine_while_its_base_lives_or_little_is_lost(build):
    whole = build.storage(64 * MIB)
    build.tensor(whole, (16 * MIB,), name="table")
    build.tensor(whole, (1024,), flags=("view",))
    most = build.storage(64 * MIB)
    build.tensor(most, (9 * MIB,))
    small = build.storage(MIB // 2)
    build.tensor(small, (1,))
    mapped = build.storage(64 * MIB, backing="file")
    build.tensor(mapped, (1,))
    assert found(build) == []


def test_what_a_forward_pass_keeps_for_a_moment_is_a_note(build):
    storage = build.storage(64 * MIB)
    build.tensor(storage, (1,), category="activation", grad_fn="SelectBackward0")
    assert kinds(found(build)) == [("retained-storage", "note")]


def test_tied_parameters_are_noted_once_wrappers_are_not(build):
    storage = build.storage(16)
    build.tensor(storage, names=("lm.emb.weight", "lm.head.weight"), category="parameter")
    build.tensor(build.storage(16), names=("ddp.module.a.w", "ddp.alias.a.w"), category="parameter")
    build.tensor(build.storage(16), names=("ddp.module.b.w", "ddp.alias.b.w"), category="parameter")
    build.tensor(build.storage(16), names=("m.w", "trainer.m.w", "p @ f() x.py:1"), category="parameter")
    (finding,) = found(build)
    assert kinds([finding]) == [("tied", "note")]
    assert finding.evidence["names"] == ["lm.emb.weight", "lm.head.weight"]


def test_parameters_side_by_side_are_fine_on_the_same_bytes_they_are_not(build):
    storage = build.storage(48)
    parameter = {"category": "parameter", "requires_grad": True}
    one = build.tensor(storage, offset=0, name="q", **parameter)
    build.tensor(storage, offset=4, name="k", **parameter)
    build.tensor(storage, shape=(12,))  # the fused matrix itself
    assert found(build) == []
    other = build.tensor(storage, shape=(2,), offset=1, name="bad", **parameter)
    (finding,) = found(build)
    assert kinds([finding]) == [("overlap", "warning")]
    assert (finding.tensors, finding.evidence["shared_bytes"]) == ((one, other), 8)


PARAMETER = {"category": "parameter", "requires_grad": True}


def test_a_parameter_made_of_the_transpose_of_another_lies_on_its_bytes(build):
    storage = build.storage(64 * 32 * 4)
    encoder = build.tensor(storage, (64, 32), name="encoder.weight", **PARAMETER)
    decoder = build.tensor(storage, (32, 64), (1, 32), name="decoder.weight", **PARAMETER)
    (finding,) = found(build)
    assert (finding.kind, finding.tensors, finding.size) == ("overlap", (encoder, decoder), 64 * 32 * 4)


def test_parameters_on_columns_of_their_own_are_fine_on_common_ones_they_are_not(build):
    storage = build.storage(20 * 10 * 4)
    for column in (0, 5):
        build.tensor(storage, (20, 5), (10, 1), offset=column, name=f"part{column}", **PARAMETER)
    assert found(build) == []
    build.tensor(storage, (20, 2), (10, 1), offset=4, name="both", **PARAMETER)
    assert [finding.evidence["shared_bytes"] for finding in found(build)] == [80, 80]


@pytest.mark.parametrize(
    "parts",
    [
        [((8, 10), 0), ((10,), 80), ((5, 2), 90)],  # with padding behind them
        [((10, 10), 0)],  # one module of one parameter
        [((100,), 0), ((4,), 100)],
    ],
)
def test_a_flat_parameter_and_the_parameters_that_are_views_of_it_are_fine(build, parts):
    storage = build.storage(104 * 4)
    flat = build.tensor(storage, (104,), name="flat", **PARAMETER)
    for shape, offset in parts:
        build.tensor(storage, shape, offset=offset, **PARAMETER)
    assert found(build) == []
    first, offset = parts[0]
    build.tensor(storage, first, offset=offset, name="twice", **PARAMETER)
    (finding,) = found(build)
    assert finding.kind == "overlap" and flat not in finding.tensors


def test_a_parameter_that_is_a_part_of_another_is_no_view_of_a_flat_one(build):
    storage = build.storage(400)
    ids = (
        build.tensor(storage, (100,), name="bias", **PARAMETER),
        build.tensor(storage, (40,), name="part", **PARAMETER),
    )
    matrix = build.storage(400)
    ids += build.tensor(matrix, (10, 10), name="matrix", **PARAMETER), build.tensor(matrix, (90,), **PARAMETER)
    assert [finding.tensors for finding in found(build)] == [ids[2:], ids[:2]]


def test_freed_storages_are_noted_together_meta_tensors_are_not_freed(build):
    freed = [build.storage(0, backing="none") for _ in range(2)]
    ids = [build.tensor(storage, (1024,), name="full") for storage in freed]
    build.tensor(build.storage(0, device="meta", backing="none"), (1024,), flags=("meta",))
    build.tensor(build.storage(0, backing="none"), (0,))
    (finding,) = found(build)
    assert kinds([finding]) == [("freed-storage", "note")]
    assert (finding.tensors, finding.storages) == (tuple(ids), tuple(freed))
    assert finding.evidence["apparent_bytes"] == 8192


def test_large_expanded_tensors_are_noted(build):
    storage = build.storage(4096)
    mask = build.tensor(storage, (65536, 1024), (0, 1), name="mask")
    build.tensor(storage, (10, 1024), (0, 1))
    build.tensor(storage, (1024,))
    (finding,) = found(build)
    assert kinds([finding]) == [("expanded", "note")]
    assert finding.tensors == (mask,)


def test_a_stale_save_is_an_error(build):
    w = build.tensor(build.storage(16), name="w", version=1)
    saved = SavedTensor("result", w, 0, 1, stale=True, hook=False)
    fine = SavedTensor("self", w, 1, 1, stale=False, hook=False)
    (finding,) = found(build, Graph((1,), (GraphNode(1, "ExpBackward0", saved=(saved, fine)),)))
    assert kinds([finding]) == [("stale-save", "error")]
    assert (finding.evidence["version_saved"], finding.evidence["version"]) == (0, 1)
    assert "w" in finding.title


class Losses:
    """A graph that adds up losses: `passes` of one forward each, `parts` of a loss a pass, over one parameter."""

    def __init__(self, build, passes, parts=1, shared_leaf=True):
        self.nodes = [GraphNode(1, "AccumulateGrad")]
        self.number = 1
        self.build = build
        total = None
        for at in range(passes):
            leaf = 1 if shared_leaf or not at else self.node("AccumulateGrad")
            hidden = self.node("ReluBackward0", leaf)
            for _ in range(parts):
                storage = build.storage(8 * MIB)
                tid = build.tensor(storage, (2 * MIB,), category="saved", python=False)
                saved = (SavedTensor("result", tid, 0, 0, stale=False, hook=False),)
                part = self.node("NllLossBackward0", hidden, leaf, saved=saved)
                total = part if total is None else self.node("AddBackward0", total, part)
        build.tensor(build.storage(4), (), name="total", grad_fn="AddBackward0")
        self.graph = Graph((total,), tuple(self.nodes))

    def node(self, name, *following, saved=()):
        self.number += 1
        self.nodes.append(GraphNode(self.number, name, following, saved=saved))
        return self.number


def test_a_sum_of_losses_that_keeps_the_graph_of_every_step_is_told(build):
    (finding,) = found(build, Losses(build, passes=4).graph)
    assert kinds([finding]) == [("graph-kept", "warning")]
    assert (finding.evidence["steps"], finding.evidence["bytes"]) == (4, 32 * MIB)
    assert finding.title.startswith("total sums 4 losses")


def test_what_a_cut_graph_keeps_is_a_lower_bound(build):
    (finding,) = found(build, replace(Losses(build, passes=4).graph, cut=True))
    assert finding.title.startswith("total sums at least 4 losses with their graphs: at least 32.00 MiB")
    assert finding.evidence["cut"] is True


def test_a_loss_of_many_parts_is_fine(build):
    assert found(build, Losses(build, passes=1, parts=8).graph) == []


def test_a_penalty_over_many_parameters_is_fine(build):
    assert found(build, Losses(build, passes=8, shared_leaf=False).graph) == []


def test_a_list_of_losses_with_their_graphs_is_told(build):
    nodes = [GraphNode(1, "AccumulateGrad")]
    for k in range(5):
        nodes.append(GraphNode(k + 2, "NllLossBackward0", (1,)))
        build.tensor(build.storage(4), (), name=f"losses[{k}]", grad_fn="NllLossBackward0")
    (finding,) = found(build, Graph((2, 3, 4, 5, 6), tuple(nodes)))
    assert kinds([finding]) == [("graph-kept", "warning")]
    assert finding.title.startswith("losses holds 5 losses")
    assert len(finding.tensors) == 5


def test_the_gravest_come_first_and_no_kind_floods_the_list(build):
    for size in range(2, 12):
        build.tensor(build.storage(size * MIB), (1,))
    build.tensor(build.storage(4096), (65536, 1024), (0, 1))
    result = found(build, per_kind=3)
    assert kinds(result) == [("retained-storage", "warning")] * 3 + [("expanded", "note"), ("retained-storage", "note")]
    assert [finding.evidence["bytes"] for finding in result[:3]] == [11 * MIB, 10 * MIB, 9 * MIB]
    others = result[-1]
    assert others.title == "7 more of this kind are not told one by one, 35.00 MiB in all"
    assert (others.evidence, len(others.tensors)) == ({"more": 7, "bytes": 35 * MIB}, 7)
    assert not set(others.tensors) & {tid for finding in result[:-1] for tid in finding.tensors}
    assert count(result) == 11


def test_of_findings_whose_evidence_has_no_bytes_the_largest_are_told_too(build):
    for size in range(100, 1000, 100):
        storage = build.storage(size * 4)
        for name in ("a", "b"):
            build.tensor(storage, (size,), name=name, category="parameter", requires_grad=True)
    told = found(build, per_kind=2)
    assert [finding.evidence.get("shared_bytes") for finding in told] == [3600, 3200, None]


def test_a_rule_that_fails_takes_nothing_from_the_others_and_is_told(build, monkeypatch):
    def half(facts):
        yield Finding("overlap", "warning", "one was found", size=5)
        raise KeyError("\x1b[2J")

    build.tensor(build.storage(2 * MIB), (1,))
    monkeypatch.setattr(findings, "RULES", (half, *findings.RULES))
    told = found(build)
    assert kinds(told) == [("retained-storage", "warning"), ("overlap", "warning"), ("internal", "note")]
    assert told[-1].evidence["rule"] == "half"
    assert "KeyError" in told[-1].title and told[-1].title.isprintable()


def test_one_group_is_one_group(build):
    growth = Growth()
    for second in range(30):
        build.tensor(None, (2,), name="self saved by MmBackward0", category="saved", python=False)
        build.tensor(None, (3,))
        sample = replace(build.sample(), taken_at=1000.0 + second)
        growth.update(sample)
    saved, nameless = sorted(find(sample, Accounts(sample), growth=growth), key=lambda finding: finding.about)[::-1]
    assert saved.title.startswith("what the autograd graph saved, in 1 group, grows: ")
    assert nameless.title.startswith("the number of tensors without a name, in 1 group, grows: ")


def test_what_grows_is_told_and_all_that_the_graph_saved_as_one(build):
    growth = Growth()
    for second in range(30):
        build.tensor(None, (), name=f"losses[{second}]", grad_fn="MeanBackward0")
        for node in ("Mm", "Pow"):
            build.tensor(None, (2,), name=f"self saved by {node}Backward0", category="saved", python=False)
        sample = replace(build.sample(), taken_at=1000.0 + second)
        growth.update(sample)
    found = find(sample, Accounts(sample), growth=growth)
    assert kinds(found) == [("growth", "warning")] * 2
    saved, losses = found
    assert losses.title.startswith("losses[*] grows: 21 tensors, 84 B more in 21 s")
    assert saved.title.startswith("what the autograd graph saved, in 2 groups, grows: 42 tensors, 336 B more in 21 s")
    assert {build.tensors[tid].names[0] for tid in losses.tensors} == {"losses[27]", "losses[28]", "losses[29]"}
