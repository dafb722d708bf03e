"""While the agent is loaded, the collector of the target does not run on its thread, and nobody notices that."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time

import pytest

from tensortui.attach import bootstrap, loader

ENTRY = "tensortui.agent.main"
BUSY = "\n".join(f"class C{number}:\n    def f(self, a=(1, [])):\n        return {{}}\n" for number in range(40))


@pytest.fixture
def settings():
    """The settings that a piece changes, put back whatever a test does."""
    interval, enabled, thresholds = sys.getswitchinterval(), gc.isenabled(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


IDLE = """
import __future__, gc, os, threading, time, typing  # as every program with torch has
me, runs = threading.get_ident(), []
gc.collect()
gc.callbacks.append(lambda phase, info: runs.append(threading.get_ident()) if phase == "start" else None)
gc.set_threshold(50)
"""
ASK = """
import os, sys

def start(options):
    there = vars(sys.modules["__main__"])
    os.write(1, repr(sum(one != there["me"] for one in there["runs"])).encode())
    os._exit(0)
"""


def test_hardly_a_collection_runs_on_the_thread_that_loads_the_agent(python):
    """The program sleeps, so whatever is due is run by whoever makes something next."""
    names = [f"tensortui.agent.part{number}" for number in range(20)]
    entry = "".join(f"import {name}\n" for name in names) + ASK
    sources = {ENTRY: entry, **dict.fromkeys(names, BUSY + "\n" * 40 + BUSY)}
    code = f"{IDLE}\n{bootstrap.bootstrap_source(sources=sources)}\ntime.sleep(60)"
    said = subprocess.run(
        [*python.split(), "-S", "-"], input=code, capture_output=True, text=True, timeout=60, check=False
    )
    assert said.stderr == ""
    assert int(said.stdout) <= 4  # the first of the text that is run, and what the entry makes


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "text",
    [BUSY, BUSY + "\n1 / 0\n", BUSY + "\n)\n", "import missing_module_of_nobody\n"],
    ids=["whole", "raises", "syntax", "import"],
)
def test_the_settings_of_the_target_are_put_back(settings, enabled, text):
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(10)
    sys.setswitchinterval(0.001234)
    before = sys.getswitchinterval()
    runs = []
    count = lambda phase, info: runs.append(threading.get_ident())  # noqa: E731
    modules = loader.Modules(
        {ENTRY: [(1, "import tensortui.agent.other\n"), (2, BUSY)], "tensortui.agent.other": [(1, text)]}
    )
    gc.callbacks.append(count)
    try:
        modules.load(ENTRY)
    except (ArithmeticError, SyntaxError, ImportError):
        assert text != BUSY
    finally:
        gc.callbacks.remove(count)
    assert (gc.isenabled(), sys.getswitchinterval()) == (enabled, before)
    assert not loader.PIECE.open
    if text == BUSY:
        assert threading.get_ident() not in runs


def test_other_threads_hardly_ever_see_the_collector_asleep(settings):
    """One that did not get a processor for long may; a lock that is given up within a piece shows each time."""
    gc.enable()
    asleep, stop = [], []

    def look():
        while not stop:
            if not gc.isenabled():
                asleep.append(1)
                time.sleep(0)

    names = [f"tensortui.agent.part{number}" for number in range(60)]
    sources = {ENTRY: [(1, "".join(f"import {name}\n" for name in names))], **{name: [(1, BUSY)] for name in names}}
    thread = threading.Thread(target=look)
    thread.start()
    try:
        loader.Modules(sources).load(ENTRY)
    finally:
        stop.append(1)
        thread.join()
    assert len(asleep) <= len(names) / 4


def test_what_the_target_has_to_import_finds_its_own_settings(settings, tmp_path, monkeypatch):
    """It reads files, which gives up the lock, and runs code of the target."""
    (tmp_path / "module_of_the_target.py").write_text(
        "import gc, sys\nSEEN = gc.isenabled(), sys.getswitchinterval()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    gc.enable()
    before = sys.getswitchinterval()
    text = "import gc, sys\nfrom module_of_the_target import SEEN\nHERE = gc.isenabled(), sys.getswitchinterval()\n"
    try:
        module = loader.Modules({ENTRY: [(1, text)]}).load(ENTRY)
    finally:
        sys.modules.pop("module_of_the_target", None)
    seen, here = module.SEEN, module.HERE
    assert (seen, here) == ((True, before), (False, loader.ALONE))


def test_a_module_that_another_thread_is_importing_is_waited_for(monkeypatch):
    half = type(sys)("half_a_module")
    half.__spec__ = type("Spec", (), {"_initializing": True})()
    half.value = 1
    monkeypatch.setitem(sys.modules, "half_a_module", half)
    assert not loader.is_there("half_a_module", ("value",))
    half.__spec__._initializing = False
    assert loader.is_there("half_a_module", ("value",))
    assert not loader.is_there("half_a_module", ("other",))
    assert not loader.is_there("os.path", ())
