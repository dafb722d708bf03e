"""What a live source sends: within what an agent reads, and whole whatever becomes of those who asked for it."""

import asyncio
import os
import socket
from types import SimpleNamespace

import pytest

from tensortui.agent import connections, requests
from tensortui.errors import TensortuiError
from tensortui.sources import LiveSource
from tensortui.wire.frames import Decoder
from tensortui.wire.messages import ROOTS_LIMIT


@pytest.mark.parametrize("least", [0, (1 << 63) - 20_001])
async def test_a_graph_behind_more_tensors_than_a_request_holds_is_read_behind_the_first_and_says_so(agent, least):
    roots = range(least, least + 20_000)
    asked = []

    async def script(peer):
        await peer.welcome()
        # What the agent itself makes of it: a header that is too long, or a field that is wrong, ends the connection.
        peer._decoder = Decoder(connections.MAX_REQUEST, 0, connections.MAX_BRACKETS)
        for _ in range(2):
            asked.append(requests.checked(await peer.expect("graph")))
            await peer.send({"t": "graph", "request": asked[-1]["request"], "nodes": [], "reasons": ["A."]})

    source = await LiveSource.connect(await agent(script))
    graph = await asyncio.wait_for(source.graph(iter(roots)), 20)
    assert asked[0]["roots"] == list(roots[:ROOTS_LIMIT])
    assert (graph.cut, graph.reasons) == (True, ("A.", "The graph was read behind 3,000 of 20,000 tensors."))
    whole = await asyncio.wait_for(source.graph(roots[:ROOTS_LIMIT]), 20)
    assert (whole.cut, whole.reasons, asked[1]["roots"]) == (False, ("A.",), asked[0]["roots"])
    await source.close()


async def stuck():
    """A source whose peer reads nothing, and a request of it that is half sent; the peer's socket."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    source = LiveSource(SimpleNamespace(pid=os.getpid(), path="", token=None), near)
    half = asyncio.create_task(source.graph(range(1 << 60, (1 << 60) + ROOTS_LIMIT)))
    while not await readable(far):
        pass
    return source, half, far


async def readable(sock):
    await asyncio.sleep(0)
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


async def test_a_request_that_is_given_up_half_sent_does_not_spoil_the_next():
    source, half, far = await stuck()
    waiting = [asyncio.create_task(source.watch([number])) for number in range(100)]
    for _ in range(3):
        await asyncio.sleep(0)
    half.cancel()
    for task in waiting[1:]:
        task.cancel()  # sends nothing, and leaves nothing behind
    assert isinstance((await asyncio.gather(half, return_exceptions=True))[0], asyncio.CancelledError)
    got, decoder = [], Decoder()
    while len(got) < 2:
        got += [header for header, _ in decoder.feed(await asyncio.get_running_loop().sock_recv(far, 65536))]
    await waiting[0]
    assert [header["t"] for header in got] == ["graph", "watch"]
    assert got[1]["ids"] == [0]
    assert await readable(far) == b""
    await source.close()
    far.close()


async def test_closing_does_not_wait_for_a_peer_that_reads_nothing():
    source, half, far = await stuck()
    waiting = asyncio.create_task(source.watch([1]))
    await asyncio.sleep(0)
    await asyncio.wait_for(source.close(), 20)
    for error in await asyncio.gather(half, waiting, return_exceptions=True):
        assert isinstance(error, TensortuiError) and error.kind == "ended"
    far.close()
