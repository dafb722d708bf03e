"""sys.remote_exec, for where no thread can be borrowed: Python 3.14 and later only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensortui.attach import attach, attaching, errors, find_endpoint, remote_exec
from tensortui.attach.bootstrap import socket_directories
from tensortui.attach.handover import Handover
from tensortui.attach.remote_exec import _only_roots

UID = 54327


@pytest.fixture
def python314(pythons, monkeypatch):
    """A CPython 3.14, on a machine where threads cannot be borrowed."""
    if "3.14" not in pythons:
        pytest.skip("no CPython 3.14 found (name one in TENSORTUI_TEST_PYTHONS)")
    monkeypatch.setattr(attaching.platform, "machine", lambda: "aarch64")
    return pythons["3.14"]


def left_over(pid):
    """The directories that were made for process `pid`."""
    return [path for each in socket_directories() for path in Path(each).glob(f"tensortui-start-{pid}-*")]


def test_attaches(start, greet, python314):
    program = start("busy", python=python314)
    endpoint = attach(program.pid)
    assert endpoint.how == "remote_exec" and endpoint.fresh and endpoint.token
    assert attach(program.pid).how == "connected"
    greet(endpoint).detach()
    assert not left_over(program.pid)
    assert program.finish() == "LEFT {}"


def test_what_came_too_late_only_removes_itself(start, greet, python314, wait_for):
    """A main thread that runs no bytecode for now: each try times out, and when it goes on no agent comes."""
    program = start("waiting_for_input", python=python314)
    for _ in range(2):
        with pytest.raises(errors.AttachTimeoutError, match="runs no Python code"):
            attach(program.pid, timeout=0.3)
        assert len(left_over(program.pid)) == 1  # the process knows of the last one alone
    assert program.ask("hello") == "hello"
    wait_for(lambda: not left_over(program.pid), "the end of the script")
    assert find_endpoint(program.pid) is None
    assert program.finish() == "LEFT {'names': ['line']}"  # its own


@pytest.fixture
def handover():
    """A directory for this very process, given."""
    made = Handover(os.getpid())
    made.give("pass")
    yield made
    made.remove()
    assert not left_over(os.getpid())


def test_report_is_read_and_nothing_else(handover, tmp_path):
    assert handover.report() == ""
    report = Path(handover.there, "report")
    report.write_bytes(b"why\0\0")
    assert handover.report() == "why"
    report.unlink()
    tmp_path.joinpath("secret").write_text("secret")
    report.symlink_to(tmp_path / "secret")
    assert handover.report() == ""
    report.unlink()
    os.mkfifo(report)
    assert handover.report() == ""


def test_links_in_the_directory_lead_nowhere(handover, tmp_path):
    """Who owns the directory may put links into it, and root must write through none of them."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in ("start.py", "next.py"):
        Path(handover.there, name).unlink(missing_ok=True)
        Path(handover.there, name).symlink_to(precious)
    handover.withdraw()
    assert precious.read_text() == "precious" and precious.stat().st_uid == os.geteuid()
    handover.__init__(os.getpid())  # for what the fixture does in the end
    handover.forget_others()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give something away")
def test_everything_is_the_users(start, everyones_python):
    program = start("sleeping", python=everyones_python, user=UID)
    made = Handover(program.pid)
    made.give("pass")
    for path in (Path(made.there), Path(made.there, "start.py")):
        assert (path.stat().st_uid, path.stat().st_mode & 0o077) == (UID, 0)
    made.remove()
    assert not left_over(program.pid)


def test_root_runs_no_program_of_somebody_else(tmp_path):
    program = tmp_path / "python"
    program.write_text("")
    program.chmod(0o755)
    assert _only_roots(program) == (os.geteuid() == 0)
    program.chmod(0o775)
    assert not _only_roots(program)


USERS_OWN_NAMESPACES = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "unshare", "-r", "--mount"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give rights up")
def test_root_runs_nothing_as_root_among_the_mounts_of_a_user(wait_for, everyones_python):
    """The program there is root's, and the libraries it would load are whatever that user has mounted."""
    if subprocess.run([*USERS_OWN_NAMESPACES, "true"], capture_output=True, check=False).returncode:
        pytest.skip("users may make no namespaces here")
    with subprocess.Popen([*USERS_OWN_NAMESPACES, everyones_python, "-c", "input()"], stdin=subprocess.PIPE) as process:
        wait_for(lambda: os.readlink(f"/proc/{process.pid}/exe") == os.path.realpath(everyones_python))
        assert _only_roots(Path(f"/proc/{process.pid}/exe"))
        command = remote_exec._command(process.pid, "script")
        assert {"--mount", f"--setuid={UID}", f"--setgid={UID}"} <= set(command[: command.index("--")])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give rights up")
def test_root_with_fewer_rights_is_given_no_more(wait_for, everyones_python):
    prefix = ["unshare", "--mount", "setpriv", "--bounding-set=-sys_admin"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no new namespaces here")
    with subprocess.Popen([*prefix, everyones_python, "-c", "input()"], stdin=subprocess.PIPE) as process:
        wait_for(lambda: os.readlink(f"/proc/{process.pid}/exe") == os.path.realpath(everyones_python))
        with pytest.raises(errors.UnsupportedError, match="rights that the process does not have"):
            remote_exec._command(process.pid, "script")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts of its own")
def test_links_in_the_root_of_another_lead_nowhere(tmp_path, wait_for):
    """Absolute links in somebody else's root are, when root follows them from here, links into our own."""
    ours = tmp_path / "ours"
    ours.mkdir()
    links = f"mount -t tmpfs none /mnt && mkdir /mnt/dev && ln -s {ours} /mnt/tmp"
    links += f" && ln -s {ours} /mnt/dev/shm && ln -s {ours.parent} /mnt/var && mkdir {ours.parent}/tmp"
    code = f"import os; os.system({links!r}); os.chroot('/mnt'); print(1, flush=True); input()"
    command = ["unshare", "--mount", sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout.readline() != "1\n":
            pytest.skip("no new namespaces here")
        with pytest.raises(errors.UnsupportedError, match="no directory"):
            Handover(process.pid)
    assert list(ours.iterdir()) == []


def test_interrupted_attach_leaves_a_script_that_does_nothing_but_remove_itself(monkeypatch):
    """A script that the process has been told of and cannot find makes it complain."""
    told = []

    def interrupt(pid, handover, end):
        raise KeyboardInterrupt

    monkeypatch.setattr(remote_exec, "_call", lambda pid, script, timeout: told.append(script))
    monkeypatch.setattr(remote_exec, "_await_agent", interrupt)
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt):
        remote_exec.attach_by_remote_exec(os.getpid(), 1.0, 0.01, "token")
    assert len(os.listdir("/proc/self/fd")) == files
    exec(Path(told[0]).read_text())
    assert not left_over(os.getpid()) and find_endpoint(os.getpid()) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_program_of_another_user_is_run_as_that_user(start, greet, python314, monkeypatch):
    monkeypatch.setattr(remote_exec, "_only_roots", lambda program: False)
    program = start("busy", python=python314, user=UID)
    endpoint = attach(program.pid)
    assert endpoint.how == "remote_exec"
    greet(endpoint).detach()
    assert program.finish() == "LEFT {}"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_private_namespaces(start, greet, wait_for, python314):
    probe = ["unshare", "--pid", "--mount", "--fork", "--mount-proc"]
    if subprocess.run([*probe, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no new namespaces here")
    prefix = [*probe, "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"]
    program = start("busy", python=python314, prefix=prefix)
    task = Path(f"/proc/{program.pid}/task/{program.pid}/children")
    program.pid = int(wait_for(task.read_text).split()[0])
    endpoint = attach(program.pid)
    assert endpoint.how == "remote_exec"
    greet(endpoint).detach()
    assert program.finish() == "LEFT {}"


def test_older_python_says_start_with_the_agent(start, monkeypatch):
    if sys.version_info >= (3, 14):
        pytest.skip("this Python is not older")
    monkeypatch.setattr(attaching.platform, "machine", lambda: "aarch64")
    program = start("busy")
    with pytest.raises(errors.UnsupportedError, match="tensortui run"):
        attach(program.pid)
    assert program.finish() == "LEFT {}"
