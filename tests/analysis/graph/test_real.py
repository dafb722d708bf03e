"""Graphs of real programs, read by the agent in them."""

import asyncio
import sys
from pathlib import Path

import pytest

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.graph import Keeping, Reach, Saves, Tree, known, maker_of, stale, words, writer
from tensortui.attach import attach
from tensortui.sources import LiveSource

CASES = Path(__file__).parents[2] / "cases" / "programs"
WAIT = """
import os, sys
print("READY", os.getpid(), flush=True)
sys.stdin.read()
"""


class Real:
    """The graph behind a tensor of a running program, and a sample taken after it."""

    def __init__(self, pid, name=None):
        self.graph, self.sample = asyncio.run(self._read(pid, name))
        root = None if name is None else maker_of(self.graph, self.named(name).id)
        self.reach = Reach(self.graph, None if root is None else [root])
        accounts = Accounts(self.sample)
        self.saves = Saves(self.reach, self.sample, accounts)
        self.keeping = Keeping(self.reach, self.saves)
        self.tree = Tree(self.reach, self.saves)

    async def _read(self, pid, name):
        source = await LiveSource.connect(attach(pid), interval=None)
        roots = None
        if name is not None:
            sample = await source.refresh()
            first = [one.id for one in sample.tensors.values() if name in one.names]
            roots = [*first, *(one.id for one in sample.tensors.values() if one.grad_fn is not None)]
        graph = await source.graph(roots)
        sample = await source.refresh()
        await source.detach()
        return graph, sample

    def named(self, name):
        (tensor,) = (one for one in self.sample.tensors.values() if name in one.names)
        return tensor

    def names(self):
        return [self.reach.nodes[number].name for number in self.reach.order]


@pytest.fixture
def real(start):
    def run(code_or_case, name=None):
        found = list(CASES.glob(f"{code_or_case}_*.py")) if code_or_case.isdigit() else []
        arguments = [str(found[0])] if found else ["-c", code_or_case + WAIT]
        process = start(sys.executable, *arguments, stdin=-1)
        assert process.stdout.readline().startswith("READY")
        return Real(process.pid, name)

    return run


def test_09_a_result_changed_in_place_and_who_did_it(real):
    it = real("09", "loss")
    assert it.names() == ["SumBackward0", "ExpBackward0", "AccumulateGrad"]
    (save,) = stale(it.saves)
    assert (save.saved.name, save.saved.version_saved, save.version) == ("result", 0, 1)
    assert words.by(writer(save, it.reach, it.saves)) == (
        "last changed in place by AddBackward0, which is recorded on w"
    )
    leaf = it.reach.nodes[it.reach.order[-1]].leaf
    assert it.sample.tensors[leaf].names == ("x",)
    assert it.keeping.saved_bytes == 4000
    assert it.keeping.kept_bytes == 0  # w keeps it too


def test_20_a_checkpoint_packs_what_it_saves_and_nothing_runs(real):
    it = real("20", "ck")
    hooked = [save for save in it.saves if save.saved.hook]
    assert hooked
    assert {words.packed(save.saved.unpacked_by) for save in hooked} == {"checkpointed: forward reruns"}
    assert stale(it.saves) == []
    plain = Reach(it.graph, [maker_of(it.graph, it.named("plain").id)])
    held = Keeping(plain, Saves(plain, it.sample, Accounts(it.sample)))
    assert held.saved_bytes == 2 * 524_288 + 2 * 512 * 512 * 4  # x and what relu gave, and both weights
    assert held.kept_bytes == 524_288  # the program holds x and the weights


def test_39_what_only_the_graph_keeps_is_counted(real):
    it = real("39", "total")
    assert [it.names().count(name) for name in ("AddBackward0", "NllLossBackward0", "LogSoftmaxBackward0")] == [4] * 3
    assert it.keeping.kept_bytes - 4 * 8_192_000 in range(4 * 64)  # and total_weight, a scalar of each step
    root = it.reach.roots[0]
    assert it.keeping.behind(root) == it.keeping.kept_bytes
    inner = [number for number in it.reach.order if it.reach.nodes[number].name == "AddBackward0"]
    assert it.keeping.behind(inner[1]) < it.keeping.behind(inner[0])


def test_an_optimizer_step_between_forward_and_backward(real):
    it = real(
        """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 8)).sum().backward()
loss = model(torch.ones(4, 8)).sum()
opt.step()
""",
        "loss",
    )
    found = stale(it.saves)
    assert {known(save, it.saves).names[0] for save in found} == {"model.2.weight", "model.3.weight"}
    said = {words.by(writer(save, it.reach, it.saves)) for save in found}
    assert said == {"2 parameters saved here went up by the same number, as an optimizer step does"}


def test_freed_functions_views_and_offload(real):
    it = real(
        """
import torch
class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x)
x = torch.ones(64, requires_grad=True)
with torch.autograd.graph.save_on_cpu():
    moved = x.exp()
h = Swish.apply(moved)
p = h ** 2
h[0].add_(1)
loss = p.sum()
spent = Swish.apply(x * 2)
spent.sum().backward()
""",
        "loss",
    )
    nodes = {node.name: node for node in it.graph.nodes}
    assert words.function(nodes["SwishBackward"]) == "a Function of __main__.Swish"
    (save,) = stale(it.saves)
    assert words.by(writer(save, it.reach, it.saves)) == (
        "changed in place through a view of h, on which CopySlices is recorded"
    )
    packed = [save.saved.unpacked_by for save in it.saves if save.saved.hook]
    assert [words.packed(one) for one in packed] == ["offloaded to the CPU"]
    gone = Reach(it.graph, [maker_of(it.graph, it.named("spent").id)])
    assert words.freed(gone).startswith("freed: ")
    assert words.freed(it.reach) == ""


def test_layers_fold_and_residual_connections_are_links(real):
    it = real(
        """
import torch
torch.manual_seed(0)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
model = torch.nn.Sequential(*[Block() for _ in range(12)])
loss = model(torch.ones(4, 8, requires_grad=True)).sum()
""",
        "loss",
    )
    rows = it.tree.rows()
    (fold,) = (row for row in rows if row.kind == "fold")
    assert (fold.fold.count, fold.fold.period) == (11, 5)
    links = [it.names()[it.reach.order.index(row.node)] for row in rows if row.kind == "link" and row.below]
    assert links == ["AddBackward0", "AccumulateGrad"]  # the second block to the first, the first to the input
    leaf = it.saves.leaf(next(node.id for node in it.graph.nodes if node.leaf is not None and not node.hooks
                              and it.sample.tensors[node.leaf].shape == (4, 8)))  # fmt: skip
    assert leaf.elsewhere is False  # nobody but the graph has the input
    assert len(rows) < 60
