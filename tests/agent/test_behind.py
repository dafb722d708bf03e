"""What the autograd graph keeps alive, and hooks: asked of a real program, with the variable at the other end."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from tensortui.agent.behind import FIRST, Behind
from tensortui.agent.graph import NO_CHECKPOINT
from tensortui.analysis.holders import expression, meaning
from tensortui.model import HolderStep

PROGRAM = """
import gc, sys, torch, weakref
from torch.utils.checkpoint import checkpoint
class Trainer: pass
weight = torch.randn(1000, 1, requires_grad=True)
def keeps(size):
    kept = torch.zeros(size, 1000)
    return (kept @ weight).sum()
keep_loss = keeps(101)
trainer = Trainer(); trainer.history = [1, keeps(102)]
def keeps_leaf():
    leaf = torch.zeros(121, 1000, requires_grad=True); middle = leaf[:-1] * 1.5
    return (middle @ torch.ones(1000, 1)).exp().sum()
trainer.leaf = [keeps_leaf()]
class Stash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.stash = torch.zeros(104, 1000)
        return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
keep_stash = Stash.apply(torch.zeros(3, requires_grad=True))
def hook(size):
    held = torch.zeros(size, 1000)
    def called(*_): held.sum()
    return called
leaf = torch.zeros(3, requires_grad=True); leaf.register_hook(hook(105))
def by_default():
    held = torch.zeros(106, 1000)
    leaf.register_hook(lambda g, held=held: g)
by_default()
leaf.register_post_accumulate_grad_hook(hook(107))
middle = leaf * 2; middle.register_hook(hook(108))
def gone():
    inner = leaf * 3; inner.register_hook(hook(109))
    return inner.sum()
keep_hooked = gone()
keep_node = (leaf * 4).exp(); keep_node.grad_fn.register_hook(hook(110))
keep_before = (leaf * 5).exp(); keep_before.grad_fn.register_prehook(hook(111))
def made_by_python():
    inner = Stash.apply(leaf * 6); inner.grad_fn.stash = None; inner.register_hook(hook(113))
    return inner.sum()
keep_made = made_by_python()
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.a = torch.nn.Linear(8, 8)
    def forward(self, x): return torch.cat([self.a(x).exp().exp(), x[:1]])
layers = [Layer() for _ in range(3)]
def forward(reentrant, rows):
    x = torch.zeros(rows, 8, requires_grad=True)
    for layer in layers: x = checkpoint(layer, x, use_reentrant=reentrant)
    return x.sum()
keep_checkpoint = forward(False, 200); keep_reentrant = forward(True, 300)
def store():
    x = torch.zeros(131, 3, requires_grad=True)[:-1] * 2
    saver = (x * leaf).sum(); del x
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: None, lambda packed: saver):
        return (leaf * leaf).sum()
keep_other = store()
def pack(tensor): return (tensor, torch.zeros(112, 1000))
with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[0]):
    keep_packed = (leaf * torch.ones(3)).sum()

START_AGENT
print("READY", flush=True)
for line in sys.stdin:
    exec(line)
    print("DONE", flush=True)
"""


# By the rows of the tensor: the chains, and a part of how to let go by the first.
CASES = {
    101: (["keep_loss -> self saved by MmBackward0"], "del of what the graph hangs on: keep_loss"),
    102: (["trainer.history[1] -> self saved by MmBackward0"], "trainer.history[1] keeps a whole graph"),
    121: (["trainer.leaf[0] -> leaf of the graph, by AccumulateGrad"], "It goes with the graph: del trainer.leaf[0]"),
    104: (["keep_stash -> node StashBackward -> .stash"], "ctx.save_for_backward() instead"),
    105: (["leaf._backward_hooks[0] -> held of hook.<locals>.called()"], "remove() the handle"),
    106: (["leaf._backward_hooks[1] -> default of by_default.<locals>.<lambda>() -> [0]"], "remove() the handle"),
    107: (["leaf._post_accumulate_grad_hooks[2] -> held of hook.<locals>.called()"], "remove() the handle"),
    108: (["middle._backward_hooks[3] -> held of hook.<locals>.called()"], "remove() the handle"),
    109: (["keep_hooked -> hook of MulBackward0 -> [4] -> held of hook.<locals>.called()"], "remove() the handle"),
    110: (["keep_node -> hook of ExpBackward0 -> [5] -> held of hook.<locals>.called()"], "remove() the handle"),
    111: (["keep_before -> hook of ExpBackward0 -> [6] -> held of hook.<locals>.called()"], "remove() the handle"),
    113: (["keep_made -> hook of StashBackward -> [7] -> held of hook.<locals>.called()"], "remove() the handle"),
    112: (["keep_packed -> other saved by MulBackward0 and packed by a hook -> [1]"], "hangs on: keep_packed"),
    130: (
        [
            f"keep_other -> {name} saved by MulBackward0 and packed by a hook -> saver of store.<locals>.<lambda>()"
            " -> self saved by MulBackward0"
            for name in ("other", "self")
        ],
        "del of what the graph hangs on: keep_other",
    ),
    200: (
        [
            "keep_checkpoint -> args[0] kept by a checkpoint",
            "keep_checkpoint -> leaf of the graph, by AccumulateGrad",
        ],
        "Fewer and longer checkpoints",
    ),
    201: (["keep_checkpoint -> args[0] kept by a checkpoint"], "Fewer and longer checkpoints"),
    302: (["keep_reentrant -> saved_tensors[0] saved by CheckpointFunctionBackward"], "Fewer and longer checkpoints"),
}


class Asked:
    """The program, and a viewer that has seen all its tensors."""

    def __init__(self, process: Any, client: Any) -> None:
        self.process, self.client = process, client
        client.refresh()

    def about(self, rows: int) -> tuple[list[list[HolderStep]], list[str]]:
        """The chains of the one tensor with so many rows, and what is said of what was not found."""
        found = [row["id"] for row in self.client.tables["tensors"].values() if row["shape"][:1] == [rows]]
        assert len(found) == 1, found
        self.client.send({"t": "holders", "request": rows, "tensor": found[0], "limit": 8})
        answer = self.client.until("holders", request=rows)
        return [[HolderStep(*step) for step in chain] for chain in answer["chains"]], answer["reasons"]

    def say(self, line: str) -> str:
        """Have the program run a line; what it prints."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        printed = ""
        while (more := self.process.stdout.readline()) != "DONE\n":
            printed += more
        return printed


@pytest.fixture
def asked(program: Any, connect: Any) -> Asked:
    process, path = program(PROGRAM, budget=1.0)
    return Asked(process, connect(path))


def test_what_the_graph_holds_is_followed_to_the_variable_that_holds_the_graph(asked: Asked) -> None:
    for rows, (wanted, cure) in CASES.items():
        chains, reasons = asked.about(rows)
        assert (rows, [expression(chain, "->") for chain in chains], reasons) == (rows, wanted, [])
        assert cure in meaning(chains[0]).cure, rows


def test_the_program_keeps_nothing_because_it_was_asked_about(asked: Asked) -> None:
    asked.say("found = [weakref.ref(one) for one in gc.get_objects() if type(one) is torch.Tensor]")
    count = "print(sum(one() is not None and one().shape[:1] in ((101,), (104,), (201,)) for one in found))"
    for rows in (101, 104, 201):
        asked.about(rows)
    assert asked.say(count) == "3\n"
    asked.say("del keep_loss, keep_stash, keep_checkpoint")
    assert asked.say(count) == "0\n"


def test_all_searches_for_one_answer_share_its_time(asked: Asked) -> None:
    asked.say("from tensortui.agent.holders import Search; ends, init = [], Search.__init__")
    asked.say("Search.__init__ = lambda self, *given: (ends.append(given[-1]), init(self, *given))[1]")
    asked.about(102)
    assert asked.say("print(len(ends) > 1, len(set(ends)), type(ends[0]))") == "True 1 <class 'float'>\n"


def test_what_could_not_be_followed_in_time_is_said(asked: Asked) -> None:
    asked.say(
        "import torch.utils.checkpoint as module; frame = module._CheckpointFrame; module._CheckpointFrame = None"
    )
    assert asked.about(101)[1] == [NO_CHECKPOINT]
    asked.say("module._CheckpointFrame = frame")
    asked.say("import tensortui.agent.behind as behind; behind.MAX_NODES = 1")
    chains, reasons = asked.about(101)
    assert [expression(chain, "->") for chain in chains] == ["(not known) -> self saved by MmBackward0"]
    assert chains[0][0].label == "no variable was found that holds this graph"
    assert reasons == ["what holds the graph: it is read up to 1 nodes, and is larger"]
    assert "so does del of the loss" in meaning(chains[0]).cure


def test_a_tensor_that_is_freed_between_two_pieces_is_passed_over() -> None:
    count = 1200
    behind: Any = object.__new__(Behind)
    behind._last = array("q", [0, 0])
    behind._from = behind._before = array("q", [0])
    behind._began_at, behind._began = array("q", [1] * count), array("q", range(count))
    behind._tensor, behind.reasons = -1, []
    known = {number: SimpleNamespace(names="x", saved=False, pyid=number, id=number) for number in range(count)}
    behind._context = SimpleNamespace(census=SimpleNamespace(by_id=known))
    work = behind._leading_to(1)
    for _ in range(3):
        next(work)
    del known[2]
    with pytest.raises(StopIteration) as end:
        while True:
            next(work)
    assert [one.id for one in end.value.value] == [0, 1, 3, 4, 5, 6]
    assert behind.reasons == [FIRST]  # there are more
