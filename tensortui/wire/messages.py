"""The messages, one builder each side needs, and the columns of the two tables.

Server (agent) to client:
    welcome  first answer: protocol chosen, agent version, pid (the target's own), process {...}, budget
    error    {kind, cause, next_step}; the connection closes after it
    rows     {table, n, values: {column: [new dictionary entries]}} + payload: n * len(columns) int64, row-major.
             Entries go ahead in frames of their own, with n 0, where the rows need many
    gone     {table, n} + payload: n int64 ids
    reset    the dictionaries and both tables start anew (the agent compacts them when they grow too long)
    sample   closes a batch of rows/gone/reset: {seq, taken_at, phase, progress, coverage, cost, process?, request?,
             depths?: [[tensor, nodes of the longest path in the graph behind it]...], of a few with the longest}
    graph    {request, roots, nodes: [[id, name, [next...], leaf|null, [[name, tensor|null, version_saved|null,
             version|null, stale, hook, unpacked by?]...], more of it?]...], made?: [[node, [tensor...]]...], more, cut,
             reasons?: why it is not whole} in chunks; `more` false on the last. Each chunk has some of the nodes, the
             first all the roots; `made` goes on with the tensors of a node that made many. More of a node: {function?:
             module and class of a Function written in Python, freed?: a backward released what it saved, hooks?: on the
             leaf or the node and what it made, retained?: how many of these retain their gradient, cut?: some
             successors are not among the nodes, tensors?: ids of those that it made and the walk started at, held?:
             tensors that it holds and that may be gone before a sample tells of them: [[id, shape|null, strides|null,
             offset|null, dtype|null, device|null, layout|null, flags, address|null and bytes|null of the storage]...]}
    progress {request, text}: how far a search for holders is, any number of times before its answer
    holders  {request, tensor, chains: [[[kind, label]...]...], reasons: why it is not everything, complete}
             Each chain goes from its root to the last holder before the tensor, which is not in it. Kinds that begin a
             chain: global (a module's; "trainer", "pkg.mod.cache"), local (of a running function; "batch @ step()
             train.py:42 [worker]"), class (an attribute of one; "mod.Model.cache"), C++ (what is known of it),
             unreachable (nothing leads there, the collector has not come by), unknown (why the search ended there).
             Kinds that follow: attribute (".logs"), key ("['val']"), index ("[3]"), tuple ("[0]", ".field"), element
             (of a set), closure ("x of make.<locals>.inner()"), default (of a function's argument), generator and
             coroutine (suspended; "rows in produce() data.py:10"), frame (of a function that has ended), traceback
             (of an exception), cache ("lru_cache of load()"), hook, array (of numpy), graph ("saved as self by
             MulBackward0"), gradient (".grad of model.weight"), base ("base of the view x"), object (anything else:
             its type)
    failed   {request, cause, next_step}
    bye      {reason: exit | detached | idle | forked | error, detail}
Client to server:
    hello    {protocols: [lowest, highest], viewer, token}; must come first
    subscribe {interval: seconds|null}   null pauses
    watch    {ids: [...]} at most WATCH_LIMIT: read these first in each sample
    refresh  {request}: read everything anew, then a sample that carries the request
    graph    {request, roots: [ids]|null, limit}: at most ROOTS_LIMIT roots
    holders  {request, tensor: id, limit: chains at most}
    cancel   {request}: give up the search for holders of that name; nothing is answered
    detach   {request?, if_alone?}: end the agent; with if_alone only where no other viewer is connected, else `failed`

A request's name is null, a number or at most 200 characters; ids and numbers are int64. The agent ends the connection
of a client that sends a field of another type or out of range, a second hello, or anything with many brackets.
"""

from typing import Any, Dict, Tuple

PROTOCOLS = (1, 1)  # lowest and highest that this version speaks
WATCH_LIMIT = 512
CHAINS, CHAINS_LIMIT = 8, 64  # of holders: as many as are asked for where nobody says how many, and at most
ROOTS_LIMIT = 3000  # ids of int64 have up to 20 characters: with them a header is under the 64 KiB that an agent reads
NONE = -(1 << 63)  # the int64 that stands for null
# A reason of the coverage until everything was looked through once: names and roles may be missing before.
NOT_YET = "the autograd graph was not looked through yet"

# model.CATEGORIES and model.BACKINGS, in their order (a test compares): what the agent sends are indices into these.
CATEGORIES = ("parameter", "buffer", "optimizer", "gradient", "saved", "activation", "input", "other")
PARAMETER, BUFFER, OPTIMIZER, GRADIENT, SAVED, ACTIVATION, INPUT, OTHER = range(len(CATEGORIES))
BACKINGS = ("memory", "shared", "file", "none")

# kind "int": the number itself. "value": an index into the column's dictionary, whose entries travel once, in order,
# in "values". "bits": an int read as a set of flags.
TENSOR_COLUMNS = (
    ("id", "int"),
    ("storage", "int"),
    ("names", "value"),  # list of strings
    ("type", "value"),  # string
    ("shape", "value"),  # list of ints, or null
    ("strides", "value"),
    ("offset", "int"),
    ("dtype", "value"),  # "float32", without "torch."
    ("device", "value"),  # "cpu", "cuda:0"
    ("layout", "value"),  # "strided", "sparse_coo", ...
    ("bytes", "int"),  # only where it does not follow from shape and dtype, else null
    ("flags", "bits"),  # TENSOR_FLAGS
    ("requires_grad", "int"),
    ("is_leaf", "int"),
    ("version", "int"),
    ("grad_fn", "value"),  # string or null
    ("category", "int"),  # index into model.CATEGORIES
)
# What only the target can tell; the flags that follow from shape and strides are the viewer's to find.
TENSOR_FLAGS = (
    "view",
    "base-only",
    "conj",
    "neg",
    "inference",
    "quantized",
    "nested",
    "sparse",
    "meta",
    "fake",
    "subclass",
    "cpp-only",
)
STORAGE_COLUMNS = (
    ("id", "int"),
    ("device", "value"),
    ("address", "int"),
    ("bytes", "int"),
    ("backing", "int"),  # index into model.BACKINGS
)
COLUMNS: Dict[str, Tuple[Tuple[str, str], ...]] = {"tensors": TENSOR_COLUMNS, "storages": STORAGE_COLUMNS}


def common_protocol(ours: Tuple[int, int], theirs: Any) -> int:
    """Return the highest protocol both sides speak, or 0: `theirs` may be anything that a peer can send."""
    try:
        low, high = int(theirs[0]), int(theirs[1])
    except (TypeError, ValueError, LookupError, OverflowError):
        return 0
    best = min(ours[1], high)
    return best if best >= max(ours[0], low) else 0
