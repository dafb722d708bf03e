"""A viewer may send whatever it likes: the agent goes on for every other, and so does the program."""

from __future__ import annotations

import json
import select
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensortui.wire.frames import PREFIX, encode

TORCH = """
import gc, os, sys, torch
START_AGENT
print("READY", flush=True)
for line in sys.stdin:
    exec(line)
    print("DONE", flush=True)
"""
PROGRAMS = {"torch": TORCH, "before torch": TORCH.replace(", torch", "")}
HELLO = encode({"t": "hello", "protocols": [1, 1]})
KINDS = ("hello", "subscribe", "watch", "refresh", "graph", "detach")
FIELDS = ("protocols", "token", "interval", "ids", "request", "roots", "limit", "if_alone", "viewer")
MALFORMED = [
    '{"t":"hello"}',
    '{"t":"hello","protocols":{"a":1}}',
    '{"t":"hello","protocols":[1e999,1]}',
    '{"t":"hello","protocols":[NaN,1]}',
    '{"t":"subscribe","interval":1%s}' % ("0" * 400),
    '{"t":"subscribe","interval":1e999}',
    '{"t":"subscribe","interval":NaN}',
    '{"t":"subscribe","interval":-1}',
    '{"t":"subscribe","interval":{}}',
    '{"t":"watch","ids":[1e999]}',
    '{"t":"watch","ids":{"a":1}}',
    '{"t":"watch","ids":[[]]}',
    '{"t":"watch","ids":[1%s]}' % ("0" * 400),
    '{"t":"watch","ids":null}',
    '{"t":"refresh","request":NaN}',
    '{"t":"refresh","request":-1e999}',
    '{"t":"refresh","request":"\\ud800"}',
    '{"t":"refresh","request":' + "[" * 900 + "]" * 900 + "}",
    '{"t":"refresh","request":' + "[" * 50_000,
    '{"t":"graph","request":1,"roots":[{}],"limit":-5}',
    '{"t":"graph","request":{"a":1},"roots":null,"limit":1e999}',
    '{"t":"graph","roots":"all","limit":null}',
    '{"t":"detach","if_alone":[1],"request":{}}',
    '{"t":"\\ud800"}',
    '{"t":["hello"]}',
    "[]",
    "NaN",
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.just(10**400),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4)
requests = st.builds(lambda kind, more: {**more, "t": kind}, st.sampled_from(KINDS) | st.text(max_size=5), fields)


def raw(text: str) -> bytes:
    data = text.encode()
    return PREFIX.pack(len(data), 0) + data


def intrude(path: str, data: bytes) -> None:
    """Send `data` and leave; returns when the agent has read it all and let go."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(path)
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass


@pytest.mark.parametrize("sort", PROGRAMS)
def test_malformed_requests_cost_nobody_else_the_agent(program: Any, connect: Any, sort: str) -> None:
    _, path = program(PROGRAMS[sort])
    client = connect(path)
    for number, text in enumerate(MALFORMED):
        for greeting in (b"", HELLO):
            intrude(path, greeting + raw(text))
        assert client.refresh(number)["coverage"]["reasons"] == [], text


def test_nesting_cannot_overflow_the_stack_that_the_program_chose(program: Any, connect: Any) -> None:
    small = "import sys, threading; sys.setrecursionlimit(10**6); threading.stack_size(1 << 18)"
    _, path = program(small + PROGRAMS["before torch"])
    client = connect(path)
    for start in ('{"t":', '{"t":"refresh","request":', '{"t":"watch","ids":'):
        for bracket in ("[", '{"a":'):
            intrude(path, HELLO + raw(start + bracket * 12_000))
    client.refresh()


@pytest.fixture
def served(program: Any, connect: Any) -> tuple[str, Any]:
    """The socket of an agent, and a viewer that it serves."""
    path = program(TORCH)[1]
    return path, connect(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_arbitrary_requests_cost_nobody_else_the_agent(served: Any, data: Any) -> None:
    path, client = served
    said = data.draw(st.lists(requests, min_size=1, max_size=4))
    text = [json.dumps({**one, "if_alone": True} if one["t"] == "detach" else one) for one in said]
    intrude(path, (HELLO if data.draw(st.booleans()) else b"") + b"".join(map(raw, text)))
    assert client.refresh(len(text))["coverage"]["reasons"] == []


def test_who_asks_without_reading_before_torch_is_there_is_cut_off_alone(program: Any, connect: Any) -> None:
    _, path = program(PROGRAMS["before torch"])
    client = connect(path)
    greedy = socket.socket(socket.AF_UNIX)
    greedy.settimeout(60)
    greedy.connect(path)
    greedy.sendall(HELLO)
    ask = encode({"t": "refresh", "request": "r" * 200}) * 100
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while True:
            greedy.sendall(ask)
    greedy.close()
    client.refresh()


def test_a_daemon_that_forked_keeps_the_files_it_opened(program: Any, connect: Any) -> None:
    process, path = program(TORCH)
    client = connect(path)
    client.refresh()
    child = (
        "os.closerange(3, 1000); files = [os.open('/dev/zero', os.O_RDONLY) for _ in range(20)]; gc.collect(); "
        "os._exit(0 if all(os.path.exists('/proc/self/fd/%d' % fd) for fd in files) else 1)"
    )
    say = f"r = os.fork(); r or exec({child!r}); print(os.waitstatus_to_exitcode(os.waitpid(r, 0)[1]))\n"
    process.stdin.write(say)
    process.stdin.flush()
    assert process.stdout.readline() == "0\n"
    client.refresh(2)


def test_a_forked_child_does_not_keep_a_viewers_connection_open(program: Any, connect: Any) -> None:
    process, path = program(TORCH)
    client = connect(path)
    client.refresh()
    child = "gc.collect(); print('READY', flush=True); sys.stdin.readline(); os._exit(0)"
    process.stdin.write(f"r = os.fork(); r or exec({child!r})\n")
    process.stdin.flush()
    assert {process.stdout.readline(), process.stdout.readline()} == {"READY\n", "DONE\n"}
    client.send({"t": "detach", "if_alone": False, "request": 1})
    client.until("bye")
    assert select.select([client.sock], [], [], 30)[0]
    assert client.receive() is None
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(OSError, match=r"No such file|refused"):
        late.connect(path)
