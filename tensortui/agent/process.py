"""What the target says of itself: command line, versions, rank."""

import functools
import os
import sys
from types import BuiltinFunctionType
from typing import Any, Dict, List, Optional


@functools.lru_cache(maxsize=1)
def command() -> List[str]:
    """Return the command line as the kernel knows it, else as Python does; read once, as reading gives up the GIL."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            words = file.read(65536).split(b"\0")[:-1]
        return [os.fsdecode(word)[:4096] for word in words[:256]]
    except OSError:
        return [str(word)[:4096] for word in getattr(sys, "argv", [])[:256] if type(word) is str]


def _number(name: str) -> Optional[int]:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() and len(text) < 9 else None


def describe(torch: Any) -> Dict[str, Any]:
    """Return the `process` object of the wire; `torch` None where it is not imported yet."""
    version = vars(torch).get("__version__") if torch is not None else None
    cuda = vars(vars(torch)["version"]).get("cuda") if torch is not None and "version" in vars(torch) else None
    return {
        "pid": os.getpid(),
        "command": command(),
        "python": "%d.%d.%d" % tuple(sys.version_info[:3]),
        "torch": None if version is None else str(version),
        "cuda": None if cuda is None else str(cuda),
        "rank": _number("RANK"),
        "local_rank": _number("LOCAL_RANK"),
        "world_size": _number("WORLD_SIZE"),
    }


def audited() -> bool:
    """Whether the interpreter has audit hooks, asked without calling any of them.

    An event that is no string is only refused where there are some; from Python 3.14 on it is refused anyhow, in other
    words, and the answer is no.
    """
    audit: Any = sys.audit
    try:
        if type(audit) is BuiltinFunctionType:  # the program may have put something else in its place
            audit(None)
    except TypeError as error:
        return str(error).startswith("expected str")
    return False


def loaded_torch() -> Any:
    """Return torch once its import is over, else None; never imports it, never runs its lazy attributes."""
    torch = sys.modules.get("torch")
    if torch is None or type(torch) is not type(sys):
        return None
    names = vars(torch)
    spec = names.get("__spec__")
    if spec is None or getattr(spec, "_initializing", False):
        return None
    optim = sys.modules.get("torch.optim")
    ready = "_C" in names and "Tensor" in names and "nn" in names and optim is not None
    return torch if ready and "Optimizer" in vars(optim) else None
