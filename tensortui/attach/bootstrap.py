"""The text that starts the agent in a process: one statement of Python that carries the agent's modules.

It is run in `__main__` of the target (PyRun_SimpleString, sys.remote_exec) or in this very process, so it assigns no
name: a private dict holds whatever it needs. All it does where it is run is to start a raw thread; the rest happens in
that thread, in small pieces.
"""

from __future__ import annotations

import ast
import base64
import functools
import marshal
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensortui.version import VERSION

PACKAGE = Path(__file__).resolve().parent.parent
SENT_PACKAGES = ("tensortui", "tensortui.wire", "tensortui.agent")
ENTRY = "tensortui.agent.main"
PIECE_LINES = 150
MARSHAL_VERSION = 2  # understood by every Python 3
IDLE_EXIT_SECONDS = 60.0

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Pieces = list[tuple[int, str]]

# Everything is compiled before it is run: `exec` of text makes CPython forget, for the whole process, that a Ctrl-C
# ended the program, and it would exit with status 1 instead of dying of the signal.
# Run with a dict of its own for its names. An interrupt that arrives just here belongs to the program.
# `load` does for the loader what its `Piece` does for the modules; why is said there.
START = """\
def unpack(packed):
    return __import__("zlib").decompress(__import__("binascii").a2b_base64(packed))
def load(names, text, *packed):
    import gc, marshal, sys, time
    time.sleep(0.0005)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.02)
    collecting = gc.isenabled()
    gc.disable()
    try:
        exec(compile(text, "<tensortui.attach.loader>", "exec"), names)
        return [marshal.loads(each) for each in packed]
    finally:
        sys.setswitchinterval(interval + 5e-7)
        if collecting:
            gc.enable()
def run():
    names = globals()
    try:
        import __future__, typing  # not in a piece: it may read files
        given = load(names, *[unpack(names.pop(each)) for each in ("loader", "modules", "payload")])
        begin(*given)
    except BaseException:
        pass
    names.clear()
try:
    __import__("_thread").start_new_thread(run, ())
except RuntimeError as error:
    exec(compile(unpack(loader), "<tensortui.attach.loader>", "exec"), globals())
    report("no thread could be started: %s" % error, __import__("marshal").loads(unpack(payload)))
"""
STATEMENT = """\
try:
    __import__("builtins").exec(compile({start!r}, "<tensortui.attach>", "exec"), \
{{"__name__": "_tensortui", "loader": b"{loader}", "modules": b"{modules}", "payload": b"{payload}"}})
except KeyboardInterrupt:
    __import__("_thread").interrupt_main()
except BaseException:
    pass
"""


def socket_directories() -> list[str]:
    """The directories in which an agent puts its own, the first choice first, as the target sees them."""
    if sys.platform == "linux":
        return ["/tmp", "/dev/shm", "/var/tmp"]
    return [tempfile.gettempdir(), "/tmp"]  # the first may be one user's alone, and not the target's


def bootstrap_source(
    *,
    budget: float = 0.01,
    token: str | None = None,
    idle_exit: float = IDLE_EXIT_SECONDS,
    report_address: int | None = None,
    report_path: str | None = None,
    sources: Mapping[str, str] | None = None,
) -> str:
    """Return the text that starts the agent in the process that runs it.

    The agent may use `budget` of the process's time and ends `idle_exit` seconds after its last viewer left. Should it
    be unable to start, it says why at `report_address` of the process's memory, else in the file `report_path`.
    `sources` replaces the modules that are sent (by name; ENTRY is the one whose `start(options)` is called).
    """
    payload = {
        "entry": ENTRY,
        "directories": socket_directories(),
        "options": {"token": token or "", "budget": budget, "version": VERSION, "idle_exit": idle_exit},
        "report_address": report_address,
        "report_path": report_path,
    }
    sent = {name: pieces(text) for name, text in sources.items()} if sources else None
    return STATEMENT.format(
        start=START,
        loader=_packed_loader(),
        modules=_packed_agent() if sent is None else _packed(sent),
        payload=_packed(payload),
    )


def _packed(value: Any) -> str:
    return _text(marshal.dumps(value, MARSHAL_VERSION))


def _text(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")


@functools.cache
def _packed_loader() -> str:
    return _text((PACKAGE / "attach" / "loader.py").read_bytes())


@functools.cache
def _packed_agent() -> str:
    return _packed(agent_sources())


def agent_sources() -> dict[str, Pieces]:
    """The modules that are sent: tensortui.agent and tensortui.wire, each in pieces."""
    sources = {}
    for package in SENT_PACKAGES[1:]:
        for path in sorted((PACKAGE / package.rpartition(".")[2]).glob("*.py")):
            name = package if path.stem == "__init__" else f"{package}.{path.stem}"
            sources[name] = pieces(path.read_text(encoding="utf-8"))
    return sources


def pieces(text: str) -> Pieces:
    """Cut a module's source between top-level statements, into (first line, text) of about PIECE_LINES at most.

    What only people read of it, the docstrings, is left empty: each line keeps its number.
    """
    lines = text.splitlines()
    tree = ast.parse(text)
    _leave_out_docstrings(tree, lines)
    starts = []
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        starts.append(min([node.lineno, *(decorator.lineno for decorator in decorators)]))
    cut: Pieces = []
    first = 1
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(lines) + 1
        if start > first and end - first > PIECE_LINES:
            cut.append((first, "\n".join(lines[first - 1 : start - 1]) + "\n"))
            first = start
    cut.append((first, "\n".join(lines[first - 1 :]) + "\n"))
    return cut


def _leave_out_docstrings(tree: ast.Module, lines: list[str]) -> None:
    todo: list[ast.AST] = [tree]
    while todo:  # ast.walk goes through all expressions too: that took 50 ms of each attach
        node = todo.pop()
        if not isinstance(node, DOCUMENTED):
            continue
        todo += node.body
        if ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0]
        if lines[text.lineno - 1][: text.col_offset].strip():
            continue  # it shares its line with what must stay
        lines[text.lineno - 1 : text.end_lineno] = [""] * ((text.end_lineno or text.lineno) - text.lineno + 1)
        if len(node.body) == 1:  # an exception's class, say, has nothing else
            lines[text.lineno - 1] = " " * text.col_offset + "pass"
