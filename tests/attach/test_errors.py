"""What a process can be that cannot be attached to: each says what it is and what to do, and is left well."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tensortui.attach import attach, attaching, errors, permissions
from tensortui.attach import processes as _loaded_before_a_change_of_user  # noqa: F401
from tensortui.attach.threads import sleeping_in

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
OTHER_UID = 54321


def test_gone(fails):
    process = subprocess.Popen(["true"])
    process.wait()
    fails(errors.GoneError, process.pid)


def test_zombie(wait_for, fails):
    process = subprocess.Popen(["true"])
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "Z")
    assert "zombie" in str(fails(errors.GoneError, process.pid))
    process.wait()


def test_stopped_then_continued(start, greet, wait_for, fails):
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


def test_traced_then_not(start, greet, fails):
    program = start("busy")
    command = [sys.executable, "-c", TRACER.format(program.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout.readline() == "1\n"
        assert str(tracer.pid) in fails(errors.TracedError, program.pid).cause
        tracer.communicate("\n\n")
    greet(attach(program.pid)).detach()
    program.finish()


def test_traced_with_the_agent_in_it(start, greet, wait_for, fails):
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


def test_thread_id(start, fails):
    program = start("many_threads")
    tid = next(int(name) for name in os.listdir(f"/proc/{program.pid}/task") if int(name) != program.pid)
    assert f"tensortui attach {program.pid}" in fails(errors.NotAProcessError, tid).next_step


@root_only
def test_another_users_process(start, as_user):
    program = start("busy")
    said = as_user(OTHER_UID, lambda: attach(program.pid))
    assert said.startswith("permission: ") and "another user (uid 0)" in said and "sudo" in said
    program.finish()


@root_only
def test_root_that_may_not_trace_is_not_told_to_become_root(start, everyones_python):
    """In a container, for example: there the kernel asks for SYS_PTRACE, of root too."""
    program = start("sleeping", python=everyones_python, user=OTHER_UID)
    code = f"from tensortui.attach import attach; attach({program.pid})"
    command = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines()
    assert "a container without SYS_PTRACE" in said[-2] and "--cap-add=SYS_PTRACE" in said[-1]


@root_only
def test_process_that_hides_itself(start, as_user):
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


def test_not_python(fails):
    with subprocess.Popen(["sleep", "60"]) as process:
        fails(errors.NotPythonError, process.pid)
        process.kill()


def test_32_bit_program(tmp_path, fails):
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


def test_other_platform(monkeypatch, start, fails):
    monkeypatch.setattr(attaching.platform, "machine", lambda: "riscv64")
    assert "tensortui run" in fails(errors.UnsupportedError, start("busy").pid).next_step


def test_interpreter_that_has_shut_down(start, wait_for, fails):
    program = start("exiting")
    wait_for(lambda: (call := sleeping_in(program.pid, program.pid)) and call.number == 34)
    fails(errors.NotInitializedError, program.pid)
    assert program.process.poll() is None


SLOW = """
static void real(void) {}
static void *resolve(void) {
    char byte;
    long result = 0;  /* read(0, &byte, 1): no function of any library can be called yet */
    __asm__ volatile("syscall" : "+a"(result) : "D"(0L), "S"(&byte), "d"(1L) : "rcx", "r11", "memory");
    return (void *)real;
}
void slow(void) __attribute__((ifunc("resolve")));
void (*pointer)(void) = slow;
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc, for a library that is slow to load")
def test_interpreter_that_is_being_loaded(fails, tmp_path, pythons, wait_for):
    """The loader has mapped CPython's library and not relocated it: whoever called its functions would crash."""
    shared = [each for each in pythons.values() if " " not in each and "libpython3" in libraries_of(each)]
    if not shared:
        pytest.skip("no CPython with a shared library")
    build = ["gcc", "-O0", "-shared", "-fPIC", "-x", "c", "-"]
    subprocess.run([*build, "-o", tmp_path / "libslow.so"], input=SLOW, text=True, check=True)
    source = (
        "void slow(void); void wait_for_it(void) { slow(); }"  # a library's libraries come last, so are relocated first
    )
    where = ["-L", tmp_path, f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed", "-lslow"]
    subprocess.run([*build, "-o", tmp_path / "libfirst.so", *where], input=source, text=True, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "libfirst.so")}
    command = [shared[0], "-c", "print('fine')"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        wait_for(lambda: (call := sleeping_in(process.pid, process.pid)) and (call.number, call.arguments[2]) == (0, 1))
        assert "libpython3" in Path(f"/proc/{process.pid}/maps").read_text()
        fails(errors.NotInitializedError, process.pid)
        assert process.communicate("x") == ("fine\n", None)
    assert process.returncode == 0


def libraries_of(program):
    return subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout


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


def test_every_kind_is_its_own():
    found = [
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.AttachError)
    ]
    kinds = [each.kind for each in found]
    assert len(set(kinds)) == len(kinds) >= 18
