"""Why an agent could not be put into a process: one class per kind, each with its cause and the next step."""

from __future__ import annotations

from tensortui.errors import TensortuiError

NOT_HERE = "on this platform only Python 3.14 and later can be entered from outside"
CHECK_LIMITS = "Check its limits on threads and memory (ulimit -u, cgroup pids.max), then try again."
START_WITH_AGENT = "Start the program with the agent in it: `tensortui run prog args...`."


class AttachError(TensortuiError):
    """The agent could not be put into the process; the process goes on unharmed."""

    kind = "attach"


class GoneError(AttachError):
    """There is no such process, or it ended meanwhile."""

    kind = "gone"

    def __init__(self, pid: int, what: str = "does not exist") -> None:
        super().__init__(f"Process {pid} {what}.", "List the processes that can be attached to: `tensortui ps`.")


class StoppedError(AttachError):
    """The process is stopped by a signal."""

    kind = "stopped"

    def __init__(self, pid: int) -> None:
        super().__init__(f"Process {pid} is stopped (SIGSTOP or Ctrl-Z).", f"Continue it first: `kill -CONT {pid}`.")


class TracedError(AttachError):
    """A debugger traces the process; `held` says that it has stopped it, too."""

    kind = "traced"

    def __init__(self, pid: int, tracer: int, *, held: bool = False) -> None:
        super().__init__(f"Process {pid} is traced by process {tracer}.", "Detach that debugger or strace first.")
        self.held = held


class PermissionDeniedError(AttachError):
    """The kernel does not let this user into the process."""

    kind = "permission"


class NotPythonError(AttachError):
    """The process has no CPython to be found."""

    kind = "not_python"

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"Process {pid} has no CPython symbols: it is not Python, or a static build that hides them.",
            "List the Python processes with `tensortui ps`. For such a build: " + START_WITH_AGENT,
        )


class NotAProcessError(AttachError):
    """The id is a thread's."""

    kind = "thread_id"

    def __init__(self, tid: int, pid: int) -> None:
        super().__init__(f"{tid} is a thread of process {pid}.", f"Attach to the process: `tensortui attach {pid}`.")


class ArchError(AttachError):
    """The process runs machine code of another kind."""

    kind = "arch"

    def __init__(self, pid: int, what: str) -> None:
        super().__init__(f"Process {pid} is not an x86_64 process ({what}).", START_WITH_AGENT)


class UnsupportedError(AttachError):
    """No way into a running process on this platform with this Python."""

    kind = "platform"

    def __init__(self, pid: int, why: str) -> None:
        super().__init__(f"Process {pid} cannot be attached to: {why}.", START_WITH_AGENT)


class NotInitializedError(AttachError):
    """The interpreter is starting up or shutting down."""

    kind = "not_initialized"

    def __init__(self, pid: int) -> None:
        super().__init__(f"The interpreter of process {pid} is starting up or shutting down.", "Try again in a moment.")


class SyscallRefusedError(AttachError):
    """A system call that the target had to make for us was refused."""

    kind = "syscall"

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"Process {pid} may not map executable memory (seccomp, SELinux execmem, or a memory limit).",
            START_WITH_AGENT,
        )


class NoRoomError(AttachError):
    """The address space has no place for the bootstrap."""

    kind = "no_room"

    def __init__(self, pid: int, what: str) -> None:
        super().__init__(f"Process {pid} has no room for the bootstrap: {what}.", START_WITH_AGENT)


class NoThreadError(AttachError):
    """No thread could be borrowed safely."""

    kind = "no_thread"

    def __init__(self, pid: int, why: str) -> None:
        super().__init__(
            f"No thread of process {pid} could be borrowed safely ({why}).",
            "Try again in a moment; if it stays so: " + START_WITH_AGENT,
        )


class ThreadStuckError(AttachError):
    """A thread did not stop when asked to."""

    kind = "thread_stuck"

    def __init__(self, pid: int, tid: int) -> None:
        super().__init__(
            f"Thread {tid} of process {pid} does not react: it is in uninterruptible sleep (a disk, NFS or a driver).",
            "Wait until it is through, then try again.",
        )


class QueueRefusedError(AttachError):
    """CPython or the C library refused the call."""

    kind = "refused"

    def __init__(self, pid: int) -> None:
        super().__init__(
            f"Process {pid} could start no thread for the agent, and its main thread runs no Python code.",
            CHECK_LIMITS,
        )


class BusyError(AttachError):
    """Another tensortui is attaching to the same process."""

    kind = "busy"

    def __init__(self, pid: int) -> None:
        super().__init__(f"Another tensortui is attaching to process {pid}.", "Try again in a moment.")


class AttachTimeoutError(AttachError):
    """The bootstrap was queued, did not run in time, and was cancelled."""

    kind = "timeout"

    def __init__(self, pid: int, seconds: float, *, gil_held: bool) -> None:
        why = (
            "a thread holds the GIL in a long C call"
            if gil_held
            else "its main thread runs no Python code and no other thread could be used"
        )
        super().__init__(
            f"No Python code could run in process {pid} within {seconds:.3g} s: {why}. "
            "Cancelled; nothing will run later.",
            "Try again when that call is over, with a longer --timeout, or start with `tensortui run prog args...`.",
        )


# What the report of an agent that could not start says, and what to do then; else it is about its socket.
AFTER_REPORT = (
    ("global interpreter lock", "Start the program with the lock: `python -X gil=1`, or PYTHON_GIL=1."),
    ("no thread could be started", CHECK_LIMITS),
    ("does not answer", "Try again in a moment."),
)
NEEDS_DIRECTORY = "It needs a directory for its socket (/tmp, /dev/shm or /var/tmp, writable by the process)."


class AgentFailedError(AttachError):
    """The bootstrap ran in the target and the agent could not start."""

    kind = "agent_failed"

    def __init__(self, pid: int, report: str) -> None:
        super().__init__(
            f"The agent could not start in process {pid}: {report.rstrip('.')}.",
            next((step for words, step in AFTER_REPORT if words in report), NEEDS_DIRECTORY),
        )


class AgentSilentError(AttachError):
    """The bootstrap ran in the target, and neither the agent's socket nor a report came."""

    kind = "agent_silent"

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(
            f"The agent was started in process {pid} but did not answer within {seconds:.3g} s.",
            "The process may be very busy: attach again, which connects to the agent once it listens.",
        )


class RefusedError(AttachError):
    """The kernel refused something that it grants as a rule."""

    kind = "system"

    def __init__(self, pid: int, error: Exception) -> None:
        super().__init__(
            f"The kernel refused a step of attaching to process {pid} ({error}): "
            "a hardened kernel (proc_mem.force_override), or a security module.",
            START_WITH_AGENT,
        )
