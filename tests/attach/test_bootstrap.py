"""The text that starts the agent: what it holds, how it is cut, and what its imports do."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys

import pytest

from tensortui.attach import bootstrap, loader

ECHO = "import os\n\n\ndef start(options):\n    os.write(1, repr({}).encode())\n    os._exit(0)\n"
LONGEST = 350  # lines of one class: at most 2.5 ms of compile(), all the while the GIL is held


def run(python, source, after="import time; time.sleep(60)"):
    """What a bare interpreter says that runs `source` in its __main__."""
    code = f"{source}\n{after}"
    done = subprocess.run(
        [*python.split(), "-S", "-"], input=code, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_options_arrive(python):
    source = bootstrap.bootstrap_source(
        sources={bootstrap.ENTRY: ECHO.format("[options[key] for key in sorted(options) if key != 'path']")},
        budget=0.02,
        token="secret",
        idle_exit=7.0,
    )
    assert run(python, source) == repr([0.02, 7.0, "secret", bootstrap.VERSION])


def test_socket_paths_are_the_ones_looked_for(python):
    source = bootstrap.bootstrap_source(sources={bootstrap.ENTRY: ECHO.format("options['path']")})
    said = run(python, source)
    for directory in bootstrap.socket_directories():
        assert f"{directory}/tensortui-" in said


def test_private_imports_work_in_every_form_and_stay_private(python):
    entry = """\
import sys
import tensortui.agent.first
import tensortui.agent.first as renamed
from tensortui.agent import second
from tensortui.agent.second import VALUE, later
import os.path, json.decoder

def start(options):
    same = tensortui.agent.first is renamed and renamed.VALUE + VALUE == 3 and second.VALUE == 2 and later() == 1
    ours = [name for name in sys.modules if name.startswith("tensortui")]
    names = [name for name in vars(sys.modules["__main__"]) if not name.startswith("__")]
    os.write(1, repr((same, ours, names, os.path.sep)).encode())
    os._exit(0)
"""
    sources = {
        bootstrap.ENTRY: entry,
        "tensortui.agent.first": "import tensortui.agent.second as second\nVALUE = 1\n",
        "tensortui.agent.second": """\
VALUE = 2


def later():
    from tensortui.agent.first import VALUE
    return VALUE
""",
    }
    said = run(python, bootstrap.bootstrap_source(sources=sources), after="__import__('time').sleep(60)")
    assert said == "(True, [], [], '/')"


def test_second_bootstrap_finds_the_first_agent_and_leaves(python):
    entry = """\
import os, socket, time

def start(options):
    path = options["path"][0]
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    os.write(1, b"x")
    server.accept()
    os.unlink(path)
    time.sleep(0.2)
    os._exit(0)
"""
    source = bootstrap.bootstrap_source(sources={bootstrap.ENTRY: entry})
    assert run(python, source * 5) == "x"


def test_nothing_is_raised_or_said_when_the_agent_cannot_be_compiled(python):
    source = bootstrap.bootstrap_source(sources={bootstrap.ENTRY: "def start(options):\n    pass\n"})
    broken = source.replace(bootstrap._packed_loader(), "AAAA")
    assert broken != source
    assert run(python, broken, after="__import__('time').sleep(0.2); print(dir())").count("tensortui") == 0


def bare(text: str) -> list[tuple[int, str]]:
    """The statements, by their lines, without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, bootstrap.DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body[:1] = [] if node.body[1:] else [ast.Pass(lineno=node.body[0].lineno)]
    return [(node.lineno, ast.dump(node)) for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def test_pieces_are_short_and_make_up_the_whole():
    for name, pieces in bootstrap.agent_sources().items():
        sent = "".join(text for _, text in pieces)
        path = bootstrap.PACKAGE.parent.joinpath(*name.split("."))
        whole = (path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py").read_text()
        assert bare(sent) == bare(whole), name
        at = 1
        for line, text in pieces:
            assert line == at and text.count("\n") <= LONGEST, f"{name}:{line} is too long for one piece"
            at += text.count("\n")
            compile(text, name, "exec")


def test_decorators_stay_with_what_they_decorate():
    text = "x = 1\n" * bootstrap.PIECE_LINES + "@property\n@staticmethod\ndef f():\n    pass\n"
    pieces = bootstrap.pieces(text)
    assert len(pieces) == 2 and pieces[1][1].startswith("@property")


def test_lines_in_tracebacks_are_those_of_the_files():
    modules = loader.Modules({"tensortui.agent.main": [(1, "x = 1\n"), (40, "def f():\n    return 1 / 0\n")]})
    with pytest.raises(ZeroDivisionError) as caught:
        modules.load("tensortui.agent.main").f()
    last = caught.traceback[-1]
    assert (last.frame.code.raw.co_filename, last.lineno + 1) == ("<tensortui.agent.main>", 41)


def test_failed_module_can_be_loaded_again():
    modules = loader.Modules({"tensortui.agent.main": [(1, "import missing_module_of_nobody\n")]})
    for _ in range(2):
        with pytest.raises(ImportError):
            modules.load("tensortui.agent.main")


def test_docstrings_are_not_sent():
    text = '"""Of the module."""\n\nclass Error(Exception):\n    """Of a class\n    of two lines."""\n'
    text += 'def f():\n    """Of a function."""\n    return """no docstring"""\ndef g(): "one line"\n'
    ((_, sent),) = bootstrap.pieces(text)
    assert sent.splitlines() == [
        *("", "", "class Error(Exception):", "    pass", "", "def f():", ""),
        *('    return """no docstring"""', 'def g(): "one line"'),
    ]


def test_text_is_small():
    assert len(bootstrap.bootstrap_source()) < 176 << 10


def test_this_process_has_no_agent():
    assert not [name for name in vars(sys) if "tensortui" in name]


def test_nothing_is_kept_when_the_agent_has_ended():
    modules = loader.Modules({"tensortui.agent.main": [(1, "def f():\n    pass\n")]})
    module = modules.load("tensortui.agent.main")
    modules.forget()
    assert module.__dict__ == {}
    assert not modules._loaded and not modules._sources


def test_none_of_its_classes_outlives_the_agent():
    """`typing` keeps for as long as the process lives what an alias is made of."""
    program = """
import gc, sys, weakref
import torch
from tensortui.attach import bootstrap, loader
sources = bootstrap.agent_sources()
modules = loader.Modules(sources)
names = list(sources)
for name in names:
    modules.load(name)
spaces = [vars(modules.load(name)) for name in names]
found = {one for space in spaces for one in space.values() if isinstance(one, type)}
found = {f"{one.__module__}.{one.__name__}": weakref.ref(one) for one in found if one.__module__ in names}
del spaces
modules.forget()
gc.collect()
print(len(found) > 50, sorted(name for name, ref in found.items() if ref() is not None))
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout == "True []\n"


def test_the_text_is_not_kept_while_the_agent_runs(python):
    entry = """\
import os, sys

def start(options):
    frame, kept = sys._getframe(), []
    while frame is not None:
        for space in (frame.f_locals, frame.f_globals):
            for value in list(space.values()):
                kept += [len(one) for one in ([value] if type(value) in (str, bytes) else ())]
        frame = frame.f_back
    os.write(1, b"%d" % max(kept))
    os._exit(0)
"""
    sources = {bootstrap.ENTRY: entry, "tensortui.agent.other": "NUMBER = 1\n" * 5_000}
    assert int(run(python, bootstrap.bootstrap_source(sources=sources))) < 2_000


def test_an_interrupted_program_still_dies_of_its_signal():
    """`exec` of a string makes CPython forget that the program ends by Ctrl-C, from whatever thread it is called."""
    program = (
        "import atexit, sys, time\n"
        "statement = compile(sys.stdin.read(), '<attach>', 'exec')\n"
        "atexit.register(lambda: (exec(statement), time.sleep(0.5)))\n"
        "raise KeyboardInterrupt\n"
    )
    sources = {"tensortui.agent.main": "def start(options):\n    pass\n"}
    ended = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        input=bootstrap.bootstrap_source(sources=sources),
        capture_output=True,
        text=True,
    )
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")
    assert ended.returncode == -signal.SIGINT
