"""What is told of single nodes: what a Function saved, who unpacks it, what a backward released, who made it."""

import torch
from torch.utils.checkpoint import checkpoint

from tensortui.wire.messages import OTHER, PARAMETER


def by_name(body):
    return {node[1]: node for node in body["nodes"]}


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.extra = a * 2
        return a * b

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_custom_functions(agent):
    a, b = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    y = Twice.apply(a, b)
    b.add_(1)
    one = agent()
    node = by_name(one.graph([y]))["TwiceBackward"]
    saved = {entry[0]: entry for entry in node[4]}
    assert saved["saved_tensors[1]"][1:] == [one.census.track(b).id, 0, 1, True, False]
    assert saved["saved_tensors[0]"][1] == one.census.track(a).id
    assert saved["extra"][1] == one.census.track(y.grad_fn.extra).id


def test_nothing_after_backward_released_it(agent):
    x = torch.ones(3, requires_grad=True)
    y = Twice.apply(torch.exp(x)[torch.tensor([0, 1])] + 1, x[:2]).sum()
    before = by_name(agent().graph([y]))
    y.backward()
    after = by_name(agent().graph([y]))
    saving = {"ExpBackward0", "TwiceBackward", "IndexBackward0"}
    assert {name for name, node in before.items() if node[4]} == saving
    assert [name for name, node in before.items() if "freed" in node[5]] == []
    assert [after[name][4] for name in saving - {"TwiceBackward"}] == [[], []]
    assert [entry[0] for entry in after["TwiceBackward"][4]] == ["extra"]  # an attribute stays
    assert {name for name, node in after.items() if node[5].get("freed")} == saving


def test_a_released_function_is_freed(agent):
    x = torch.ones(3, requires_grad=True)
    y = Plain.apply(x)
    assert "freed" not in by_name(agent().graph([y]))["PlainBackward"][5]
    y.sum().backward()
    assert by_name(agent().graph([y]))["PlainBackward"][5]["freed"] is True


def test_an_optional_input_that_was_not_given_is_not_freed(agent):
    x = torch.ones(2, 3, requires_grad=True)
    y = torch.nn.functional.batch_norm(x, None, None, training=True)
    assert "freed" not in by_name(agent().graph([y]))["NativeBatchNormBackward0"][5]
    y.sum().backward()
    assert by_name(agent().graph([y]))["NativeBatchNormBackward0"][5]["freed"] is True


def test_who_unpacks_which_function_made_it_and_where_hooks_are(agent):
    x = torch.ones(3, requires_grad=True)
    x.register_hook(lambda grad: None)
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    packed = checkpoint(torch.exp, x, use_reentrant=False)
    with torch.autograd.graph.save_on_cpu():
        moved = torch.sin(x)
    function = Twice.apply(packed, moved)
    nodes = by_name(agent().graph([function]))
    assert nodes["ExpBackward0"][4][0][6] == "torch.utils.checkpoint._checkpoint_hook.__init__.<locals>.unpack_hook"
    assert nodes["SinBackward0"][4][0][6] == "torch.autograd.graph.save_on_cpu.__init__.<locals>.unpack_from_cpu"
    assert nodes["TwiceBackward"][5]["function"] == __name__ + ".Twice"
    assert "function" not in nodes["ExpBackward0"][5]
    assert nodes["AccumulateGrad"][5]["hooks"] == 2


def test_what_the_program_put_in_place_of_a_name_is_not_run(agent):
    class Meta(type(torch.autograd.Function)):
        def __getattribute__(cls, name):
            if armed:
                asked.append(name)
            return super().__getattribute__(name)

    class Odd(torch.autograd.Function, metaclass=Meta):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    armed, asked = [], []
    Odd.__module__ = "bell\x07"
    y = Odd.apply(torch.ones(1, requires_grad=True))
    armed.append(1)
    body = agent().graph([y])
    armed.clear()
    assert asked == []
    name = "bell\\x07.test_what_the_program_put_in_place_of_a_name_is_not_run.<locals>.Odd"
    assert by_name(body)["OddBackward"][5]["function"] == name


def test_which_tensors_the_walk_began_at(agent):
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    a, b = y.split([1, 2])
    one = agent()
    nodes = by_name(one.graph())
    number = {name: one.census.track(tensor).id for name, tensor in (("y", y), ("a", a), ("b", b))}
    assert nodes["ExpBackward0"][5]["tensors"] == [number["y"]]
    assert sorted(nodes["SplitWithSizesBackward0"][5]["tensors"]) == sorted([number["a"], number["b"]])


def test_what_may_be_gone_before_the_next_sample_is_described_once(agent):
    x = torch.ones(4, 6, requires_grad=True)
    y = x.exp()[:, 1:3].square().sum()
    one = agent()
    for number, tracked in one.census.by_id.items():
        tracked.row = b"read"
        tracked.found = PARAMETER if number == one.census.track(x).id else OTHER
    nodes = by_name(one.graph([y]))
    (result,) = nodes["ExpBackward0"][5]["held"]
    assert result[1:7] == [(4, 6), (6, 1), 0, "float32", "cpu", "strided"]
    assert result[9] == 96
    (view,) = nodes["PowBackward0"][5]["held"]
    assert view[1:4] == [(4, 2), (6, 1), 1]
    assert view[8:] == result[8:]  # the same storage
    assert [node[5].get("held") for node in nodes.values() if node[3] is not None] == [None]
    again = by_name(agent().graph([y, x.exp()]))
    assert len(again["ExpBackward0"][5]["held"]) == 1
