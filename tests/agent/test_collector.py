"""What the agent makes must not have the target's collector go through everything, least of all on its own thread."""

from __future__ import annotations

from typing import Any

PROGRAM = """
import gc, os, sys, threading, torch
model = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(1500)])
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
for one in model.parameters(): one.grad = torch.zeros_like(one)
optimizer.step()
gc.collect()
counts, over = {}, []
def work():
    while not over: [[] for _ in range(100)]
worker = threading.Thread(target=work); worker.start()
mine = (threading.get_ident(), worker.ident)
def count(phase, info):
    if phase == "start":
        key = ("target" if threading.get_ident() in mine else "agent", info["generation"])
        counts[key] = counts.get(key, 0) + 1
gc.callbacks.append(count)
START_AGENT
print("READY", os.getpid(), flush=True)
for line in sys.stdin:
    exec(line)
    print("DONE", flush=True)
"""


def test_no_full_collection_is_caused_and_hardly_any_runs_on_the_thread_of_the_agent(
    program: Any, connect: Any
) -> None:
    process, path = program(PROGRAM)
    client = connect(path)
    for request in range(3):
        client.refresh(request)
    assert client.named("model.1499.weight")["category"] is not None
    process.stdin.write("over.append(1); worker.join(); print(sorted(counts.items()))\n")
    process.stdin.flush()
    counts = dict(eval(process.stdout.readline()))
    assert not [key for key in counts if key[1] == 2], counts
    assert sum(count for (who, _), count in counts.items() if who == "agent") <= 5, counts


def test_the_sleep_that_the_agent_gives_the_collector_is_not_taken_for_the_programs(
    program: Any, connect: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PYTHONMALLOC", "malloc")  # no pools: objects are found by the collector's lists
    process, path = program(PROGRAM.replace("1500", "2"))
    client = connect(path)
    assert client.refresh(1)["coverage"]["reasons"] == []
    process.stdin.write("gc.disable()\n")
    process.stdin.flush()
    assert process.stdout.readline() == "DONE\n"
    reasons = client.refresh(2)["coverage"]["reasons"]
    assert [one for one in reasons if one.startswith("the garbage collector is disabled")] == reasons != []
    process.stdin.write("over.append(1); worker.join()\n")
    process.stdin.flush()
    assert process.stdout.readline() == "DONE\n"


IDLE = """
import gc, os, sys, threading, torch
me = threading.get_ident()
kept = [torch.ones(2) for _ in range(10_000)]
gc.collect()
foreign = []
class Cycle:
    def __del__(self): foreign.append(threading.get_ident() != me)
for _ in range(5):
    cycle = Cycle(); cycle.itself = cycle
del cycle
runs = []
gc.callbacks.append(lambda phase, info: runs.append(threading.get_ident() != me) if phase == "start" else None)
START_AGENT
print("READY", os.getpid(), flush=True)
for line in sys.stdin:
    print(sum(runs), sum(foreign), flush=True)
"""


def test_in_an_idle_program_nothing_is_collected_on_the_thread_of_the_agent(program: Any, connect: Any) -> None:
    """There the collector is due for as long as the program makes nothing: whatever is made next would run it."""
    process, path = program(IDLE)
    client = connect(path)
    client.send({"t": "subscribe", "interval": 0.1})
    client.until("sample", phase="live")
    for request in range(3):
        client.refresh(request)
    for _ in range(20):
        client.until("sample")
    process.stdin.write("\n")
    process.stdin.flush()
    collections, finalizers = map(int, process.stdout.readline().split())
    assert collections <= 5  # what does not fit into a socket at once raises, which makes an object outside of a piece
    assert finalizers == 0


SIGNALS = """
import gc, json, signal, sys, threading, torch
def handler(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, handler)
text = json.dumps([{"a": [1]}] * 3000)  # the collector runs several times while this is read
START_AGENT
print("READY", flush=True)
for line in sys.stdin:
    lost = 0
    for _ in range(200):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            for _ in range(30): json.loads(text)
            lost += 1
        except TimeoutError:
            pass
    print(lost, flush=True)
"""


def test_what_a_signal_raises_while_the_collector_runs_reaches_the_program(program: Any, connect: Any) -> None:
    """A function of ours that the collector calls is where the interpreter would deliver it, and lose it."""
    process, path = program(SIGNALS)
    client = connect(path)
    client.send({"t": "subscribe", "interval": 0.1})
    client.until("sample")
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "0\n"
