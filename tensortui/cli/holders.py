"""Print what keeps one tensor of a running process alive: chains of holders, each from its root.

TENSOR is a name as the viewer or `tensortui snapshot` shows it, or an id of the JSON document. Of a variable the part
before " @ " is enough: the line that a function is at changes while it runs. Ids hold only while one agent stays in
the process, as it does while a viewer is connected; after that the same number may be another tensor.

The search goes in small steps, can take a while, and is given up with Ctrl-C. Then the agent leaves the process again,
unless another viewer is connected to it. Nothing but what was found goes to stdout.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tensortui.cli.options import add_attach_options, seconds
from tensortui.cli.target import parse_pid
from tensortui.errors import TensortuiError, UsageError
from tensortui.wire.messages import CHAINS, CHAINS_LIMIT

if TYPE_CHECKING:
    from tensortui.attach import Endpoint
    from tensortui.model import Holders, Sample, Tensor
    from tensortui.sources.live import LiveSource

WAIT_SECONDS = 600.0
LISTED = 8  # tensors of one name, or names that are like the one given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `tensortui holders`."""
    parser.add_argument("pid", metavar="PID", help="the process to look at")
    parser.add_argument("tensor", metavar="TENSOR", help="a name as it is shown, or an id of the JSON document")
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of text")
    parser.add_argument(
        "--limit", type=_chains, default=CHAINS, metavar="N", help=f"find at most N chains (default {CHAINS})"
    )
    parser.add_argument(
        "--wait",
        type=seconds,
        default=WAIT_SECONDS,
        metavar="S",
        help="give up searching after S seconds (default 600)",
    )
    add_attach_options(parser)


def _chains(text: str) -> int:
    if not re.fullmatch("[0-9]{1,3}", text) or not 0 < int(text) <= CHAINS_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of chains from 1 to {CHAINS_LIMIT}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Attach, find the tensor and what holds it, print that, and leave."""
    pid = parse_pid(arguments.pid)
    import asyncio

    from tensortui.cli.connecting import attached

    options = {"timeout": arguments.timeout, "budget": arguments.budget}
    endpoint = attached(pid, **options)
    tensor, found = asyncio.run(
        search(endpoint, arguments.tensor, limit=arguments.limit, wait=arguments.wait, **options)
    )
    from tensortui.analysis.holders import document

    if arguments.json:
        from tensortui.analysis.document import dumps

        print(dumps(document(found, tensor), indent=2))
    else:
        print("\n".join(text(found, tensor)))
    return 0


async def search(
    endpoint: Endpoint, wanted: str, *, limit: int = CHAINS, wait: float = WAIT_SECONDS, **options: float
) -> tuple[Tensor, Holders]:
    """Return the tensor that `wanted` means in the process behind `endpoint`, and what holds it.

    An agent that we brought is taken out again. `options` are those of `attach`, should the agent be leaving just now.
    """
    from tensortui.cli.connecting import visit

    said: list[str] = []

    def step() -> str:
        return f"looking for what holds it: {said[-1]}" if said else ""

    async def ask(source: LiveSource, found: Endpoint) -> tuple[Tensor, Holders]:
        return await _search(source, found, wanted, limit, said.append)

    late = f"The search in process {endpoint.pid} did not end"
    return await visit(endpoint, options, ask, wait=wait, late=late, step=step)


async def _search(
    source: LiveSource, endpoint: Endpoint, wanted: str, limit: int, progress: Callable[[str], None]
) -> tuple[Tensor, Holders]:
    if "holders" in source.missing:
        raise TensortuiError("What holds a tensor cannot be found here.", source.missing["holders"])
    tensor = choose(await source.refresh(), wanted)
    if endpoint.fresh and _is_id(wanted):
        from tensortui.analysis.findings.finding import label

        print(
            f"note: ids hold only while one agent stays, and none was there; {wanted} is {label(tensor)} now.",
            file=sys.stderr,
        )
    return tensor, await source.holders(tensor.id, limit=limit, progress=progress)


def _is_id(wanted: str) -> bool:
    return re.fullmatch("[0-9]{1,19}", wanted) is not None


def choose(sample: Sample, wanted: str) -> Tensor:
    """Return the one tensor that is meant; raises what says why there is none, or which there are."""
    from tensortui.analysis.text import safe

    if _is_id(wanted):
        tensor = sample.tensors.get(int(wanted))
        if tensor is None:
            raise TensortuiError(
                f"Process {sample.process.pid} has no tensor of the id {wanted}.",
                f"Ids hold only while one agent stays there. Names are those of `tensortui snapshot "
                f"{sample.process.pid} --json`.",
                kind="gone",
            )
        return tensor
    exact: list[Tensor] = []
    loose: list[Tensor] = []
    for tensor in sample.tensors.values():
        shown = {*tensor.names, *map(safe, tensor.names)}
        if wanted in shown:
            exact.append(tensor)
        elif wanted in {name.partition(" @ ")[0] for name in shown}:
            loose.append(tensor)
    found = exact or loose
    if not found:
        raise TensortuiError(
            f"Process {sample.process.pid} has no tensor named {wanted!r}.", _instead(sample, wanted), kind="gone"
        )
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} tensors go by {wanted!r}: {_listed(found)}.",
            "Give the whole name, or the id of one of them while a viewer keeps the agent there "
            f"(`tensortui attach {sample.process.pid}`).",
        )
    return found[0]


def _listed(found: list[Tensor]) -> str:
    more = f", and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return (
        ", ".join(
            f"{tensor.id} ({tensor.names[0] if tensor.names else 'no name'}, shape {tensor.shape or 'n/a'})"
            for tensor in found[:LISTED]
        )
        + more
    )


def _instead(sample: Sample, wanted: str) -> str:
    from difflib import get_close_matches
    from itertools import islice

    known = {name for tensor in islice(sample.tensors.values(), 20_000) for name in tensor.names[:4]}
    holding = [name for name in known if wanted in name]
    like = sorted(holding, key=len)[:LISTED] or get_close_matches(wanted, known, 3)
    names = f"Like it there are {', '.join(like)}. " if like else ""
    return f"{names}The names are those of `tensortui snapshot {sample.process.pid} --json`."


def text(found: Holders, tensor: Tensor | None = None) -> list[str]:
    """Return what was found as lines, a paragraph a chain."""
    from tensortui.analysis.findings.finding import label
    from tensortui.analysis.holders import WORDS, expression, headline, meaning
    from tensortui.analysis.text import safe

    name = label(tensor) if tensor is not None else f"tensor {found.tensor}"
    lines = [f"{name}: {headline(found)}"]
    for number, chain in enumerate(found.chains, 1):
        lines += ["", f"{number}. {safe(expression(chain, '->'))}"]
        room = max(map(len, (WORDS[step.kind] for step in chain)))
        lines += [f"   {WORDS[step.kind]:<{room}}  {safe(step.label)}" for step in chain]
        told = meaning(chain)
        lines += [f"   {safe(sentence.replace('→', '->'))}" for sentence in (told.means, told.cure)]
    if found.reasons or not found.complete:
        lines += ["", "not everything was searched: " + ("; ".join(map(safe, found.reasons)) or "no reason was given")]
    return lines
