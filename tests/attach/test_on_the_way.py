"""What can go wrong on the way into a process: each says what it is and what to do, and the process goes on well."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensortui.attach import attach, attaching, bootstrap, errors, hijack, memory, region
from tensortui.attach.inject import Injection
from tensortui.attach.threads import sleeping_in

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
OTHER_UID = 54321


def test_errno_of_the_borrowed_thread_is_kept(start, fails):
    """No room for the stack of a thread: the C library says so in errno, on a thread that has not asked for one."""
    program = start("keeping_errno", "1000000")
    injection = Injection(program.pid, lambda address: bootstrap.bootstrap_source(), 5.0, threading.Event())
    with ThreadPoolExecutor(1) as one:
        one.submit(injection._obtain_region).result()
    injection.close()
    limits = resource.prlimit(program.pid, resource.RLIMIT_AS)
    used = int(Path(f"/proc/{program.pid}/statm").read_text().split()[0])
    resource.prlimit(program.pid, resource.RLIMIT_AS, (used * resource.getpagesize(), limits[1]))
    assert "no thread" in fails(errors.QueueRefusedError, program.pid, timeout=0.3).cause
    resource.prlimit(program.pid, resource.RLIMIT_AS, limits)
    assert {program.line() for _ in range(3)} == {"77"}
    program.finish()


@pytest.mark.parametrize("pages", [0, 4])
def test_memory_that_may_not_be_mapped(start, greet, pages, fails):
    """Not a page, or not all of it: nothing is left of the try."""
    program = start("busy")
    limits, before = resource.prlimit(program.pid, resource.RLIMIT_AS), program.mappings()
    used = int(Path(f"/proc/{program.pid}/statm").read_text().split()[0])
    resource.prlimit(program.pid, resource.RLIMIT_AS, ((used + pages) * resource.getpagesize(), limits[1]))
    fails(errors.SyscallRefusedError, program.pid)
    assert program.mappings() == before
    resource.prlimit(program.pid, resource.RLIMIT_AS, limits)
    greet(attach(program.pid)).detach()
    assert program.finish() == "LEFT {}"


def test_no_padding(monkeypatch, start, fails):
    program = start("busy")
    monkeypatch.setattr(region, "STAGE_SIZE", region.PAGE)
    assert "padding" in fails(errors.NoRoomError, program.pid).cause
    assert program.finish() == "LEFT {}"


def test_thread_in_a_call_that_must_not_be_interrupted(start, wait_for, fails):
    program = start("writing")
    wait_for(lambda: (call := sleeping_in(program.pid, program.pid)) and call.number == 1)
    fails(errors.NoThreadError, program.pid)
    assert Path(f"/proc/{program.pid}/syscall").read_text().startswith("1 ")
    assert program.finish().startswith("LEFT")


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc, for a process in uninterruptible sleep")
def test_thread_in_uninterruptible_sleep(monkeypatch, tmp_path, wait_for, child_of):
    source = "#include <unistd.h>\nint main(){if(!vfork()){pause();_exit(0);}return 7;}\n"
    subprocess.run(["gcc", "-x", "c", "-", "-o", tmp_path / "program"], input=source, text=True, check=True)
    with subprocess.Popen([tmp_path / "program"]) as process:
        child = wait_for(lambda: child_of(process.pid))
        wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "D")
        opened = memory.Memory(process.pid)
        monkeypatch.setattr(hijack, "STOP_SECONDS", 0.05)

        def hold():
            with hijack.Window(process.pid, opened, process.pid, None):
                raise AssertionError("it stopped")

        with pytest.raises(errors.ThreadStuckError):
            in_a_thread(hold)
        opened.close()
        os.kill(child, 9)
        assert process.wait(timeout=10) == 7


SEQUENCE = """
#include <stdint.h>
#include <sys/rseq.h>
static struct { uint32_t version, flags; uint64_t start, length, abort; } __attribute__((aligned(32))) sequence;
int main() {
    char *area = (char *)__builtin_thread_pointer() + __rseq_offset;
    __asm__ volatile(
        "lea 1f(%%rip), %%rax\\n mov %%rax, 8(%0)\\n"
        "lea 2f(%%rip), %%rcx\\n sub %%rax, %%rcx\\n mov %%rcx, 16(%0)\\n"
        "lea 4f(%%rip), %%rax\\n mov %%rax, 24(%0)\\n"
        "3: mov %0, 8(%1)\\n"
        "1: jmp 1b\\n"
        "2: .long 0x53053053\\n"
        "4: jmp 3b\\n" ::"r"(&sequence), "r"(area) : "rax", "rcx", "memory");
}
"""
JUMP_TO_ITSELF = b"\xeb\xfe"


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc, for a restartable sequence")
def test_thread_in_a_restartable_sequence_is_not_borrowed(tmp_path, wait_for):
    """An allocator may be in one: sent elsewhere and back, it would go on as if nothing had come between."""
    build = ["gcc", "-x", "c", "-", "-o", tmp_path / "program"]
    if subprocess.run(build, input=SEQUENCE, text=True, capture_output=True, check=False).returncode:
        pytest.skip("this C library has no restartable sequences")
    with subprocess.Popen([tmp_path / "program"]) as process, ThreadPoolExecutor(1) as one:
        opened = memory.Memory(process.pid)

        def refused():
            try:
                with hijack.Window(process.pid, opened, process.pid, None) as window:
                    assert opened.read(window.registers.rip, 2) != JUMP_TO_ITSELF
            except hijack.Retry as error:
                return "restartable" in str(error)

        try:
            for _ in range(5):
                wait_for(lambda: one.submit(refused).result())
        finally:
            opened.close()
            process.kill()


def in_a_thread(function):
    """As attach() does it: what is still held when the thread ends is let go."""
    caught = []

    def run():
        try:
            function()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise caught[0]


ONE_THREAD = ["prlimit", "--nproc=1:"]


@root_only
def test_no_more_threads(start, fails, everyones_python):
    """The C library refuses a native thread to the process, which never comes to run a pending call either."""
    program = start("sleeping", python=everyones_python, user=OTHER_UID, prefix=ONE_THREAD)
    assert "no thread" in fails(errors.QueueRefusedError, program.pid, timeout=0.5).cause
    assert program.finish() == "LEFT {}"


@root_only
def test_no_more_threads_while_busy(start, fails, everyones_python):
    """The bootstrap runs as a pending call, and CPython refuses the agent's thread."""
    program = start("busy", python=everyones_python, user=OTHER_UID, prefix=ONE_THREAD)
    assert "no thread could be started" in fails(errors.AgentFailedError, program.pid).cause
    assert program.finish() == "LEFT {}"


def test_another_attacher_is_at_it(start, fails):
    program = start("busy")
    handle = os.open(f"/proc/{program.pid}/mem", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    fails(errors.BusyError, program.pid, timeout=0.1)
    os.close(handle)
    assert program.finish() == "LEFT {}"


def test_nobody_can_lock_others_out(start, greet):
    """The directory of a process can be opened, and locked, by every user of the machine."""
    program = start("busy")
    handle = os.open(f"/proc/{program.pid}", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    greet(attach(program.pid, timeout=0.5)).detach()
    os.close(handle)
    assert program.finish() == "LEFT {}"


@pytest.mark.parametrize(
    ("report", "step"),
    [
        ("OSError: this Python runs without the global interpreter lock (main:1)", "PYTHON_GIL=1"),
        ("no thread could be started: can't start new thread", "ulimit -u"),
        ("OSError: /tmp/tensortui-1 is not a directory of ours alone", "a directory for its socket"),
    ],
)
def test_agent_that_could_not_start_says_what_helps(report, step):
    assert step in errors.AgentFailedError(1, report).next_step


def test_gil_held_in_c(start, greet, fails):
    program = start("gil_held", "3")
    error = fails(errors.AttachTimeoutError, program.pid, timeout=0.5)
    assert sleeping_in(program.pid, program.pid)  # still in that call: the time-out was kept
    assert "holds the GIL" in error.cause and "nothing will run later" in error.cause
    # it is waited for the thread that runs the text, too: what is said is what it took
    assert float(re.search(r"within ([0-9.]+) s", error.cause)[1]) > 0.5
    greet(attach(program.pid, timeout=20)).detach()
    assert program.line() == "OVER"
    assert program.finish() == "LEFT {}"


def test_cancelled_source_never_runs(start, fails):
    program = start("gil_held", "1")
    fails(errors.AttachTimeoutError, program.pid, timeout=0.3)
    assert program.line() == "OVER"
    assert program.finish() == "LEFT {}"


def test_interrupted_attach_is_cancelled(start, wait_for):
    """Ctrl-C while the bootstrap waits for the GIL: it never runs, and the attacher ends at once."""
    program = start("gil_held", "2")
    code = f"from tensortui.attach import attach; attach({program.pid}, timeout=60)"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as attacher:
        wait_for(lambda: len(os.listdir(f"/proc/{program.pid}/task")) == 2)
        attacher.send_signal(signal.SIGINT)
        assert attacher.stderr.read().endswith("KeyboardInterrupt\n")
    assert sleeping_in(program.pid, program.pid)
    assert program.line() == "OVER"
    assert program.finish() == "LEFT {}"


def test_kernel_that_refuses_a_write(monkeypatch, start, fails):
    program = start("busy")

    def refuse(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(memory.Memory, "write", refuse)
    assert "Input/output error" in fails(errors.RefusedError, program.pid).cause
    assert program.finish() == "LEFT {}"


def test_long_computation_in_the_only_thread(start, greet, fails):
    program = start("computing", "6000000")
    error = fails(errors.AttachTimeoutError, program.pid, timeout=0.5)
    assert "runs no Python code" in error.cause
    greet(attach(program.pid, timeout=30)).detach()
    program.finish()


@root_only
def test_agent_without_a_directory_for_its_socket(start, greet, fails, everyones_python):
    """The names of its directories are taken by somebody else: the agent says so, and the attacher passes it on."""
    uid = OTHER_UID + 1
    program = start("busy", python=everyones_python, user=uid)
    taken = [Path(directory, f"tensortui-{uid}") for directory in bootstrap.socket_directories()]
    for path in taken:
        path.mkdir(mode=0o755)
    try:
        assert "is not a directory of ours alone" in fails(errors.AgentFailedError, program.pid).cause
    finally:
        for path in taken:
            path.rmdir()
    greet(attach(program.pid)).detach()
    assert program.finish() == "LEFT {}"


def test_agent_that_does_not_answer(monkeypatch, start):
    program = start("busy")
    text = bootstrap.bootstrap_source(sources={bootstrap.ENTRY: "def start(options): pass\n"})
    injection = Injection(program.pid, lambda address: text, 5.0, threading.Event())
    assert injection.run() in ("thread", "pending")
    monkeypatch.setattr(attaching, "ANSWER_SECONDS", 0.05)
    with pytest.raises(errors.AgentSilentError):
        attaching._await_agent(program.pid, injection, 0.05)
    injection.close()
    assert program.finish() == "LEFT {}"


def test_agent_that_fails(start):
    program = start("busy")
    text = "import json\n\ndef start(options):\n    raise ValueError('no \\u20ac')\n"

    def source(address):
        return bootstrap.bootstrap_source(sources={bootstrap.ENTRY: text}, report_address=address)

    injection = Injection(program.pid, source, 5.0, threading.Event())
    injection.run()
    with pytest.raises(errors.AgentFailedError, match=r"ValueError: no € \(<tensortui.agent.main>:4\)"):
        attaching._await_agent(program.pid, injection, 5.0)
    injection.close()
    assert program.finish() == "LEFT {}"


def test_process_that_ends_meanwhile(start):
    """Kill the process at many moments of an attach: GoneError or a success, never anything else."""
    for delay in range(20):
        program = start("sleeping")
        code = f"import os, time; time.sleep({delay / 1000}); os.kill({program.pid}, 9)"
        killer = subprocess.Popen([sys.executable, "-S", "-c", code])
        try:
            while True:
                attach(program.pid)
        except errors.AttachError as error:
            assert error.kind == "gone", error
        killer.wait()


def test_process_that_becomes_another_program_meanwhile(monkeypatch, start, wait_for, fails):
    """It has the same id, and other memory: nothing of ours goes there."""
    program = start("becoming")
    make = bootstrap.bootstrap_source

    def late(**options):
        os.kill(program.pid, signal.SIGUSR1)
        wait_for(lambda: os.readlink(f"/proc/{program.pid}/exe").endswith("sleep"))
        return make(**options)

    monkeypatch.setattr(bootstrap, "bootstrap_source", late)
    assert "became another program" in fails(errors.GoneError, program.pid).cause
    assert program.process.poll() is None


def test_thread_of_another_process_is_let_go(start):
    """A thread that has ended may have left its id to one of another process."""
    program, other = start("sleeping"), start("sleeping")
    opened = memory.Memory(program.pid)

    def hold():
        with hijack.Window(program.pid, opened, other.pid, None):
            raise AssertionError("it was taken")

    with pytest.raises(hijack.Retry, match="another process"):
        in_a_thread(hold)
    opened.close()
    assert other.finish() == program.finish() == "LEFT {}"


@pytest.mark.parametrize("when", ["before", "after"])
def test_thread_that_ends_under_our_hands(start, wait_for, when):
    program = start("sleeping")
    opened = memory.Memory(program.pid)

    def kill():
        os.kill(program.pid, 9)
        wait_for(lambda: Path(f"/proc/{program.pid}/stat").read_text().split()[2] in "ZX")

    def hold():
        with hijack.Window(program.pid, opened, program.pid, None) as window:
            if when == "before":
                kill()
            address = window.registers.rip
            if when == "after":
                kill()
            window.go(address, window.registers.rsp)

    with pytest.raises(hijack.Retry, match="ended"):
        in_a_thread(hold)
    opened.close()
