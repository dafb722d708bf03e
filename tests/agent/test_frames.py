import gc
import subprocess
import sys
import textwrap
import threading
import time
import types
import weakref

from tensortui.agent.frames import Locals, slot_names, thread_names
from tensortui.agent.guard import Alone, DisturbedError, Stillness


class Thing:
    pass


def test_locals_of_a_frame_in_another_thread():
    ready, done = threading.Event(), threading.Event()
    expected = {}

    def work(argument, captured):
        local, number, nothing = Thing(), 7, None

        def inner():
            return captured

        unset = 1
        del unset
        expected.update(argument=argument, captured=captured, local=local, number=number, inner=inner, nothing=nothing)
        ready.set()
        done.wait(10)
        return local, inner

    thread = threading.Thread(target=work, args=(Thing(), Thing()))
    thread.start()
    ready.wait(10)
    reader = Locals()
    with Alone():
        now = Stillness()
        frame = now.frames[thread.ident]
        while frame.f_code is not work.__code__:
            frame = frame.f_back
        found = dict(reader.of(frame, now))
        del frame, now
    done.set()
    thread.join()
    for name, value in expected.items():
        assert found[name] is value
    assert "unset" not in found


def test_reading_keeps_nothing_alive():
    ready, dropped, done = threading.Event(), threading.Event(), threading.Event()
    state = {}

    def work():
        batch = Thing()
        state["ref"] = weakref.ref(batch)
        state["ready"] = True
        ready.set()
        dropped.wait(10)
        del batch
        state["alive"] = state["ref"]() is not None
        done.set()

    reader = Locals()
    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)
    seen = False
    for _ in range(50):
        with Alone():
            now = Stillness()
            frame = now.frames[thread.ident]
            while frame.f_code is not work.__code__:
                frame = frame.f_back
            for name, _value in reader.of(frame, now):
                seen = seen or name == "batch"
            del frame, now, _value
    dropped.set()
    done.wait(10)
    thread.join()
    assert seen
    assert state["alive"] is False


def test_a_frame_that_went_on_is_not_touched():
    """The interval is as short as can be and nothing holds the lock: slots change between any two instructions."""
    stop = []

    def inner(argument):
        local, other = Thing(), [argument]
        return local, other

    def work():
        while not stop:
            inner(Thing())

    reader, interval = Locals(), sys.getswitchinterval()
    thread = threading.Thread(target=work)
    read, refused = 0, 0
    thread.start()
    sys.setswitchinterval(1e-6)
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            now = Stillness()
            frame = now.frames.get(thread.ident)
            if frame is None or frame.f_code is not inner.__code__:
                continue
            try:
                for name, value in reader.of(frame, now):
                    assert type(value) is (list if name == "other" else Thing)
                    read += 1
            except DisturbedError:
                refused += 1
    finally:
        stop.append(True)
        thread.join()
        sys.setswitchinterval(interval)
    assert read
    assert refused


def test_thread_names_come_from_the_table():
    ready, done = threading.Event(), threading.Event()

    def work():
        ready.set()
        done.wait(10)

    thread = threading.Thread(target=work, name="loader \x1b[2J")
    thread.start()
    ready.wait(10)
    names = thread_names()
    done.set()
    thread.join()
    assert names[thread.ident] == "loader \x1b[2J"
    assert names[threading.main_thread().ident] == ""


def test_slot_names_put_cells_behind_plain_variables():
    def outer(a):
        b = 1

        def inner():
            return a, b

        return inner

    assert sorted(slot_names(outer.__code__)) == ["a", "b", "inner"]


PROBE = """
    import sys, threading
    sys.path.insert(0, sys.argv[1])
    from tensortui.agent import frames, guard
    reader = frames.Locals()
    assert reader.usable or (3, 11) <= sys.version_info < (3, 11, 2), reader.reason
    class Thing: pass
    def work(ready, done, a, captured, *rest, key=None, **more):
        x, y, z = Thing(), (1, 2), [3]
        inner = lambda: (captured, x)
        for i in range(3): pass
        expected.update(locals())
        ready.set(); done.wait(10)
        return inner
    def gen():
        g = Thing(); expected["g"] = g
        yield g
    expected = {}
    if reader.usable:
        ready, done = threading.Event(), threading.Event()
        thread = threading.Thread(target=work, args=(ready, done, Thing(), Thing(), 5), kwargs={"key": 1, "other": 2})
        thread.start(); ready.wait(10)
        now = guard.Stillness()
        frame = now.frames[thread.ident]
        while frame.f_code is not work.__code__: frame = frame.f_back
        found = dict(reader.of(frame, now))
        done.set(); thread.join()
        assert set(found) == set(expected), (set(found), set(expected))
        assert all(found[k] is v for k, v in expected.items())
        g = gen(); thing = next(g)
        assert dict(reader.of(g.gi_frame, guard.Stillness()))["g"] is thing
    print("fine")
"""


def test_every_interpreter_calibrates(python, root):
    command = [*python.split(), "-c", textwrap.dedent(PROBE), root]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "fine\n", done.stderr


def test_an_unknown_layout_is_a_reason_and_no_guess(monkeypatch):
    monkeypatch.setattr("tensortui.agent.frames._probe", lambda *_: None)
    reader = Locals()
    assert not reader.usable
    assert reader.reason
    monkeypatch.setattr("tensortui.agent.frames._probe", lambda *_: (24, 8))
    assert not Locals().usable


def test_early_311_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 11, 1, "final", 0))
    assert not Locals().usable


def test_no_frame_of_ours_is_left_to_the_collector():
    """A frame that something refers to keeps what its function, and those that called it, had in hand."""
    gc.collect()
    gc.disable()
    try:
        assert Locals().usable
        left = [one.f_code.co_name for one in gc.get_objects() if type(one) is types.FrameType]
        assert not {"_calibrate", "_check", "_probe"} & set(left)
    finally:
        gc.enable()
