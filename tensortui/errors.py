"""What can go wrong, said so that the reader knows what to do: a cause and a next step."""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class TensortuiError(Exception):
    """A failure with its cause, the next step for the user, and the exit code of the command line.

    `kind` is a short stable word ("gone", "permission", ...) for scripts and tests; `cause` and `next_step` are one
    sentence each, without a trailing newline. Exit codes: 1 failed, 2 usage or unreadable file, 130 interrupted.
    """

    kind = "error"
    exit_code = EXIT_FAILED

    def __init__(self, cause: str, next_step: str = "", *, kind: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step
        if kind is not None:
            self.kind = kind

    def __str__(self) -> str:
        return f"{self.cause}\n{self.next_step}" if self.next_step else self.cause


class UsageError(TensortuiError):
    """The arguments, or a file that was named, cannot be used (exit code 2)."""

    kind = "usage"
    exit_code = EXIT_USAGE
