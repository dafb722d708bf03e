"""The live source against a scripted agent, over real sockets; the real agent is in tests/cases."""

import asyncio
import contextlib
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
from array import array
from types import SimpleNamespace

import pytest

from tensortui.errors import TensortuiError
from tensortui.model import Ended, Sample
from tensortui.sources import ConnectionFailedError, LiveSource, live
from tensortui.version import VERSION
from tensortui.wire.frames import PREFIX, encode
from tensortui.wire.messages import WATCH_LIMIT


async def first(source):
    return await anext(source.updates())


async def ended(source):
    """Read to the end."""
    async for update in source.updates():
        last = update
    assert isinstance(last, Ended)
    return last


async def test_connecting_says_hello_with_the_token_and_learns_the_process(agent):
    seen = []

    async def script(peer):
        seen.append(await peer.expect("hello"))
        await peer.send({"t": "welcome", "protocol": 1, "process": {"command": ["python", "-O", "dir/train.py", 7]}})
        seen.append(await peer.expect("subscribe"))
        await peer.sample()

    endpoint = await agent(script)
    source = await LiveSource.connect(endpoint, interval=0.5)
    sample = await first(source)
    await source.close()
    assert seen[0] == {"t": "hello", "protocols": [1, 1], "viewer": VERSION, "token": "secret"}
    assert seen[1] == {"t": "subscribe", "interval": 0.5}
    assert sample.process.pid == endpoint.pid
    assert source.title == f"train.py  pid {endpoint.pid}"
    assert sample.process.rank is None


async def test_a_peer_that_always_has_more_to_say_leaves_the_screen_its_turns(tmp_path):
    frames, sent, stop = 300, [0], threading.Event()
    rows = {"t": "rows", "table": "storages", "n": 2000, "values": {"device": ["cpu"]}}
    frame = encode(rows, array("q", [cell for n in range(2000) for cell in (n, 0, n << 12, 8, 0)]).tobytes())

    def flood(listening):
        sock, _ = listening.accept()
        with sock, contextlib.suppress(ConnectionError):
            sock.recv(4096)
            sock.sendall(encode({"t": "welcome", "protocol": 1, "process": {}}))
            while sent[0] < frames and not stop.is_set():
                sock.sendall(frame)
                sent[0] += 1

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        thread = threading.Thread(target=flood, args=(listening,))
        thread.start()
        source = await LiveSource.connect(SimpleNamespace(pid=os.getpid(), path=str(tmp_path / "s"), token=None))
        for _ in range(20):
            await asyncio.sleep(0)
        turns_were_had_after = sent[0]
        stop.set()
        await source.close()
        await asyncio.to_thread(thread.join)
    assert turns_were_had_after < frames


async def test_a_batch_shows_only_when_its_sample_closes_it(agent):
    go = asyncio.Event()

    async def script(peer):
        await peer.welcome()
        await peer.storages((1, 10), (2, 20))
        await peer.sample()
        await peer.storages((3, 30))
        await peer.gone(1)
        await go.wait()
        await peer.sample(
            phase="scanning", progress=7, cost={"share": 0.25}, coverage={"complete": False, "reasons": ["x"]}
        )

    source = await LiveSource.connect(await agent(script))
    updates = source.updates()
    one = await anext(updates)
    assert set(one.storages) == {1, 2}
    assert one.coverage.complete is False  # unless it says so
    go.set()
    two = await anext(updates)
    assert set(two.storages) == {2, 3}
    assert set(one.storages) == {1, 2}
    assert (two.change.storages, two.change.since) == ({1, 3}, one.seq)
    assert (two.phase, two.progress, two.cost.share, two.coverage.reasons) == ("scanning", 1.0, 0.25, ("x",))
    await source.close()


async def test_unread_samples_are_replaced_and_their_changes_merged(agent):
    async def script(peer):
        await peer.welcome()
        for number in range(1, 6):
            await peer.storages((number, 10))
            await peer.sample(request="all" if number == 5 else None)

    source = await LiveSource.connect(await agent(script))
    while source.latest is None or len(source.latest.storages) < 5:
        await asyncio.sleep(0)
    sample = await first(source)
    assert set(sample.storages) == {1, 2, 3, 4, 5}
    assert sample.change.storages == {1, 2, 3, 4, 5}
    await source.close()


async def test_requests_are_answered_by_their_own_answers(agent):
    async def script(peer):
        await peer.welcome()
        refresh = await peer.expect("refresh")
        await peer.sample(request="of somebody else")
        await peer.storages((1, 10))
        await peer.sample(request=refresh["request"])
        graph = await peer.expect("graph")
        assert graph["roots"] == [5]
        chunk = {"t": "graph", "request": graph["request"], "roots": [1], "cut": False}
        saved = [["result", 5, 0, 1, True, False], ["hidden", None, None, None, False, True, "m.unpack"]]
        more = {"function": "m.Twice", "freed": True, "hooks": 2, "cut": True, "tensors": [7, "junk"]}
        await peer.send({**chunk, "nodes": [[1, "ExpBackward0", [2, None], None, saved, more]], "more": True})
        await peer.send(
            {**chunk, "nodes": [[2, "AccumulateGrad", [], 9, []], "junk"], "more": False, "reasons": ["Busy.", 3]}
        )
        failing = await peer.expect("graph")
        await peer.send({"t": "failed", "request": failing["request"], "cause": "Backward runs.", "next_step": "Wait."})

    source = await LiveSource.connect(await agent(script), interval=None)
    assert set((await source.refresh()).storages) == {1}
    graph = await source.graph([5])
    assert graph.roots == (1,)
    assert [(node.id, node.next, node.leaf) for node in graph.nodes] == [(1, (2, None), None), (2, (), 9)]
    assert graph.nodes[0].saved[0].stale is True
    assert (graph.nodes[0].saved[1].hook, graph.nodes[0].saved[1].unpacked_by) == (True, "m.unpack")
    told = [(node.function, node.freed, node.hooks, node.cut, node.tensors) for node in graph.nodes]
    assert told == [("m.Twice", True, 2, True, (7,)), ("", False, 0, False, ())]
    assert graph.reasons == ("Busy.",)
    with pytest.raises(TensortuiError) as caught:
        await source.graph()
    assert (caught.value.cause, caught.value.next_step) == ("Backward runs.", "Wait.")
    await source.close()


async def test_watching_keeps_to_the_limit_of_the_protocol(agent):
    got = asyncio.get_running_loop().create_future()

    async def script(peer):
        await peer.welcome()
        got.set_result(await peer.expect("watch"))

    source = await LiveSource.connect(await agent(script))
    await source.watch(range(100_000))
    assert (await got)["ids"] == list(range(WATCH_LIMIT))
    await source.close()


async def test_detaching_asks_the_agent_and_waits_for_its_bye(agent):
    async def script(peer):
        await peer.welcome()
        await peer.expect("detach")
        await peer.send({"t": "bye", "reason": "detached", "detail": ""})
        await peer.hang_up()

    source = await LiveSource.connect(await agent(script))
    assert await source.detach()
    assert source.ended.reason == "the agent was detached"
    assert source.ended.expected
    with pytest.raises(TensortuiError) as caught:
        await source.refresh()
    assert caught.value.kind == "ended"


async def test_a_refusal_carries_the_agents_own_words(agent):
    async def script(peer):
        await peer.expect("hello")
        await peer.send({"t": "error", "kind": "permission", "cause": "Not you.", "next_step": "Use sudo."})
        await peer.hang_up()

    with pytest.raises(TensortuiError) as caught:
        await LiveSource.connect(await agent(script))
    assert (caught.value.kind, str(caught.value)) == ("permission", "Not you.\nUse sudo.")


async def test_a_protocol_we_do_not_speak_is_refused(agent):
    async def script(peer):
        await peer.expect("hello")
        await peer.send({"t": "welcome", "protocol": 99})

    with pytest.raises(ConnectionFailedError, match="protocol"):
        await LiveSource.connect(await agent(script))


async def test_an_agent_that_says_nothing_is_given_up(agent):
    async def script(peer):
        await peer.expect("hello")

    with pytest.raises(ConnectionFailedError, match=r"did not answer within 0\.1 s"):
        await LiveSource.connect(await agent(script), timeout=0.1)


async def test_no_socket_is_a_clear_failure(agent, tmp_path):
    async def script(peer):
        pass

    endpoint = await agent(script)
    gone = type(endpoint)(endpoint.pid, str(tmp_path / "nothing.sock"))
    with pytest.raises(ConnectionFailedError, match="No such file"):
        await LiveSource.connect(gone)


async def test_a_process_that_has_ended_is_said_to_have(tmp_path):
    over = subprocess.Popen([sys.executable, "-c", ""])
    over.wait()
    with pytest.raises(ConnectionFailedError) as caught:
        await LiveSource.connect(SimpleNamespace(pid=over.pid, path=str(tmp_path / "nothing.sock"), token=None))
    assert (caught.value.kind, caught.value.cause) == ("ended", f"Process {over.pid} has ended.")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/fd")
async def test_a_path_longer_than_an_address_is_reached(agent, tmp_path):
    async def script(peer):
        await peer.welcome()
        await peer.sample()

    folder = tmp_path / ("x" * 100) / ("y" * 100)
    folder.mkdir(parents=True)
    source = await LiveSource.connect(await agent(script, path=folder / "agent.sock"))
    assert isinstance(await first(source), Sample)
    await source.close()


GARBAGE = [
    b"\0" * 64,
    b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4,
    PREFIX.pack(1 << 31, 0),
    PREFIX.pack(2, 0) + b"[]",
    PREFIX.pack(11, 0) + b'{"t": null}',
    PREFIX.pack(200_000, 0) + b"[" * 200_000,
    *(
        struct.pack("<II", len(text), 8) + text + b"\1" * 8
        for text in (
            json.dumps(header).encode()
            for header in (
                {"t": "rows", "table": "tensors", "n": 1, "values": {}},
                {"t": "rows", "table": "storages", "n": 0, "values": []},
                {"t": "rows", "table": "storages", "n": 0, "values": {"device": 3}},
            )
        )
    ),
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_what_is_not_our_protocol_ends_the_source_with_the_reason(agent, garbage):
    seen = asyncio.Event()

    async def script(peer):
        await peer.welcome()
        await peer.storages((1, 10))
        await peer.sample()
        await seen.wait()
        await peer.send_bytes(garbage)

    source = await LiveSource.connect(await agent(script))
    await first(source)
    seen.set()
    last = await ended(source)
    assert "not our protocol" in last.reason
    assert not last.expected
    assert set(source.latest.storages) == {1}  # the last sample stays
    await source.close()


async def test_random_messages_never_leave_a_source_hanging(agent):
    rng = random.Random(5)
    kinds = ["rows", "gone", "reset", "sample", "graph", "failed", "holders", "progress", "welcome", "error", "bye",
             "novel"]  # fmt: skip
    keys = ["table", "n", "values", "request", "nodes", "roots", "process", "coverage", "cost", "reason", "taken_at"]
    values = [None, True, -1, 1 << 80, 1e308, "x", "tensors", [], [[]], [None], {}, {"reasons": 3}, {"device": [{}]}]

    async def script(peer):
        await peer.welcome()
        for _ in range(30):
            header = {key: rng.choice(values) for key in rng.sample(keys, rng.randint(0, 6))}
            try:
                await peer.send({"t": rng.choice(kinds), **header}, rng.randbytes(8 * rng.randint(0, 3)))
            except ConnectionError:
                return
        await peer.hang_up()

    endpoint = await agent(script)
    for _ in range(40):
        try:
            source = await LiveSource.connect(endpoint)
        except TensortuiError:
            continue
        last = await asyncio.wait_for(ended(source), 10)
        assert "internal" not in last.reason
        await source.close()


async def test_a_closed_socket_of_a_living_process_is_said_as_such(agent):
    async def script(peer):
        await peer.welcome()
        await peer.hang_up()

    source = await LiveSource.connect(await agent(script))
    waiting = asyncio.create_task(source.refresh())
    assert (await ended(source)).reason == "the agent closed the connection; the process goes on"
    with pytest.raises(TensortuiError):
        await waiting
    await source.close()


async def test_closing_leaves_no_task_and_no_descriptor(agent):
    async def script(peer):
        await peer.welcome()
        await peer.sample()

    endpoint = await agent(script)
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    for _ in range(5):
        source = await LiveSource.connect(endpoint)
        await first(source)
        await source.close()
        await source.close()
    assert [task for task in asyncio.all_tasks() if "live source" in task.get_name()] == []
    while sys.platform == "linux" and len(os.listdir("/proc/self/fd")) > before:  # the other side closes its ends too
        await asyncio.sleep(0.01)


async def test_an_agent_that_does_not_answer_has_not_left(agent, monkeypatch):
    async def script(peer):
        await peer.welcome()
        await peer.expect("detach")

    monkeypatch.setattr(live, "DETACH_SECONDS", 0.05)
    source = await LiveSource.connect(await agent(script))
    assert await source.detach() is False
