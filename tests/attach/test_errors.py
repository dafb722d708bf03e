"""Every way in which attaching can fail says what it is and what to do, and leaves the process well."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tensortui.attach import attach, attaching, bootstrap, errors, hijack, memory, permissions, region
from tensortui.attach import processes as _loaded_before_a_change_of_user  # noqa: F401
from tensortui.attach.inject import Injection
from tensortui.attach.threads import sleeping_in

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
SYSTEM_PYTHON = "/usr/bin/python3"
OTHER_UID = 54321


def fails(error, pid, **options):
    with pytest.raises(error) as caught:
        attach(pid, **options)
    assert type(caught.value) is error
    assert caught.value.kind == error.kind and caught.value.cause.endswith(".") and caught.value.next_step
    return caught.value


def child_of(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return int(text.split()[0]) if text else None


def test_gone():
    process = subprocess.Popen(["true"])
    process.wait()
    fails(errors.GoneError, process.pid)


def test_zombie(wait_for):
    process = subprocess.Popen(["true"])
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "Z")
    assert "zombie" in str(fails(errors.GoneError, process.pid))
    process.wait()


def test_stopped_then_continued(start, greet, wait_for):
    program = start("busy")
    os.kill(program.pid, signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{program.pid}/stat").read_text().split()[2] == "T")
    assert f"kill -CONT {program.pid}" in str(fails(errors.StoppedError, program.pid))
    os.kill(program.pid, signal.SIGCONT)
    greet(attach(program.pid)).detach()
    program.finish()


TRACER = """
from tensortui.attach import ptrace
ptrace.request(ptrace.SEIZE, {0})
print(1, flush=True)
input()
ptrace.request(ptrace.INTERRUPT, {0})
print(2, flush=True)
input()
"""


def test_traced_then_not(start, greet):
    program = start("busy")
    command = [sys.executable, "-c", TRACER.format(program.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout.readline() == "1\n"
        assert str(tracer.pid) in fails(errors.TracedError, program.pid).cause
        tracer.communicate("\n\n")
    greet(attach(program.pid)).detach()
    program.finish()


def test_traced_with_the_agent_in_it(start, greet, wait_for):
    """Whom a debugger lets run can be talked to; whom it holds cannot."""
    program = start("busy")
    client = greet(attach(program.pid))
    command = [sys.executable, "-c", TRACER.format(program.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout.readline() == "1\n"
        assert attach(program.pid).how == "connected"
        tracer.stdin.write("\n")
        tracer.stdin.flush()
        assert tracer.stdout.readline() == "2\n"
        wait_for(lambda: Path(f"/proc/{program.pid}/stat").read_text().split()[2] == "t")
        fails(errors.TracedError, program.pid)
        tracer.communicate("\n")
    client.detach()
    assert program.finish() == "LEFT {}"


def test_thread_id(start):
    program = start("many_threads")
    tid = next(int(name) for name in os.listdir(f"/proc/{program.pid}/task") if int(name) != program.pid)
    assert f"tensortui attach {program.pid}" in fails(errors.NotAProcessError, tid).next_step


def as_user(uid, function):
    """Run `function` in a child that has become another user; what it returns, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(uid)
            os.setuid(uid)
            os.write(writing, str(function()).encode())
        except BaseException as error:
            os.write(writing, f"{getattr(error, 'kind', type(error))}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading) as file:
        return file.read()


@root_only
def test_another_users_process(start):
    program = start("busy")
    said = as_user(OTHER_UID, lambda: attach(program.pid))
    assert said.startswith("permission: ") and "another user (uid 0)" in said and "sudo" in said
    program.finish()


@root_only
def test_root_that_may_not_trace_is_not_told_to_become_root(start):
    """In a container, for example: there the kernel asks for SYS_PTRACE, of root too."""
    program = start("sleeping", python=SYSTEM_PYTHON, user=OTHER_UID)
    code = f"from tensortui.attach import attach; attach({program.pid})"
    command = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()
    assert "a container without SYS_PTRACE" in said[-2] and "--cap-add=SYS_PTRACE" in said[-1]


@root_only
def test_process_that_hides_itself(start):
    pid = os.fork()
    if pid == 0:
        os.setuid(OTHER_UID)  # which makes it not dumpable
        signal.pause()
    try:
        said = as_user(OTHER_UID, lambda: attach(pid))
        assert said.startswith("permission: ") and "SYS_PTRACE" in said
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


HIDDEN = """
import os, subprocess, sys
subprocess.run(["mount", "-t", "proc", "-o", "hidepid=" + sys.argv[1], "proc", "/proc"], check=True)
from tensortui.attach import attach, errors, processes  # all of it, before the change of user
program = subprocess.Popen(["sleep", "60"])
os.setgid({uid})
os.setuid({uid})
try:
    attach(program.pid)
except errors.AttachError as error:
    print(error.kind, error)
"""


@root_only
@pytest.mark.parametrize("hidepid", ["1", "2"])
def test_proc_that_hides_other_users(hidepid):
    probe = ["unshare", "--pid", "--mount", "--fork", "--kill-child"]
    if subprocess.run([*probe, "mount", "-t", "proc", "-o", "hidepid=1", "proc", "/proc"], check=False).returncode:
        pytest.skip("no /proc of our own here")
    command = [*probe, sys.executable, "-c", HIDDEN.format(uid=OTHER_UID), hidepid]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.startswith("permission Process ") and "hidepid" in said


@pytest.mark.parametrize(("scope", "word"), [("1", "only a parent"), ("2", "only root"), ("3", "nobody")])
def test_yama(monkeypatch, tmp_path, scope, word):
    tmp_path.joinpath("scope").write_text(scope + "\n")
    monkeypatch.setattr(permissions, "YAMA", tmp_path / "scope")
    monkeypatch.setattr(permissions, "may_trace", lambda: False)
    error = permissions.explain(os.getpid())
    assert error.kind == "permission" and f"ptrace_scope is {scope}" in error.cause and word in error.cause
    assert "tensortui run" in error.next_step


def test_not_python():
    with subprocess.Popen(["sleep", "60"]) as process:
        fails(errors.NotPythonError, process.pid)
        process.kill()


def test_32_bit_program(tmp_path):
    code = b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7"  # for ever: pause()
    base, size = 0x08048000, 84 + len(b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7")
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + 84, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    program = tmp_path / "program"
    program.write_bytes(header + struct.pack("<8I", 1, 0, base, base, size, size, 5, 0x1000) + code)
    program.chmod(0o755)
    try:
        process = subprocess.Popen([program])
    except OSError as error:
        pytest.skip(f"the kernel runs no 32-bit programs: {error}")
    with process:
        assert "32-bit" in fails(errors.ArchError, process.pid).cause
        process.kill()


def test_other_platform(monkeypatch, start):
    monkeypatch.setattr(attaching.platform, "machine", lambda: "riscv64")
    assert "tensortui run" in fails(errors.UnsupportedError, start("busy").pid).next_step


def test_interpreter_that_has_shut_down(start, wait_for):
    program = start("exiting")
    wait_for(lambda: (call := sleeping_in(program.pid, program.pid)) and call.number == 34)
    fails(errors.NotInitializedError, program.pid)
    assert program.process.poll() is None


def test_interpreter_that_is_starting(start, greet):
    """Attach from the very first moment on: an error each time until it works, never harm."""
    for _ in range(3):
        program = start("busy", ready=False)
        kinds = []
        while True:
            try:
                endpoint = attach(program.pid)
                break
            except errors.AttachError as error:
                kinds.append(error.kind)
        assert set(kinds) <= {"gone", "not_python", "not_initialized", "no_thread", "timeout", "permission"}, kinds
        greet(endpoint).detach()
        assert program.line() == "READY"
        program.finish()


def test_errno_of_the_borrowed_thread_is_kept(start):
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
def test_memory_that_may_not_be_mapped(start, greet, pages):
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


def test_no_padding(monkeypatch, start):
    program = start("busy")
    monkeypatch.setattr(region, "STAGE_SIZE", region.PAGE)
    assert "padding" in fails(errors.NoRoomError, program.pid).cause
    assert program.finish() == "LEFT {}"


def test_thread_in_a_call_that_must_not_be_interrupted(start, wait_for):
    program = start("writing")
    wait_for(lambda: (call := sleeping_in(program.pid, program.pid)) and call.number == 1)
    fails(errors.NoThreadError, program.pid)
    assert Path(f"/proc/{program.pid}/syscall").read_text().startswith("1 ")
    assert program.finish().startswith("LEFT")


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc, for a process in uninterruptible sleep")
def test_thread_in_uninterruptible_sleep(monkeypatch, tmp_path, wait_for):
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
def test_no_more_threads(start):
    """The C library refuses a native thread to the process, which never comes to run a pending call either."""
    program = start("sleeping", python=SYSTEM_PYTHON, user=OTHER_UID, prefix=ONE_THREAD)
    assert "no thread" in fails(errors.QueueRefusedError, program.pid, timeout=0.5).cause
    assert program.finish() == "LEFT {}"


@root_only
def test_no_more_threads_while_busy(start):
    """The bootstrap runs as a pending call, and CPython refuses the agent's thread."""
    program = start("busy", python=SYSTEM_PYTHON, user=OTHER_UID, prefix=ONE_THREAD)
    assert "no thread could be started" in fails(errors.AgentFailedError, program.pid).cause
    assert program.finish() == "LEFT {}"


def test_another_attacher_is_at_it(start):
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


def test_gil_held_in_c(start, greet):
    program = start("gil_held", "3")
    error = fails(errors.AttachTimeoutError, program.pid, timeout=0.5)
    assert sleeping_in(program.pid, program.pid)  # still in that call: the time-out was kept
    assert "holds the GIL" in error.cause and "nothing will run later" in error.cause
    greet(attach(program.pid, timeout=20)).detach()
    assert program.line() == "OVER"
    assert program.finish() == "LEFT {}"


def test_cancelled_source_never_runs(start):
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


def test_kernel_that_refuses_a_write(monkeypatch, start):
    program = start("busy")

    def refuse(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(memory.Memory, "write", refuse)
    assert "Input/output error" in fails(errors.RefusedError, program.pid).cause
    assert program.finish() == "LEFT {}"


def test_long_computation_in_the_only_thread(start, greet):
    program = start("computing", "6000000")
    error = fails(errors.AttachTimeoutError, program.pid, timeout=0.5)
    assert "runs no Python code" in error.cause
    greet(attach(program.pid, timeout=30)).detach()
    program.finish()


@root_only
def test_agent_without_a_directory_for_its_socket(start, greet):
    """The names of its directories are taken by somebody else: the agent says so, and the attacher passes it on."""
    uid = OTHER_UID + 1
    program = start("busy", python=SYSTEM_PYTHON, user=uid)
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


def test_process_that_becomes_another_program_meanwhile(monkeypatch, start, wait_for):
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


def test_every_kind_is_its_own():
    found = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.AttachError)
    ]
    kinds = [each.kind for each in found]
    assert len(set(kinds)) == len(kinds) >= 18
