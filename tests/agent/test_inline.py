"""Attributes that lie beside their object are read in place: nothing is made, and no code of the program runs."""

import functools
import gc
import sys
import threading

import pytest

from tensortui.agent import containers, frames, inline

IN_PLACE = pytest.mark.skipif(sys.version_info < (3, 11), reason="all objects have dictionaries")


class Plain:
    shared = 1

    def __init__(self):
        self.first, self.shared, self.second = [1], [2], 3

    def method(self):
        raise AssertionError("code of the program ran")


def test_this_interpreter_keeps_attributes_where_they_are_looked_for():
    assert inline.LAYOUT.usable


@IN_PLACE
def test_what_is_read_is_what_is_there_and_nothing_is_made():
    one = Plain()
    del one.second
    one.late = "x"
    assert list(containers.instance_dict(one).items()) == [("first", [1]), ("shared", [2]), ("late", "x")]
    assert containers.instance_dict(one)["first"] is one.first
    before = len(gc.get_objects())
    many = [Plain() for _ in range(500)]
    assert all(list(containers.instance_dict(one)) == ["first", "shared", "second"] for one in many)
    assert len(gc.get_objects()) < before + 500 * 3 + 100  # each has two lists; a dictionary would be one more
    assert not any(map(inline.LAYOUT.has_dictionary, many))
    space = one.__dict__
    assert inline.LAYOUT.has_dictionary(one)
    assert containers.instance_dict(one) is space


def test_no_descriptor_of_a_class_is_run():
    class Told:
        def __get__(self, *_):
            raise AssertionError("code of the program ran")

    one = Plain()
    one.method, one.told = [4], [5]
    Plain.told = Told()
    try:
        assert inline.attribute(one, "told") is None
        assert inline.attribute(one, "method") is None
        assert inline.attribute(one, "first") == [1]
        assert inline.attribute(one, "missing") is None
        assert set(containers.instance_dict(one)) >= {"first", "shared", "second"}
    finally:
        del Plain.told


def test_what_only_the_class_has_is_none_of_the_object():
    class Common:
        common = (1,)

    own, none, same = Common(), Common(), Common()
    own.common, own.mine, none.mine, same.common = [2], [3], [4], Common.common
    assert [containers.instance_dict(one) for one in (own, none)] == [{"common": [2], "mine": [3]}, {"mine": [4]}]
    assert containers.instance_dict(same)["common"] is Common.common


def test_an_object_without_attributes_gets_no_dictionary():
    class Empty:
        pass

    one = Empty()
    before = sys.getsizeof(one), gc.get_referents(one)
    assert containers.instance_dict(one) is None
    assert (sys.getsizeof(one), gc.get_referents(one)) == before
    assert not inline.LAYOUT.has_dictionary(one)


def test_classes_of_all_kinds():
    class Slotted(Plain):
        __slots__ = ("place",)

    class FromC(functools.partial):
        pass

    class Error(Exception):
        pass

    slotted, from_c, error = Slotted(), FromC(print, [1]), Error()
    slotted.place, from_c.extra, error.note = [6], [7], [8]
    assert containers.instance_dict(slotted) == {"first": [1], "shared": [2], "second": 3}
    assert [(name, value) for _, name, value in containers.slots(slotted)] == [("place", [6])]
    assert containers.instance_dict(from_c) == {"extra": [7]}
    assert containers.instance_dict(error) == {"note": [8]}
    assert containers.instance_dict(object()) is None
    assert inline.attribute(threading.current_thread(), "_name") == threading.current_thread().name


def test_a_slot_of_another_class_is_none_of_the_object():
    class Base:
        __slots__ = ("x",)

    class Odd:
        __slots__ = ("y",)
        x = Base.x

    odd = Odd()
    odd.y = [1]
    assert [(name, value) for _, name, value in containers.slots(odd)] == [("y", [1])]


@IN_PLACE
def test_the_names_of_threads_are_read_in_place():
    ready, done = threading.Event(), threading.Event()

    def wait():
        ready.set()
        done.wait(30)

    thread = threading.Thread(target=wait, name="worker")
    thread.start()
    try:
        ready.wait(30)
        assert not inline.LAYOUT.has_dictionary(thread)
        assert frames.thread_names()[thread.ident] == "worker"
        assert not inline.LAYOUT.has_dictionary(thread)
    finally:
        done.set()
        thread.join()
