"""A stress target: allocation, sockets with a checked protocol, subprocesses, queues, and a busy main thread."""

import gc
import os
import queue
import signal
import socket
import struct
import subprocess
import threading
import time

import common

failures = []


def guarded(function):
    def run():
        try:
            function()
        except BaseException as error:
            failures.append(f"{function.__name__}: {error!r}")

    return run


def allocate():
    kept = []
    while True:
        kept.append(bytearray(1 << 12 | len(kept)))
        if len(kept) > 200:
            kept.clear()
            time.sleep(0.001)


def echo(end):
    while True:
        end.sendall(end.recv(65536))


def talk(end):
    number = 0
    while True:
        number += 1
        message = struct.pack("<Q", number) * 100
        end.sendall(message)
        got = b""
        while len(got) < len(message):
            got += end.recv(len(message) - len(got))
        if got != message:
            raise ValueError("data error")
        time.sleep(0.0005)


def spawn():
    while True:
        if subprocess.run(["/bin/echo", "x"], stdout=subprocess.PIPE, check=False).stdout != b"x\n":
            raise ValueError("subprocess")
        time.sleep(0.05)


def naps():
    while True:
        start = time.monotonic()
        time.sleep(0.01)
        if time.monotonic() - start < 0.01:
            raise ValueError("a sleep ended early")


items = queue.Queue(10)


def produce():
    number = 0
    while True:
        number += 1
        items.put(number)


def consume():
    expected = 0
    while True:
        expected += 1
        if items.get() != expected:
            raise ValueError("queue")
        time.sleep(0.001)


left, right = socket.socketpair()
for function in (allocate, lambda: echo(left), lambda: talk(right), spawn, naps, naps, produce, consume):
    common.background(guarded(function))
for _ in range(4):
    common.background(threading.Event().wait)


def finish(signum, frame):
    print("FAILURES", failures, flush=True)
    os._exit(0)


signal.signal(signal.SIGTERM, finish)
print("READY", flush=True)
step = 0
while True:
    step = (step * 31 + 7) % 1000003
    if step % 4096 == 0:
        time.sleep(0.0005)
    if step % 65536 == 0:
        gc.collect()  # so that garbage does not hide growth
