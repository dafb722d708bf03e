"""Chains of holders in words."""

from __future__ import annotations

import pytest

from tensortui.analysis.holders import WORDS, Group, code, document, expression, grouped, headline, meaning
from tensortui.model import HOLDER_KINDS, Holders, HolderStep


def chain(*steps: str) -> tuple[HolderStep, ...]:
    """Steps as "kind label"."""
    return tuple(HolderStep(*step.split(" ", 1)) for step in steps)


LOGS = chain("global trainer", "attribute .logs", "key ['val_logits']", "index [3]")


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (LOGS, "trainer.logs['val_logits'][3]"),
        (chain("local batch @ step() train.py:42 [worker]"), "batch @ step() train.py:42 [worker]"),
        (
            chain("local self @ step() train.py:42", "attribute .cache", "index [0]"),
            "self.cache[0] @ step() train.py:42",
        ),
        (chain("class mod.Model.cache", "key ['a']"), "mod.Model.cache['a']"),
        (
            chain("global callback", "closure history of make.<locals>.inner()", "index [3]"),
            "callback → history[3] of make.<locals>.inner()",
        ),
        (chain("global rows", "generator batch in produce() data.py:10"), "rows → batch in produce() data.py:10"),
        (chain("global load", "cache lru_cache of load()", "index [3]"), "load → lru_cache of load() → [3]"),
        (chain("global model", "attribute .weight", "gradient .grad of model.weight"), "model.weight.grad"),
        (chain("global x", "base base of the view x"), "x._base"),
        (
            chain("global losses", "index [2]", "graph saved as self by MulBackward0"),
            "losses[2] → saved as self by MulBackward0",
        ),
        (chain("local a thing that has no place", "index [1]"), "a thing that has no place → [1]"),
        (chain("C++ 1 of its 2 references were not found", "index [3]"), "(not in Python) → [3]"),
        (
            chain("unreachable nothing leads there", "object Report", "attribute .logits"),
            "(unreachable) → Report → .logits",
        ),
        (chain("unknown the search ended here", "attribute .x"), "(not known) → .x"),
        (
            chain("global e", "traceback of ValueError", "frame x in f() a.py:1"),
            "e → traceback of ValueError → x in f() a.py:1",
        ),
        (chain("global e", "traceback line 12", "frame in f() a.py:1"), "e → frame in f() a.py:1"),
        (chain("global f", "default of f()", "index [0]"), "f → default of f() → [0]"),
        (chain("global s", "element in a set"), "s → element in a set"),
        (chain("global model", "hook ._forward_hooks", "key [3]"), "model._forward_hooks[3]"),
        (chain("global f", "attribute mod.f()"), "f → mod.f()"),
        (chain("gradient model.weight.grad"), "model.weight.grad"),
        (chain("global pair", "tuple .second"), "pair.second"),
        (chain("global ctx", "key [ContextVar 'state']"), "ctx[ContextVar 'state']"),
        (chain("global own", "attribute .x @ thread worker", "index [0]"), "own.x[0] @ thread worker"),
        ((), ""),
    ],
)
def test_a_chain_is_an_expression_as_far_as_one_goes(steps: tuple[HolderStep, ...], text: str) -> None:
    assert expression(steps) == text
    assert expression(steps, "->") == text.replace("→", "->")


def test_only_what_a_module_can_write_is_code() -> None:
    assert code(LOGS) == "trainer.logs['val_logits'][3]"
    assert code(chain("local batch @ step() train.py:42")) == ""
    assert code(chain("global load", "cache lru_cache of load()")) == ""
    assert code(()) == ""
    assert code(chain("class mod.Model", "attribute .cache", "key [b'x']", "index [-1]")) == "mod.Model.cache[b'x'][-1]"
    for label in ("[one of 5 keys]", "[a key: Tensor]", "['long...key']", "['it\\'s']", "[<Key>]", ".<attribute>"):
        assert code(chain("global cache", f"key {label}")) == "", label


@pytest.mark.parametrize(
    ("steps", "means", "cure"),
    [
        (LOGS, "trainer.logs['val_logits']", "If trainer.logs['val_logits'] grows: drop old entries"),
        (chain("global seen", "key ['a']"), "A dict keeps it until it is taken out: seen.", "del seen['a']"),
        (chain("global seen", "element of a set"), "A set keeps it", "discard()"),
        (chain("global model", "attribute .last"), "as an attribute: model.", "del model.last, or set it to None"),
        (chain("global x"), "variable of a module", "del x"),
        (chain("class mod.Model.cache"), "attribute of a class", "del mod.Model.cache"),
        (chain("class mod.Model", "attribute .cache"), "attribute of a class", "del mod.Model.cache"),
        (chain("local batch @ step() train.py:42"), "function that is running.", "del batch"),
        (chain("local batch @ work() t.py:4 [loader-1]"), "running in the thread loader-1.", "returns"),
        (chain("unreachable a cycle", "attribute .me"), "Nothing leads there any more", "gc.collect() would free it"),
        (chain("unreachable a cycle", "traceback of E", "frame x in f() a.py:1"), "Nothing leads", "An exception kept"),
        (
            chain("global sys.last_traceback", "traceback of ValueError", "frame x in f() a.py:1"),
            "An exception is kept",
            "sys.last_traceback = None",
        ),
        (chain("global held", "frame x in f() a.py:1"), "function that has ended", "Drop what holds the frame"),
        (
            chain("global losses", "index [2]", "graph saved as self by MulBackward0"),
            "saved as self by MulBackward0",
            "losses[2] keeps a whole graph: put detach() or item()",
        ),
        (
            chain("local loss @ step() train.py:42", "graph saved as self by MulBackward0"),
            "for backward",
            "backward() without retain_graph lets go of it, and so does del of what the graph hangs on: loss @ step()",
        ),
        (chain("global load", "cache lru_cache of load()"), "A cache", "load.cache_clear()"),
        (chain("global m", "hook ._forward_hooks", "key [3]"), "A hook that is registered holds it: m._fo", "remove()"),
        (chain("global a", "array numpy.ndarray"), "numpy array", "copy()"),
        (chain("global v", "base base of the view v"), "A view", "clone() the view"),
        (chain("global m", "gradient .grad of m"), "a gradient", "zero_grad(set_to_none=True)"),
        (chain("global f", "closure x of make.<locals>.f()"), "captured", "Drop the function, f,"),
        (chain("global f", "closure h of m.<locals>.f()", "index [3]"), "captured", "If f → h of m.<locals>.f() grows"),
        (
            chain("global lin", "hook ._forward_hooks", "key [0]", "default of <lambda>()", "index [0]"),
            "A hook that is registered holds it: lin._forward_hooks.",
            "remove()",
        ),
        (chain("global f", "default of f()", "index [0]"), "the function: default of f().", "Use None as the default"),
        (
            chain("global f", "default of f()", "index [0]", "index [1]"),
            "the function: default of f().",
            "If f → default",
        ),
        (
            chain("graph result saved by ExpBackward0"),
            "result saved by Exp",
            "lets go of it, and so does del of the loss",
        ),
        (
            chain("unknown no variable was found", "graph result saved by ExpBackward0"),
            "result saved by Exp",
            "lets go of it, and so does del of the loss",
        ),
        (
            chain("global y", "graph node StashBackward", "attribute .stash"),
            "put it on its ctx, .stash, without save_for_backward()",
            "it goes with the graph: del y, or put detach()",
        ),
        (chain("global y", "graph leaf of the graph, by AccumulateGrad"), "a leaf of the graph", "goes with the graph"),
        (chain("global y", "graph args[1] kept by a checkpoint"), "A checkpoint keeps it", "longer checkpoints"),
        (
            chain("global y", "graph self saved by MulBackward0 and packed by a hook", "index [1]"),
            "packed by a hook",
            "backward() without retain_graph lets go of it, and so does del of what the graph hangs on: y",
        ),
        (chain("global y", "hook hook of MulBackward0", "key [4]", "closure x of f()"), "A hook that is", "remove()"),
        (chain("global f", "default x of f()"), "default of an argument", "None as the default"),
        (chain("global g", "generator x in rows() d.py:10"), "A generator", "close() it"),
        (chain("global t", "coroutine x in rows() d.py:10"), "A coroutine", "cancel its task"),
        (chain("C++ a queue of the loader"), "not among the objects of Python", "when that lets go"),
        (chain("unknown the search was over its limit", "index [3]"), "not known", "Another search"),
        (chain("object Foo"), "An object", "goes with"),
        (
            chain("global pair", "tuple .second"),
            "A tuple keeps it, which cannot be changed: pair.",
            "del pair, or bind",
        ),
        (chain("global a", "attribute .b", "tuple [0]", "tuple [1]"), "be changed: a.b[0].", "tuple: del a.b, or set"),
        (
            chain("global p", "tuple .args", "tuple [0]"),
            "be changed: p.args.",
            "It goes with the tuple: del p, or bind",
        ),
        (chain("tuple [0]"), "A tuple keeps it", "It goes with the tuple."),
        (chain("global own", "attribute .x @ thread w"), "as its value in thread w: own.", "del own.x in that thread"),
        (
            chain("global ctx", "key [ContextVar 'state']"),
            "It is the value of the ContextVar 'state' in a context: ctx.",
            "It goes with the context: del ctx, or bind",
        ),
        (
            chain("object the running context of thread w", "key [ContextVar 'state']"),
            "the ContextVar 'state' in a context: the running context of thread w.",
            "Set the variable anew where it was set, or reset() it",
        ),
        (chain("C++ 1 of 1", "key [ContextVar 'state']"), "of a ContextVar in a context that", "It goes when the var"),
        (chain("global v", "default of ContextVar 'v'"), "the ContextVar 'v' gives where no", "goes with the variable"),
        (chain("C++ 1 of 1", "index [0]"), "not among the objects", "If the list grows"),
        (
            chain("global e", "traceback of E", "frame x in f() a.py:1", "index [0]"),
            "An exception",
            "Drop the exception",
        ),
        (chain("global en", "object list_iterator", "index [0]"), "A list keeps it", "If the list grows"),
        ((), "Nothing is known", ""),
    ],
)
def test_what_a_chain_means_and_how_to_let_go(steps: tuple[HolderStep, ...], means: str, cure: str) -> None:
    told = meaning(steps)
    assert means in told.means
    assert cure in told.cure


def test_advice_has_the_ends_of_a_long_chain() -> None:
    frames = [f"frame in f{number}() a.py:{number}" for number in range(20)]
    told = meaning(chain("unknown the search ended here", *frames, "closure x of f()", "index [0]", "index [1]"))
    where = "(not known) → frame in f0() a.py:0 → ... → frame in f19() a.py:19 → x[0] of f()"
    assert told.cure.startswith(f"If {where} grows: ")


def test_every_kind_has_words_and_a_meaning_wherever_it_stands() -> None:
    assert set(WORDS) == set(HOLDER_KINDS)
    for kind in HOLDER_KINDS:
        for other in HOLDER_KINDS:
            steps = (HolderStep(kind, "x"), HolderStep(other, "y"))
            told = meaning(steps)
            assert told.means and told.cure and expression(steps)


def test_chains_that_end_alike_come_together_and_keep_their_roots() -> None:
    other = chain("local self @ step() train.py:42", "attribute .logs", "key ['val_logits']", "index [3]")
    alone = chain("global last")
    assert grouped([LOGS, alone, other]) == [Group((0, 2), 3), Group((1,), 0)]
    assert grouped([LOGS, LOGS]) == [Group((0, 1), 3)]
    assert grouped([alone, alone]) == [Group((0,), 0), Group((1,), 0)]
    assert grouped([]) == []


def test_what_a_search_found_in_a_line() -> None:
    assert headline(Holders(1, (LOGS,))) == "1 chain keeps it alive"
    assert headline(Holders(1, (LOGS, LOGS))) == "2 chains keep it alive"
    assert "C++ code" in headline(Holders(1))
    assert "not everything could be followed" in headline(Holders(1, complete=False))


def test_the_document_has_the_names_of_the_schema() -> None:
    found = document(Holders(7, (LOGS[:2],), ("Cut.",), False))
    assert found == {
        "tensor": 7,
        "names": [],
        "chains": [[{"kind": "global", "label": "trainer"}, {"kind": "attribute", "label": ".logs"}]],
        "reasons": ["Cut."],
        "complete": False,
    }
