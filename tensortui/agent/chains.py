"""What a search for holders found, as chains of words from a root down to the tensor."""

from typing import Any, Dict, Generator, List, Set, Tuple

from tensortui.agent import labels
from tensortui.agent.census import SEPARATOR, Census, Tracked
from tensortui.agent.holders import Down, Node, Search
from tensortui.agent.links import Link
from tensortui.wire.messages import CHAINS_LIMIT, GRADIENT

MOST, LONGEST = CHAINS_LIMIT, 48
MOST_VIEWS = 2  # of which a tensor is said to be the base
FEW = 200  # tensors that are looked at between two pieces
MOST_PATHS, MOST_WAYS = 2_000, 8  # that are looked at in all, and by which one object is come to
SUFFIX = ".grad"  # of a gradient's name, and of an attribute of any object
LOST = "unreachable"
UNREACHABLE = "nothing of the program leads there: the garbage collector frees it when it comes by"
NOT_PYTHON = "%d of its %d references were not found in Python objects: C++ code, or a call that is running"

Step = Tuple[str, str]
UNKNOWN: Step = ("unknown", "no variable was found that holds this graph")
Chain = List[Step]
# From the tensor up: each holder, and how it leads to the one before. As text: typing keeps what it is given.
Path = List[Tuple["Node", "Link"]]
Paths = Tuple[List[Chain], List[Path]]  # chains from what the program reaches, and the ways up that end before that


def chains_of(
    search: Search,
    target: Node,
    paths: Paths,
    tracked: Tracked,
    census: Census,
    most: int,
    behind: Dict[int, List[Chain]],
    whole: bool,
) -> Generator[None, None, List[Chain]]:
    """Return at most `most` different chains, those that begin at something that the program reaches first.

    `paths` are those of `paths_of`. `behind` has those that lead through the autograd graph, by the address they lead
    to: all of them where the graph was read as a `whole`. Yields between pieces.
    """
    found, ends = list(paths[0]), paths[1]
    for chain in behind.get(target.address, ()):
        _add(found, chain)
    for path in ends:
        for chain in behind.get(path[-1][0].address, ()):
            _add(found, [*chain, *steps_of(path, "")])
    if not whole and target.address not in behind and (tracked.saved_as or tracked.saved):
        _add(found, [UNKNOWN, ("graph", tracked.saved_as or "saved for backward")])
    for step in (yield from _of_torch(tracked, census)):
        _add(found, [step])
    for path in ends:
        if path[-1][0].address not in behind:
            _add(found, [_end(path[-1][0], search.cut), *steps_of(path, "")])
    # What the collector does not know is not counted to what was found.
    counted = target.lost or any(path[0][0].plain for path in ends)
    if not search.cut and (not found or (all(chain[0][0] == LOST for chain in found) and not counted)):
        found.insert(0, [_end(target, False)])  # once these circles are freed it is still held
    return found[:most]


def missing(target: Node, ends: List[Path]) -> List[int]:
    """Return the addresses of what not all holders were found of, the tensor's own among them."""
    nodes = [target, *(path[-1][0] for path in ends)]
    return list(dict.fromkeys(node.address for node in nodes if node.seen < node.references or node.hooks))


def paths_of(search: Search, target: Node) -> Generator[None, None, Paths]:
    """Return the chains that begin at something that the program reaches, and the ways up that end before that.

    A way does not end where all that holds the last of it is on it already: what leads there leads to the tensor too,
    by another way. But of what nothing leads to that is the end, of one way for each by which it holds the tensor.

    Yields between the objects and between the ways: of objects that refer to one another there are very many.
    """
    found: List[Chain] = []
    ends: List[Path] = []
    holders = yield from _holders(search)
    tops = yield from _tops(search, holders)
    todo: List[Path] = [[]]
    lost: List[Path] = []  # those that come to what nothing leads to: told last, for what leads there is in a circle
    for root in target.roots:
        _add(found, [root])
    times: Dict[int, int] = {}  # objects that refer to each other would be gone through in every order
    left = MOST_PATHS
    while (todo or lost) and left and len(found) + len(ends) < MOST:
        yield
        left -= 1
        path = (todo or lost).pop(0)
        last = path[-1][0] if path else target
        times[last.address] = times.get(last.address, 0) + 1
        if times[last.address] > MOST_WAYS:
            continue
        for root in last.roots if path else ():
            _add(found, [root, *steps_of(path, root[0])])
        if path and last.roots:
            continue
        if path and (last.lost or last.address in tops):
            ends.append((yield from _closed(path, target, holders)) if last.lost else path)
            continue
        on = _on(path, target)
        above = [one for one in holders.get(last.address, ()) if one[0].address not in on]
        if len(path) < LONGEST and len(todo) + len(lost) < MOST_PATHS:
            for one in sorted(above, key=lambda one: one[0].lost)[:MOST]:
                (lost if one[0].lost else todo).append([*path, one])
    search.cut = search.cut or bool(todo or lost)
    return found, ends


def _add(found: List[Chain], chain: Chain) -> None:
    if chain not in found:
        found.append(chain)


def _on(path: Path, target: Node) -> Set[int]:
    return {target.address, *(node.address for node, _ in path)}


def _holders(search: Search) -> Generator[None, None, Dict[int, Path]]:
    """Return for addresses what was found to hold what is there."""
    found: Dict[int, Path] = {}
    for node in list(search.nodes.values()):
        yield
        for down in () if node.size else _down(node):
            found.setdefault(down.held.address, []).append((node, down.link))
    return found


def _down(node: Node) -> "List[Down]":
    """Return what a node leads to. Hooks and references that were counted are certain, what the collector does not know
    is not."""
    if not node.plain:
        return node.down
    return [down for down in node.down if not down.held.hooks and down.held.seen < down.held.references]


def _tops(search: Search, holders: Dict[int, Path]) -> Generator[None, None, Set[int]]:
    """Return the addresses at which a way up ends: nothing was found to hold what is there, or not all that does.

    The latter only in a circle that is come to from nowhere else. If all holders of all that is in it were found, it is
    certain that nothing leads to it: that is noted, as `lost`.
    """
    every = [node for node in search.nodes.values() if not node.size]
    ends = [node for node in every if node.address not in holders and not node.roots and not node.plain]
    led: Set[int] = set()
    yield from _lead([*ends, *(node for node in every if node.roots)], led)
    rest = [node for node in every if node.address not in led and node.address in holders]
    unclear = [node for node in rest if not node.plain and (node.seen < node.references or node.hooks)]
    yield from _lead(unclear, led)
    for node in every:
        node.lost = node.address in holders and node.address not in led and node.seen >= node.references
    return {node.address for node in (*ends, *unclear)}


def _lead(nodes: "List[Node]", led: Set[int]) -> Generator[None, None, None]:
    """Add the addresses of some nodes to `led`, and of all that they lead to."""
    todo = list(nodes)
    led.update(node.address for node in nodes)
    while todo:
        yield
        for down in _down(todo.pop()):
            if down.held.address not in led:
                led.add(down.held.address)
                todo.append(down.held)


def _closed(path: Path, target: Node, holders: Dict[int, Path]) -> Generator[None, None, Path]:
    """Return a way up to what nothing leads to, gone on with until it comes to what is on it already."""
    todo, met = [path], _on(path, target)
    while todo:
        yield
        path = todo.pop(0)
        on = _on(path, target)
        above = [one for one in holders[path[-1][0].address] if one[0].address in holders]
        if any(one[0].address in on for one in above):
            break
        for one in above:
            if one[0].address not in met:
                met.add(one[0].address)
                todo.append([*path, one])
    return path


def _end(node: Node, cut: bool) -> Step:
    """Return what is said of a node that nothing was found to hold."""
    absent = node.references - node.seen
    if node.hooks:
        return "hook", "%s in an autograd graph" % next(iter(node.hooks.values()))
    if node.lost:
        return LOST, UNREACHABLE
    if cut or absent <= 0:
        return "unknown", "the search ended here"
    return "C++", NOT_PYTHON % (absent, node.references)


def _of_torch(tracked: Tracked, census: Census) -> Generator[None, None, List[Step]]:
    """Return in which ways torch holds the tensor without its graph, as far as that is known by the census.

    Yields between pieces: the views are looked for among all tensors.
    """
    found: List[Step] = []
    for name in tracked.names.split(SEPARATOR) if tracked.found == GRADIENT else ():
        if name.endswith(SUFFIX):
            found.append(("gradient", name))
    views, most = 0, min(tracked.views, MOST_VIEWS)
    for place, other in enumerate(list(census.by_id.values()) if most else ()):
        if not place % FEW:
            yield
        if other.base == tracked.id:
            name = other.names.partition(SEPARATOR)[0]
            found.append(("base", "base of the view %s" % (name or "without a name")))
            views += 1
            if views == most:
                break
    return found


def steps_of(path: Path, root: str) -> Chain:
    """Return the steps from the root down, with what says nothing of its own left out."""
    steps: Chain = []
    links = [link for _, link in reversed(path)]
    place = 0
    while place < len(links):
        link, place = links[place], place + 1
        if link.kind == "" or (link.kind == "class" and root == "class" and not steps):
            steps += _member(links, place)
            place += 1
        elif link.kind == "closure" and place + 1 < len(links) and links[place + 1].kind == "cell":
            steps.append(("closure", "%s of %s" % (_cell(link, links[place]), link.label)))
            place += 2
        elif link.kind == "cell":
            steps.append(("object", "cell"))
        else:
            steps.append((link.kind, link.label))
    return steps


def _member(links: List[Link], place: int) -> Chain:
    """Return the entry of an attribute dictionary as the attribute that it is."""
    if place >= len(links):
        return []
    link = links[place]
    text = link.label[2:-2]
    if link.kind == "key" and link.label == "['%s']" % text and text.isidentifier():
        return [("hook" if text.endswith("_hooks") else "attribute", labels.attribute(text))]
    return [(link.kind, link.label)]


def _cell(link: Link, index: Link) -> str:
    number = index.label[1:-1]
    return link.names[int(number)] if number.isdigit() and int(number) < len(link.names) else "a variable"


def answer(header: Dict[str, Any], chains: List[Chain], reasons: List[str], complete: bool) -> Dict[str, Any]:
    """Return the `holders` message."""
    return {
        "t": "holders",
        "request": header["request"],
        "tensor": header["tensor"],
        "chains": chains,
        "reasons": reasons,
        "complete": complete,
    }
