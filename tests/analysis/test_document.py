"""The document of schema 1, and that the pure parts stay pure."""

import json
import subprocess
import sys
from datetime import datetime, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensortui.analysis.document import document, dumps
from tensortui.analysis.findings import Finding
from tensortui.model import Coverage, Graph, GraphNode, SavedTensor


def test_the_document_has_every_key_of_the_schema_and_what_is_unknown_is_null(build):
    storage = build.storage(None)
    build.tensor(storage, None, dtype=None, offset=None, version=None, is_leaf=None, names=("\ud800\x1b[31m\u202e",))
    saved = SavedTensor("result", 2, None, 0, stale=False, hook=True, unpacked_by="offload.unpack")
    node = GraphNode(1, "ExpBackward0", (None, 3), None, (saved,), (2,), "model.Exp", freed=True, hooks=2, cut=True)
    graph = Graph((1,), (node,), cut=True, reasons=("the graph is larger",))
    text = dumps(document(build.sample(coverage=Coverage(False, ("because",))), graph))
    assert text.isascii()
    found = json.loads(text)
    assert set(found) == {
        "schema", "taken_at", "process", "coverage", "totals", "storages", "tensors", "graph", "findings", "cuda",
        "transfers",
    }  # fmt: skip
    assert found["schema"] == 1
    assert datetime.fromisoformat(found["taken_at"].replace("Z", "+00:00")) == datetime.fromtimestamp(
        1000, timezone.utc
    )
    assert set(found["process"]) == {
        "pid", "command", "python", "torch", "cuda", "rank", "local_rank", "world_size",
    }  # fmt: skip
    assert found["coverage"] == {"complete": False, "reasons": ["because", "the graph is larger"]}
    (entry,) = found["storages"]
    assert set(entry) == {
        "id",
        "device",
        "address",
        "bytes",
        "backing",
        "live_bytes",
        "counted_bytes",
        "category",
        "tensors",
    }
    assert (entry["bytes"], entry["live_bytes"]) == (None, None)
    (tensor,) = found["tensors"]
    assert set(tensor) == {
        "id", "storage", "names", "type", "shape", "strides", "offset", "dtype", "device", "layout", "bytes",
        "distinct_bytes", "contiguous", "memory_format", "flags", "requires_grad", "is_leaf", "version", "grad_fn",
        "category", "python",
    }  # fmt: skip
    for name in ("shape", "strides", "offset", "dtype", "bytes", "distinct_bytes", "contiguous", "version", "is_leaf"):
        assert tensor[name] is None, name
    assert found["graph"] == {
        "roots": [1],
        "nodes": [
            {
                "id": 1,
                "name": "ExpBackward0",
                "next": [None, None],
                "leaf": None,
                "saved": [
                    {
                        "name": "result",
                        "tensor": 2,
                        "version_saved": None,
                        "version": 0,
                        "stale": False,
                        "hook": True,
                        "unpacked_by": "offload.unpack",
                    }
                ],
                "made": [2],
                "function": "model.Exp",
                "freed": True,
                "hooks": 2,
                "cut": True,
            }
        ],
        "cut": True,
        "reasons": ["the graph is larger"],
    }
    assert found["cuda"] is None
    assert found["transfers"] is None


def test_without_a_graph_there_is_no_graph(build):
    assert "graph" not in document(build.sample())


def test_a_graph_that_is_not_whole_is_in_the_coverage(build):
    sample = build.sample()
    whole = document(sample, Graph((), ()))["coverage"]
    cut = document(sample, Graph((), (), cut=True))["coverage"]
    told = document(sample, Graph((), (), cut=True, reasons=("why",)))["coverage"]
    assert whole == {"complete": True, "reasons": []}
    assert cut == {"complete": False, "reasons": ["the graph was cut at 0 nodes"]}
    assert told == {"complete": False, "reasons": ["why"]}


IDS = st.integers(1, 12)
SAVES = st.builds(SavedTensor, st.just("self"), st.none() | IDS, st.none(), st.none(), st.booleans(), st.booleans())
NODES = st.builds(
    GraphNode,
    IDS,
    st.just("MulBackward0"),
    st.lists(st.none() | IDS, max_size=3).map(tuple),
    st.none() | IDS,
    st.lists(SAVES, max_size=3).map(tuple),
    st.lists(IDS, max_size=3).map(tuple),
)
GRAPHS = st.builds(
    Graph,
    st.lists(IDS, max_size=3).map(tuple),
    st.lists(NODES, max_size=6, unique_by=lambda node: node.id).map(tuple),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=GRAPHS, alive=st.sets(IDS), named=st.lists(IDS, max_size=3))
def test_whatever_the_graph_and_the_sample_every_id_in_the_document_is_that_of_an_entry(build, graph, alive, named):
    build.tensors.clear()
    build.storages.clear()
    for number in alive:
        build.tensor(build.storage(16), tid=number)
    findings = [Finding("growth", "note", "x", tuple(named), tuple(named))]
    found = document(build.sample(), graph, findings=findings)
    tensors = {entry["id"] for entry in found["tensors"]}
    storages = {entry["id"] for entry in found["storages"]}
    nodes = {node["id"] for node in found["graph"]["nodes"]}
    told = [finding for entry in found["findings"] for finding in entry["tensors"]]
    told += [number for entry in found["storages"] for number in entry["tensors"]]
    for node in found["graph"]["nodes"]:
        told += [node["leaf"], *(saved["tensor"] for saved in node["saved"]), *node["made"]]
    assert {number for number in told if number is not None} <= tensors
    assert {number for entry in found["findings"] for number in entry["storages"]} <= storages
    assert {entry["storage"] for entry in found["tensors"]} <= storages
    assert {number for node in found["graph"]["nodes"] for number in node["next"] if number is not None} <= nodes
    assert set(found["graph"]["roots"]) <= nodes
    asked = {number for node in graph.nodes for number in (node.leaf, *node.tensors, *(s.tensor for s in node.saved))}
    assert found["coverage"]["complete"] is (asked - {None} <= tensors)


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (GraphNode(1, "A", saved=(SavedTensor("self", 8, 0, 0, False, False),)), "1 saved tensor is gone since"),
        (
            GraphNode(1, "A", saved=tuple(SavedTensor("self", number, 0, 0, False, False) for number in (7, 8, 9, 9))),
            "3 saved tensors are gone since",
        ),
        (GraphNode(1, "AccumulateGrad", leaf=8, tensors=(9,)), "2 tensors are gone since"),
    ],
)
def test_tensors_of_the_graph_that_are_gone_by_the_time_of_the_sample_are_in_the_coverage(build, node, said):
    found = document(build.sample(), Graph((1,), (node,)))
    assert found["coverage"] == {"complete": False, "reasons": [f"the graph was read before the tensors: {said}"]}
    (entry,) = found["graph"]["nodes"]
    assert (entry["leaf"], entry["made"], {saved["tensor"] for saved in entry["saved"]} - {None}) == (None, [], set())


def test_findings_are_plain_values(build):
    build.tensor(build.storage(64 << 20), (1,), name="x")
    (finding,) = json.loads(dumps(document(build.sample())))["findings"]
    assert set(finding) == {"kind", "severity", "title", "tensors", "storages", "evidence", "advice"}


def test_the_data_side_needs_neither_torch_nor_textual():
    code = (
        "import sys, tensortui.sources, tensortui.analysis.document, tensortui.analysis.filtering\n"
        "print([name for name in ('torch', 'numpy', 'textual', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
