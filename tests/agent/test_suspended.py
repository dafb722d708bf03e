"""The variables of coroutines that wait: called by their tasks for as long as these wait, with nothing run."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tensortui.agent import suspended

SERVER = """
import asyncio, sys, threading, torch
TOUCHED = []
class Loud(asyncio.Task):
    def get_coro(self): TOUCHED.append("get_coro"); return super().get_coro()
    def get_name(self): TOUCHED.append("get_name"); return super().get_name()
async def inner(size):
    answer = torch.zeros(size, 2)
    await asyncio.Event().wait()
    return answer
async def handle(size):
    state = {"x": torch.zeros(size)}
    return await inner(size), state
async def once():
    brief = torch.zeros(7)
    await asyncio.sleep(0)
    return brief.sum()
async def work(order):
    held = torch.zeros(9)
    while await order.get():
        held = torch.zeros(9)
async def main():
    loop, order = asyncio.get_running_loop(), asyncio.Queue()
    tasks = [asyncio.create_task(handle(size), name="client:%d" % size) for size in (3, 4)]
    tasks += [asyncio.create_task(work(order), name="work"), asyncio.create_task(once())]
    tasks.append(Loud(handle(5), loop=loop, name="loud"))
    await tasks[-2]
    print("READY", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        await eval(line)
        await asyncio.sleep(0)
        print("DONE", flush=True)
START_AGENT
asyncio.run(main())
"""


def run(process: Any, line: str) -> None:
    process.stdin.write(line + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "DONE\n"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython 3.14 keeps its tasks in C")
def test_variables_of_tasks_that_wait_are_named(program: Any, connect: Any) -> None:
    process, path = program(SERVER)
    client = connect(path)

    def names() -> list[str]:
        client.refresh()
        return sorted(name for row in client.tables["tensors"].values() for name in row["names"])

    told = [name.partition(" @ ")[0] + " @" + name.partition(" @ ")[2].partition("() ")[2][-11:] for name in names()]
    assert len(told) == 5
    for size in (3, 4):
        ours = [name for name in names() if name.endswith(f" [client:{size}]")]
        assert [name.partition(" @ ")[0] for name in ours] == ["answer", "state['x']"]
        assert " @ inner() " in ours[0] and " @ handle() " in ours[1]
    assert [name for name in names() if name.endswith(" [work]")] != []
    assert not [name for name in names() if "brief" in name or "loud" in name]
    run(process, "order.put(1)")
    assert len([name for name in names() if name.endswith(" [work]")]) == 1
    run(process, "asyncio.sleep(0, tasks[0].cancel())")
    run(process, "asyncio.sleep(0, TOUCHED and 1/0)")
    assert not [name for name in names() if name.endswith(" [client:3]")]


def test_where_asyncio_was_not_imported_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended.sys, "modules", {})
    assert suspended.frames() == ([], True)
    assert suspended.find(1) is None
