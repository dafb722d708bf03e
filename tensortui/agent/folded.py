"""Steps of chains that only together say something to a reader: those through the interpreter's own parts."""

from typing import List, Tuple

from tensortui.agent import labels
from tensortui.agent.links import LOCAL, NODES

Step = Tuple[str, str]
Chain = List[Step]

CONTEXT = ("object", "Context")
IMPORTING = "<frozen importlib."


def folded(chains: List[Chain]) -> List[Chain]:
    """Return the chains with such steps made one; those that then read the same are told once."""
    found: List[Chain] = []
    for chain in chains:
        short = _fold(chain)
        if short not in found:
            found.append(short)
    return found


def _fold(chain: Chain) -> Chain:
    steps: Chain = []
    place = 0
    while place < len(chain):
        step, rest = chain[place], chain[place + 1 :]
        frames = _importing(chain[place:])
        if _is_node(step) or (step == CONTEXT and rest and _is_node(rest[0])):
            place += 1
        elif step == ("object", LOCAL) and len(rest) > 1 and rest[0][0] == "key":
            steps.append(_of_thread(rest[1], rest[0][1][1:-1]))
            place += 3
        elif frames > 1:
            steps.append(("frame", "in an import: %d frames" % frames))
            place += frames
        else:
            steps.append(step)
            place += 1
    return steps


def _is_node(step: Step) -> bool:
    return step[0] == "object" and step[1] in NODES


def _of_thread(step: Step, thread: str) -> Step:
    """Return the entry of the attributes that a thread-local has in one thread as the attribute that it is."""
    text = step[1][2:-2]
    plain = step[1] == "['%s']" % text and text.isidentifier()
    return "attribute", (labels.attribute(text) if plain else step[1]) + labels.IN_FRAME + thread


def _importing(chain: Chain) -> int:
    """Return how many of the first steps are frames of the import machinery, for themselves alone."""
    count = 0
    for kind, label in chain:
        if kind != "frame" or not label.startswith("in ") or IMPORTING not in label:
            break
        count += 1
    return count
