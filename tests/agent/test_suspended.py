"""The variables of coroutines that wait: called by their tasks for as long as these wait, with nothing run."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from tensortui.agent import suspended
from tensortui.agent.variables import TASKS

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


MANY = """
import asyncio, sys, threading, torch
order = threading.Event()
def work():
    mine = torch.zeros(6)
    while not order.wait(0.002): mine = torch.zeros(6)
threading.Thread(target=work, daemon=True).start()
async def wait(size):
    held = torch.zeros(size)
    await asyncio.Event().wait()
async def main():
    tasks = [asyncio.create_task(wait(at + 1)) for at in range(90)]
    await asyncio.sleep(0)
    print("READY", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
START_AGENT
asyncio.run(main())
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython 3.14 keeps its tasks in C")
def test_very_many_tasks_take_nothing_from_what_threads_hold(program: Any, connect: Any) -> None:
    _, path = program(MANY)
    client = connect(path)
    client.refresh()
    client.send({"t": "subscribe", "interval": 0.1})
    found = 0
    while found < 5:  # another tensor is there every 2 ms: on a busy machine not every sample comes upon it
        header = client.until("sample")
        names = [name for row in client.tables["tensors"].values() for name in row["names"]]
        found += len([name for name in names if name.startswith("mine @ work() ")]) == 1
        assert not [name for name in names if name.startswith("held @ ")]
    assert TASKS in header["coverage"]["reasons"]


def test_another_task_with_a_frame_at_the_same_address_is_not_taken_for_it() -> None:
    async def held() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        first, second = (asyncio.create_task(held(), name=name) for name in ("first", "second"))
        await asyncio.sleep(0)
        found = suspended.frames(lambda code: code.co_name == "held")
        assert found is not None
        places = {name: (ref, id(frame)) for name, ref, frame in found}
        assert set(places) == {"first", "second"}
        (one, at), (_, other) = places["first"], places["second"]
        assert suspended.find(one, at) is not None
        assert suspended.find(one, other) is None
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert suspended.find(one, at) is None

    asyncio.run(main())


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython 3.14 keeps its tasks in C")
def test_very_many_tasks_of_a_class_of_the_program_are_not_gone_through() -> None:
    class Own(asyncio.Task):  # type: ignore[type-arg]
        pass

    async def held() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        some = [Own(held(), loop=loop) for _ in range(suspended.MOST_REFERENCES - 10)]
        await asyncio.sleep(0)
        assert suspended.frames(lambda code: True) is not None
        some += [Own(held(), loop=loop) for _ in range(20)]
        await asyncio.sleep(0)
        assert suspended.frames(lambda code: True) is None
        for task in some:
            task.cancel()
        await asyncio.gather(*some, return_exceptions=True)

    asyncio.run(main())


def test_where_asyncio_was_not_imported_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspended.sys, "modules", {})
    assert suspended.frames(lambda code: True) == []
