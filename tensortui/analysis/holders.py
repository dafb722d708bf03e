"""Chains of holders in words: as an expression where they can be one, what they mean, and how to let go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tensortui.model import Holders, HolderStep, Tensor

Chain = Sequence[HolderStep]

# What a step is, in a word or two.
WORDS = {
    "global": "variable of a module",
    "local": "variable of a running function",
    "class": "attribute of a class",
    "attribute": "attribute",
    "key": "in a dict",
    "index": "in a list",
    "tuple": "in a tuple",
    "element": "member of a set",
    "closure": "captured by a function",
    "default": "default of an argument",
    "generator": "suspended generator",
    "coroutine": "suspended coroutine",
    "frame": "frame that is kept",
    "traceback": "traceback",
    "cache": "cache",
    "hook": "hook",
    "array": "numpy array",
    "graph": "autograd graph",
    "gradient": "gradient",
    "base": "base of a view",
    "C++": "not among Python objects",
    "unreachable": "unreachable",
    "unknown": "not known",
    "object": "object",
}
# In these labels a variable stands first, then what parts it from where it is.
_VARIABLES = {
    "local": " @ ", "closure": " of ", "default": " of ", "generator": " in ", "coroutine": " in ", "frame": " in ",
}  # fmt: skip
_ENTRIES = ("key", "index", "element")
_THREAD = " @ "  # in the label of an attribute of a thread-local, before the thread
_TUPLES = ("default", "cache", "hook", "graph")
_SUFFIX = (".", "[")  # with which a label begins that is written behind what stands before it
# A suffix that says exactly which attribute or entry it is, nothing left out.
_EXACT = re.compile(r"(?:\.\w+|\[(?:-?\d+|b?'(?:(?!\.\.\.)[^'\\])*'|None|True|False)\])+")
# Names in the labels of what torch.utils.checkpoint keeps, in the ways in which it does.
_CHECKPOINTS = ("kept by a checkpoint", "_NoopSaveInputsBackward", "CheckpointFunctionBackward")
_FEW = 2  # parts of an expression that advice has of either end of it
_CONTEXT = "[ContextVar "
_SHORT = {"unreachable": "(unreachable)", "unknown": "(not known)", "C++": "(not in Python)"}


@dataclass(frozen=True, slots=True)
class Told:
    """What a chain means, and how to let go of the tensor; a sentence or two each."""

    means: str
    cure: str


@dataclass(frozen=True, slots=True)
class Group:
    """Chains that end alike, by their place; `tail` is how many of their last steps read the same."""

    chains: tuple[int, ...]
    tail: int = 0


def expression(chain: Chain, arrow: str = "→") -> str:
    """The chain as a program would write it; where none could go on, an arrow and how it goes on."""
    return f" {arrow} ".join(name + where for name, where, _ in _parts(chain))


def code(chain: Chain) -> str:
    """The chain as an expression that a module of the program may write; "" where there is none."""
    if not chain or chain[0].kind not in ("global", "class") or len(_parts(chain)) != 1:
        return ""
    rest = "".join(step.label for step in chain[1:])
    return chain[0].label + rest if not rest or _EXACT.fullmatch(rest) else ""


def _parts(chain: Chain) -> list[tuple[str, str, bool]]:
    """The expressions of a chain, each with where its variable is and whether more could be written behind it."""
    parts: list[tuple[str, str, bool]] = []
    for step, following in zip_longest(chain, chain[1:]):
        if step.kind == "traceback" and step.label.startswith("line ") and following is not None:
            continue  # the frame tells where
        suffix, at, thread = _suffix(step).partition(_THREAD if step.kind == "attribute" else "\0")
        if suffix and parts and parts[-1][2]:
            name, where, _ = parts[-1]
            parts[-1] = (name + suffix, where + at + thread, True)
        elif step.kind in _VARIABLES and (between := _VARIABLES[step.kind]) in step.label:
            name, _, where = step.label.partition(between)
            parts.append((name, between + where, True))
        elif step.kind in _SHORT:
            parts.append((_SHORT[step.kind], "", False))
        elif step.label.startswith(("of ", "in ", "line ")):
            parts.append((f"{step.kind} {step.label}", "", False))
        else:
            parts.append((step.label, "", step.kind in ("global", "class") or bool(suffix)))
    return parts


def _suffix(step: HolderStep) -> str:
    """What is written behind what a step is held by; "" where it is nothing that could be."""
    if step.kind in ("attribute", "key", "index", "tuple", "hook"):
        return step.label if step.label.startswith(_SUFFIX) else ""
    if step.kind == "gradient" and step.label.startswith(".grad"):
        return ".grad"
    return "._base" if step.kind == "base" else ""


def grouped(chains: Sequence[Chain]) -> list[Group]:
    """The chains, those together that end in the same two steps or more; each keeps at least its root to itself."""
    alike: dict[tuple[HolderStep, ...], list[int]] = {}
    for at, chain in enumerate(chains):
        own = tuple(chain[-2:]) if len(chain) > 2 else (HolderStep("", str(at)),)
        alike.setdefault(own, []).append(at)
    groups = []
    for places in alike.values():
        tail = 0
        if len(places) > 1:
            members = [chains[at] for at in places]
            least = min(map(len, members)) - 1
            while tail < least and len({member[-1 - tail] for member in members}) == 1:
                tail += 1
        groups.append(Group(tuple(places), tail))
    return groups


def headline(found: Holders) -> str:
    """How many chains there are, or what it means that there is none."""
    count = len(found.chains)
    if count:
        return "1 chain keeps it alive" if count == 1 else f"{count} chains keep it alive"
    if found.complete:
        return "no holder was found: what keeps it is C++ code, or it was on its way out"
    return "no holder was found, but not everything could be followed"


def document(found: Holders, tensor: Tensor | None = None) -> dict[str, Any]:
    """The JSON document of `tensortui holders`."""
    return {
        "tensor": found.tensor,
        "names": list(tensor.names) if tensor is not None else [],
        "chains": [[{"kind": step.kind, "label": step.label} for step in chain] for chain in found.chains],
        "reasons": list(found.reasons),
        "complete": found.complete,
    }


def meaning(chain: Chain) -> Told:
    """What a chain means and how to let go: decided by its root where nothing leads to it, else by its nearest holder
    that is more than a variable, an attribute or an entry."""
    if not chain:
        return Told("Nothing is known of it.", "")
    if chain[0].kind == "unreachable":
        return _unreachable(chain)
    nearest = next((at for at in range(len(chain) - 1, -1, -1) if chain[at].kind in _SPECIAL), None)
    if nearest is None:
        return _plain(chain)
    kind, at = chain[nearest].kind, nearest
    if kind in ("closure", "default"):
        at = next((hook for hook in range(at) if chain[hook].kind == "hook"), at)  # the function is there as a hook
    told = _SPECIAL[chain[at].kind](chain, at)
    cure = told.cure
    own = 2 if kind in _TUPLES else 1  # the first entry behind these is of a tuple of their own
    over = kind in ("frame", "traceback")  # of what a frame has nothing can be taken out any more
    if (
        not over
        and nearest < len(chain) - own
        and chain[-1].kind in _ENTRIES
        and not chain[-1].label.startswith(_CONTEXT)
    ):
        cure = f"{_entry(chain)} {cure}"
    return Told(told.means, cure)


def _unreachable(chain: Chain) -> Told:
    means = "Nothing leads there any more: objects hold each other in a cycle, the collector has not come by."
    cure = "gc.collect() would free it. It goes at once where the cycle is broken: by del, or a weakref on one side."
    if any(step.kind in ("frame", "traceback") for step in chain):
        cure = (
            "gc.collect() would free it. An exception kept in a variable of its own frame makes such a cycle: del it."
        )
    return Told(means, cure)


def _plain(chain: Chain) -> Told:
    root, last, written = chain[0], chain[-1], code(chain)
    holder = _before(chain, len(chain) - 1)
    if last.kind == "tuple":
        return _in_tuple(chain)
    if last.kind == "key" and last.label.startswith(_CONTEXT):
        return _in_context(chain)
    if last.kind == "attribute" and _THREAD in last.label:
        name, _, thread = last.label.partition(_THREAD)
        return Told(
            f"A thread-local keeps it, as its value in {thread}: {holder}.",
            f"It goes when that thread ends; del {holder}{name} in that thread lets go before that.",
        )
    if last.kind in _ENTRIES:
        what = {"key": "A dict", "index": "A list", "element": "A set"}[last.kind]
        return Told(f"{what} keeps it until it is taken out{f': {holder}' if holder else ''}.", _entry(chain))
    if root.kind == "class" and len(chain) <= 2 and last.kind in ("class", "attribute"):
        where = expression(chain)
        return Told(
            f"It is an attribute of a class, which all its instances share: {where}.",
            f"del {where}, or set it to None.",
        )
    if last.kind == "attribute":
        cure = f"del {written}, or set it to None." if written else "Delete the attribute, or set it to None."
        return Told(f"An object keeps it as an attribute{f': {holder}' if holder else ''}.", cure)
    if root.kind == "local":
        name, _, where = root.label.partition(" @ ")
        thread = f" in the thread {where[where.rindex('[') + 1 : -1]}" if where.endswith("]") and "[" in where else ""
        return Told(
            f"It is a variable of a function that is running{thread}.",
            f"It goes when the function returns or binds the name anew; del {name} lets go before that.",
        )
    if root.kind == "global":
        return Told(
            "It is a variable of a module, and stays as long as the program.", f"del {root.label}, or bind it to None."
        )
    return Told("An object holds it.", "It goes with that object.")


def _in_tuple(chain: Chain) -> Told:
    """Of a tuple, or a part of one: only what holds it can let go."""
    whole = chain
    while whole and whole[-1].kind == "tuple":
        whole = whole[:-1]
    holder = _before(chain, len(chain) - 1)
    means = f"A tuple keeps it, which cannot be changed{f': {holder}' if holder else ''}."
    return Told(means, f"It goes with the tuple: {_plain(whole).cure}" if whole else "It goes with the tuple.")


def _in_context(chain: Chain) -> Told:
    """Of the value that a ContextVar has in a context: the variable itself holds no value."""
    context, variable = chain[:-1], chain[-1].label[len(_CONTEXT) : -1]
    means = f"It is the value of the ContextVar {variable} in a context: {expression(context) or 'not known'}."
    if len(context) == 1 and context[0].kind == "object":
        return Told(means, "Set the variable anew where it was set, or reset() it by the token that set() returned.")
    return Told(means, f"It goes with the context: {_plain(context).cure}" if context else "It goes with the context.")


def _entry(chain: Chain) -> str:
    """How to let go of an entry of a container."""
    named = len(chain) > 1 and chain[-2].kind not in (*_SHORT, "object")
    where = _before(chain, len(chain) - 1) if named else ""
    if chain[-1].kind == "index":
        return (
            f"If {where or 'the list'} grows: drop old entries, use a deque with maxlen, or append item(); "
            "detach() lets go of the graph alone."
        )
    if chain[-1].kind == "key":
        written = code(chain)
        return f"del {written}; if the dict grows, drop old entries." if written else "Drop the entry of the dict."
    return "Drop it from the set: discard() or clear()."


def _before(chain: Chain, at: int) -> str:
    """The chain up to a step, in a few words."""
    parts = [name + where for name, where, _ in _parts(chain[:at])]
    if len(parts) > 2 * _FEW + 1:
        parts[_FEW:-_FEW] = ["..."]
    return " → ".join(parts)


def _graph(chain: Chain, at: int) -> Told:
    means = f"Autograd keeps it for backward: {chain[at].label}."
    holder = _before(chain, at) if chain[0].kind != "unknown" else ""
    if at + 1 < len(chain) and chain[at].label.startswith("node "):
        return _on_node(chain, at, holder)
    if any(mark in step.label for step in chain for mark in _CHECKPOINTS):
        hangs = f", and so does del of what the graph hangs on: {holder}" if holder else ""
        return Told(
            f"A checkpoint keeps it, to run its function again in backward: {chain[at].label}.",
            f"backward() lets go of it{hangs}. Fewer and longer checkpoints keep fewer inputs.",
        )
    if chain[at].label.startswith("leaf of "):
        return Told(
            f"It is a {chain[at].label}, which gives it its gradient.",
            f"It goes with the graph: del {holder or 'the loss'}, or put detach() or item() of it there.",
        )
    if at and chain[at - 1].kind in _ENTRIES:
        return Told(means, f"{holder} keeps a whole graph: put detach() or item() of it there, or drop it.")
    hangs = f", and so does del of what the graph hangs on: {holder}" if holder else ", and so does del of the loss"
    return Told(means, f"backward() without retain_graph lets go of it{hangs}.")


def _on_node(chain: Chain, at: int, holder: str) -> Told:
    """Of what a Function put on its `ctx` by itself: unlike what it saved, it stays as long as the node."""
    node = chain[at].label.removeprefix("node ")
    return Told(
        f"The forward of a Function put it on its ctx, {expression(chain[at + 1 :])}, without save_for_backward(): it "
        f"stays as long as the node {node}, and backward() does not let go of it.",
        "Give it to ctx.save_for_backward() instead. Until then it goes with the graph: "
        f"del {holder or 'the loss'}, or put detach() of it there.",
    )


def _gradient(chain: Chain, at: int) -> Told:
    return Told(f"It is a gradient: {chain[at].label}.", "zero_grad(set_to_none=True) lets go of it, or .grad = None.")


def _base(chain: Chain, at: int) -> Told:
    return Told(
        f"A view lies on its memory and keeps it: {chain[at].label}.", "clone() the view and drop it: then this goes."
    )


def _array(chain: Chain, at: int) -> Told:
    return Told("A numpy array uses its memory.", "Drop the array, or keep a copy() of it.")


def _cache(chain: Chain, at: int) -> Told:
    name = chain[at].label.rpartition(" of ")[2].removesuffix("()")
    return Told(
        f"A cache keeps what a function returned or was given: {chain[at].label}.",
        f"{name}.cache_clear() empties it; a smaller maxsize keeps less.",
    )


def _hook(chain: Chain, at: int) -> Told:
    return Told(
        f"A hook that is registered holds it: {expression(chain[: at + 1])}.",
        "remove() the handle that registering it returned.",
    )


def _traceback(chain: Chain, at: int) -> Told:
    return Told(
        "An exception is kept, and its traceback keeps the variables of every function that it came through.",
        "Drop the exception: del its variable, or sys.last_traceback = None (and last_value, last_exc). Keep its text "
        "in its place, or traceback.clear_frames() of it.",
    )


def _frame(chain: Chain, at: int) -> Told:
    if any(step.kind == "traceback" for step in chain):
        return _traceback(chain, at)
    return Told(
        "The frame of a function that has ended is kept, with all its variables.",
        "Drop what holds the frame: an exception, sys.last_traceback, or what asked for the frame.",
    )


def _generator(chain: Chain, at: int) -> Told:
    return Told(
        f"A generator that is suspended keeps its variables: {chain[at].label}.",
        "Run it to its end, close() it or drop it; del the variable before the yield to keep less.",
    )


def _coroutine(chain: Chain, at: int) -> Told:
    return Told(
        f"A coroutine that waits keeps its variables: {chain[at].label}.",
        "Let it finish, or cancel its task; del the variable before the await to keep less.",
    )


def _closure(chain: Chain, at: int) -> Told:
    holder = _before(chain, at)
    return Told(
        f"A function has captured the variable: {chain[at].label}.",
        f"Drop the function{f', {holder}' if holder else ''}, or have it capture what it needs of the tensor alone.",
    )


def _default(chain: Chain, at: int) -> Told:
    if chain[at].label.startswith("of ContextVar "):
        return Told(
            f"It is what the ContextVar {chain[at].label[14:]} gives where no value is set.",
            "It goes with the variable: use None as the default.",
        )
    return Told(
        f"It is the default of an argument, and stays as long as the function: {expression(chain[at : at + 1])}.",
        "Use None as the default, and make the value in the function.",
    )


def _cpp(chain: Chain, at: int) -> Told:
    if len(chain) > at + 1 and chain[at + 1].label.startswith(_CONTEXT):
        return Told(
            f"It is the value of a ContextVar in a context that code of C holds: {chain[at].label}.",
            "It goes when the variable is set anew in that context, or with what runs in it: a task or a thread.",
        )
    return Told(f"What holds it is not among the objects of Python: {chain[at].label}.", "It goes when that lets go.")


def _unknown(chain: Chain, at: int) -> Told:
    return Told(f"What holds it from here on is not known: {chain[at].label}.", "Another search may find more.")


_SPECIAL = {
    "graph": _graph,
    "gradient": _gradient,
    "base": _base,
    "array": _array,
    "cache": _cache,
    "hook": _hook,
    "traceback": _traceback,
    "frame": _frame,
    "generator": _generator,
    "coroutine": _coroutine,
    "closure": _closure,
    "default": _default,
    "C++": _cpp,
    "unknown": _unknown,
}
