"""Starting a program with the agent in it, so that it runs exactly as the interpreter would run it by itself.

The interpreter is started on the program itself: `__main__`, `sys.argv`, `sys.path`, the exit code and the children of
multiprocessing are its own business. The agent comes in through a `sitecustomize` in a directory that PYTHONPATH names
first; it takes every trace of itself away again (directory, path entry, variable) before the program's first line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tensortui.errors import TensortuiError, UsageError

if TYPE_CHECKING:
    from tensortui.attach import Endpoint

# threading comes first: on Python <= 3.12 the thread that imports it is its main thread for good.
SITECUSTOMIZE = """\
import os, sys, threading
def start():
    folder = os.path.dirname(os.path.abspath(__file__))
    original = {original!r}
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    if original is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = original
    try:
        for place, folders, files in os.walk(folder, topdown=False):
            for name in files:
                os.unlink(os.path.join(place, name))
            os.rmdir(place)
    except OSError:
        pass
    try:
        exec(compile({bootstrap!r}, "<tensortui.attach>", "exec"), {{"__name__": "tensortui"}})
    except Exception:
        pass
start()
del sys.modules["sitecustomize"], start
import sitecustomize  # the environment's own, or the ImportError that site expects where there is none
"""
POLL_SECONDS = 0.02
LAST_LINE_BYTES = 4096


def command_line(python: str, module: bool, program: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `program` (a file, or with `module` a module) under the interpreter `python`."""
    executable = shutil.which(python)
    if executable is None:
        raise UsageError(f"There is no interpreter {python!r}.", "Give one with --python, as a path or a name in PATH.")
    if not module and not Path(program).exists():
        raise UsageError(f"There is no program {program!r}.", "Give the path of a Python file, or -m and a module.")
    return [executable, *(["-m"] if module else []), program, *arguments]


def environment_with_agent(environment: Mapping[str, str], *, budget: float) -> tuple[dict[str, str], Path]:
    """Return `environment` such that a Python started with it begins by starting the agent, which stays to its end.

    The directory that is returned too is removed by that Python; what is no Python leaves it behind.
    """
    from tensortui.attach import bootstrap_source
    from tensortui.attach.listening import STAYS

    original = environment.get("PYTHONPATH")
    text = SITECUSTOMIZE.format(original=original, bootstrap=bootstrap_source(budget=budget, idle_exit=STAYS))
    folder = temporary_folder("tensortui-run-")
    try:
        (folder / "sitecustomize.py").write_text(text, "utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _no_folder(error) from None
    path = f"{folder}{os.pathsep}{original}" if original else str(folder)
    return {**environment, "PYTHONPATH": path}, folder


def temporary_folder(prefix: str) -> Path:
    """Make a directory of our own."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise _no_folder(error) from None


def _no_folder(error: OSError) -> TensortuiError:
    return TensortuiError(
        f"A temporary file cannot be written: {error.strerror}.",
        "Set TMPDIR to a directory that can be written.",
        kind="no_folder",
    )


def replace_this_process(command: Sequence[str], *, budget: float) -> None:
    """Become `command` with the agent in it: same pid, terminal, signals and exit status as without us. No return."""
    environment, folder = environment_with_agent(os.environ, budget=budget)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(command[0], list(command), environment)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _not_run(command[0], error) from None


def _not_run(program: str, error: OSError) -> UsageError:
    return UsageError(f"{program} cannot be run: {error.strerror}.", "Give a Python interpreter with `--python EXE`.")


@dataclass
class Program:
    """A program that we started, in a session of its own: it can outlive the viewer and its terminal."""

    process: subprocess.Popen[bytes]
    log: Path
    folder: Path | None = None  # what brings the agent in; the program removes it as it starts

    @classmethod
    def start(cls, command: Sequence[str], log: Path, *, agent: bool, budget: float = 0.01) -> Program:
        """Start `command`, its output going to the file `log`; with `agent`, the agent is in it from the beginning."""
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        except OSError as error:
            raise UsageError(
                f"The log file {log} cannot be written: {error.strerror}.", "Give another with --log."
            ) from None
        with os.fdopen(descriptor, "wb") as output:
            environment, folder = environment_with_agent(os.environ, budget=budget) if agent else (None, None)
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                raise _not_run(command[0], error) from None
        return cls(process, log, folder)

    @property
    def pid(self) -> int:
        """The pid of the program."""
        return self.process.pid

    def ended(self) -> str | None:
        """How the program ended, in words; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        return f"exited with status {code}" if code >= 0 else f"was killed by signal {-code}"

    def status(self) -> int | None:
        """The exit status of the program as a shell tells it: 128 and the signal that killed it; None while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def last_line(self) -> str:
        """The last line of its output that is not empty."""
        with self.log.open("rb") as output:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(0, size - LAST_LINE_BYTES))
            return output.read().decode("utf-8", "replace").strip().rpartition("\n")[2]

    def wait_for_agent(self, seconds: float) -> Endpoint:
        """Return the endpoint of the agent that is in the program. Raises when it ends first or none answers."""
        try:
            return self._wait_for_agent(seconds)
        finally:
            if self.folder is not None:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_for_agent(self, seconds: float) -> Endpoint:
        from tensortui.attach import find_endpoint

        deadline = time.monotonic() + seconds
        while True:
            ended = self.ended()
            if ended is not None:
                raise self.failure(ended)
            endpoint = find_endpoint(self.pid)
            if endpoint is not None:
                return endpoint
            if time.monotonic() > deadline:
                raise TensortuiError(
                    f"The agent in process {self.pid} did not answer within {seconds:g} s.",
                    f"The program goes on; its output is in {self.log}. Try `tensortui attach {self.pid}`.",
                    kind="agent_silent",
                )
            time.sleep(POLL_SECONDS)

    def failure(self, ended: str) -> TensortuiError:
        """The error to raise when the program ended before there was anything to see."""
        said = self.last_line()
        return TensortuiError(
            f"The program {ended} before the viewer could open.",
            f"Its output is in {self.log}" + (f", and ends with: {said}" if said else "; it is empty."),
            kind="ended",
        )

    def end(self, seconds: float = 5.0) -> None:
        """End the program, and reap it: asked first, killed when it does not follow within `seconds`."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
