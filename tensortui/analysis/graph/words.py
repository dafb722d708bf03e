"""Sentences about a graph: whether it is all there, and why not; what was released; who changed what was saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tensortui.analysis.graph.reach import Reach, is_leaf
from tensortui.analysis.graph.saves import Save
from tensortui.analysis.graph.versions import Writer
from tensortui.analysis.naming import label
from tensortui.analysis.text import safe
from tensortui.model import Coverage, Graph, GraphNode, Sample, Tensor

LIMIT = 10_000  # nodes that the agent reads at most: a longer walk is not safe in the target
_ABOUT = ("graph", "backward")
_BLIND = "without side effects"
_TORN = "the graph was not read to its end: the program freed it meanwhile; r tries it again"
CHECKPOINT = "torch.utils.checkpoint."
OFFLOAD = "torch.autograd.graph.save_on_cpu."
COMPILED = "CompiledFunction"
_DIFFERENTIABLE = ("float", "bfloat", "complex")


def blind(graph: Graph, coverage: Coverage) -> bool:
    """Whether the torch of the process does not tell what nodes saved without side effects."""
    return not any(node.saved for node in graph.nodes) and any(_BLIND in reason for reason in coverage.reasons)


def incomplete(graph: Graph, coverage: Coverage) -> list[str]:
    """Why the graph is not all there, one sentence each; nothing where it is."""
    if graph.reasons:
        return list(graph.reasons)
    if blind(graph, coverage) and graph.nodes:
        return ["what the nodes saved is not read: this torch does not tell it without side effects"]
    if not graph.cut:
        return [_TORN] if any(node.cut for node in graph.nodes) else []
    if len(graph.nodes) >= LIMIT:
        return [f"the graph is read up to {len(graph.nodes):,} nodes: it is larger"]
    told = [reason for reason in coverage.reasons if any(word in reason for word in _ABOUT)]
    return told or [
        "the graph was not read to its end: a backward ran at each try, or it is too deep to be read safely"
    ]


def in_part(graph: Graph) -> bool:
    """Whether there is more than was read: what was not found may be in the rest."""
    return graph.cut or any(node.cut for node in graph.nodes)


def extent(nodes: int, depth: int) -> str:
    """How much a part is: so many nodes, where as many as `depth` stand in a row; 0 where that is not known."""
    return ("1 node" if nodes == 1 else f"{nodes:,} nodes") + (
        f", of at least {depth:,} in a row" if depth > nodes else ""
    )


def depth(sample: Sample | None, tensor: Tensor | None = None) -> int:
    """The nodes in a row behind `tensor`, or behind any; 0 where the sample does not know.

    A variable has another tensor with each step: where one is gone, that of the same name counts.
    """
    if sample is None:
        return 0
    if tensor is None:
        return max(sample.depths.values(), default=0)
    if tensor.id in sample.depths or tensor.id in sample.tensors:
        return sample.depths.get(tensor.id, 0)
    alike = (one for one in sample.depths if tensor.names and sample.tensors[one].names[:1] == tensor.names[:1])
    return max((sample.depths[one] for one in alike), default=0)


def none_behind(tensor: Tensor, beside: Iterable[Tensor]) -> str:
    """Why there is no graph behind a tensor without a grad_fn; `beside` are the others on its storage."""
    if tensor.category == "saved":
        return "a node saved it for its backward; no operation is recorded for it itself"
    if tensor.requires_grad:
        return "it is a leaf that requires grad: graphs end in it, none begins with it"
    if "inference" in tensor.flags:
        return "it was made in inference mode, which records nothing"
    if tensor.dtype is not None and not tensor.dtype.startswith(_DIFFERENTIABLE):
        return f"it holds {tensor.dtype}: graphs are recorded for floating point and complex numbers alone"
    for other in beside:
        if other.grad_fn is not None:
            return f"it was detached from {label(other)}, which is on the same storage and has a graph"
    if tensor.is_leaf is None:
        return "no operation is recorded for it"
    if not tensor.is_leaf:
        return "the graph that made it is gone"
    return "it is a leaf that does not require grad: it came from data, or was detached, or made under no_grad()"


def freed(reach: Reach) -> str:
    """What a backward has released of these nodes; "" where nothing was."""
    gone = [number for number in reach.order if reach.nodes[number].freed]
    left = [number for number in reach.order if reach.nodes[number].saved and not reach.nodes[number].freed]
    if not gone:
        return ""
    if not left:
        return "freed: a backward has released what these nodes saved; another backward through them will raise"
    some = "1 node" if len(gone) == 1 else f"{len(gone):,} nodes"
    return f"partly freed: a backward has released what {some} saved; another backward through them will raise"


def kinds(reach: Reach) -> str:
    """How many nodes of which kind: the most frequent first."""
    count = Counter("leaf" if is_leaf(node) else node.name for node in (reach.nodes[one] for one in reach.order))
    return ", ".join(f"{number:,} {safe(name)}" for name, number in count.most_common(4))


def packed(unpacked_by: str) -> str:
    """What a saved tensor is packed by, in a few words."""
    if unpacked_by.startswith(CHECKPOINT):
        return "checkpointed: forward reruns"
    if unpacked_by.startswith(OFFLOAD):
        return "offloaded to the CPU"
    return f"packed by a hook, unpacked by {safe(unpacked_by)}" if unpacked_by else "packed by a hook"


def is_of_checkpoint(save: Save) -> bool:
    """Whether a tensor was not saved by the node itself: a checkpoint that it belongs to keeps it for its rerun."""
    return save.saved.name.startswith("checkpoint[") and not save.saved.hook


def function(node: GraphNode) -> str:
    """What a node of Python is, in a few words; "" for those built into torch."""
    if not node.function:
        return ""
    if node.function.startswith(CHECKPOINT):
        return "checkpoint: its forward runs again in backward"
    if node.name.startswith(COMPILED) or ".CompiledFunction" in node.function:
        return "a graph that torch.compile made"
    return f"a Function of {safe(node.function)}"


def hooks(node: GraphNode) -> str:
    """How many hooks were registered where this node is; "" for none."""
    if not node.hooks:
        return "retains grad" if node.retained else ""
    told = "1 hook" if node.hooks == 1 else f"{node.hooks} hooks"
    return f"{told}, retains grad" if node.retained else told


def stale(save: Save) -> str:
    """What is wrong with a stale save."""
    then = "n/a" if save.saved.version_saved is None else save.saved.version_saved
    now = "n/a" if save.version is None else save.version
    return f"saved at v{then}, now v{now}: backward will raise"


def by(writer: Writer) -> str:
    """Who changed a saved tensor in place; only what is known."""
    name = _name(writer.tensor)
    if writer.kind == "operation":
        return f"last changed in place by {safe(writer.operation)}, which is recorded on {name}"
    if writer.kind == "view":
        return f"changed in place through a view of {name}, on which {safe(writer.operation)} is recorded"
    if writer.kind == "optimizer":
        return f"{writer.together} parameters saved here went up by the same number, as an optimizer step does"
    return "no operation is recorded for it: a write under no_grad, or through a view or detach()"


def _name(tensor: Tensor | None) -> str:
    return "a tensor" if tensor is None else label(tensor)
