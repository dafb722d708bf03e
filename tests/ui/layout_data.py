"""Tensors whose layouts tell something, for the tests of the Layout screen."""

from __future__ import annotations

from dataclasses import replace

from ui_data import MIB, Build

from tensortui.analysis.accounting import Accounts
from tensortui.model import Sample
from tensortui.ui.looking import Look

X, XT, HEAD, STEPS, ROW, MASK, WINDOWS, SPARSE, PAIRS, BATCH = range(1, 11)


def layouts() -> Sample:
    """A tensor and its views, a small view of a large storage, an expanded one, windows, one without strides."""
    b = Build()
    storage = b.storage(8192, "cpu")
    b.add("x", (64, 32), device="cpu", storage=storage, category="input")
    b.add("x.t()", (32, 64), device="cpu", storage=storage, strides=(1, 32), flags=("view",))
    b.add("head @ step() train.py:12", (2, 32), device="cpu", storage=storage, flags=("view",), category="activation")
    b.add("x[:, ::3]", (64, 11), device="cpu", storage=storage, strides=(32, 3), flags=("view",))
    b.add("row", (4096,), device="cpu", storage=b.storage(64 * MIB, "cpu"), offset=20480, flags=("view",))
    b.add("mask", (4096, 16384), storage=b.storage(65536), strides=(0, 1))
    b.add("windows", (13, 4), device="cpu", storage=b.storage(64, "cpu"), strides=(1, 1))
    b.add("graph.adjacency", (100, 100), device="cpu")
    b.tensors[SPARSE] = replace(b.tensors[SPARSE], strides=None, offset=None, layout="sparse_coo", flags=("sparse",))
    b.add("packed", (6, 5), "quint4x2", "cpu")
    b.add("batch", (8, 64, 56, 56), "float16", category="input")
    return b.sample()


def imports() -> Sample:
    """Two tensors over one array of 100 numbers, each with a storage of its own: the first 60, the last 60."""
    b = Build()
    b.add("first", (60,), device="cpu", storage=b.storage(240, "cpu"))
    b.add("last", (60,), device="cpu", storage=b.storage(240, "cpu"))
    b.storages[2] = replace(b.storages[2], address=(b.storages[1].address or 0) + 160)
    return b.sample()


def look_at(tid: int, index: tuple[int, ...] | None = None, sample: Sample | None = None) -> Look:
    sample = sample or layouts()
    look = Look(sample.tensors[tid])
    assert look.take(sample, Accounts(sample))
    if index is not None:
        look.go(index)
    return look
