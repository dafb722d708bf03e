"""The part of the bootstrap that runs first in the target: it runs the agent's modules from memory.

Its source is sent, it is never imported there. Python 3.9 syntax, built-in modules alone. It must not raise, print,
put a name into __main__ or a module into sys.modules. What `begin` is given comes from bootstrap.py: the modules, cut
into pieces that each compile in a moment (compile() holds the GIL); the options for the agent; where to report why it
could not start.
"""

# ruff: noqa: UP006, UP031, UP035, PTH123 - it also runs where Python is 3.9

import __future__

import sys
import time
from typing import Any, Dict, List, Tuple

Sources = Dict[str, List[Tuple[int, str]]]  # the (line, text) pieces of each module

# Annotations stay text: evaluated, they would leave classes of ours behind in typing's caches.
FLAGS = __future__.annotations.compiler_flag
PAUSE = 0.0005  # lets go of the GIL between two pieces
OTHER_SECONDS = 10.0
REPORT_SIZE = 0xC00


class Modules:
    """The agent's modules: an __import__ that finds them, and leaves every other name to the real one."""

    def __init__(self, sources: Sources) -> None:
        """The packages among them are those that others lie in."""
        import builtins

        self._sources = sources
        self._packages = {name.rpartition(".")[0] for name in sources} | {"tensortui"}
        self._loaded: Dict[str, Any] = {}
        self._real = builtins.__import__
        self._builtins = dict(builtins.__dict__, __import__=self.find)

    def load(self, name: str) -> Any:
        """The module `name`, run when it is asked for first; its package holds it as an attribute."""
        module = self._loaded.get(name)
        if module is not None:
            return module
        parent, _, last = name.rpartition(".")
        package = self.load(parent) if parent else None
        module = type(sys)(name)
        space = module.__dict__
        space["__builtins__"] = self._builtins
        if name in self._packages:
            space["__path__"] = []
        self._loaded[name] = module
        try:
            for line, text in self._sources.get(name, ()):
                code = compile("\n" * (line - 1) + text, "<%s>" % name, "exec", FLAGS, True, 2)
                exec(code, space)
                time.sleep(PAUSE)
        except BaseException:
            del self._loaded[name]
            raise
        if package is not None:
            setattr(package, last, module)
        return module

    def find(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """What `import` does in the agent's modules."""
        if level or not self._ours(name):
            return self._real(name, globals, locals, fromlist, level)
        module = self.load(name)
        if not fromlist:
            return self.load(name.partition(".")[0])
        for each in fromlist:
            if self._ours(name + "." + each) and not hasattr(module, each):
                self.load(name + "." + each)
        return module

    def _ours(self, name: str) -> bool:
        return name in self._sources or name in self._packages

    def forget(self) -> None:
        """Drop every module, and what they hold."""
        for module in self._loaded.values():
            module.__dict__.clear()
        self._loaded.clear()
        self._sources.clear()


def start_ticks() -> int:
    """When this process started, as /proc says it; 0 where there is no /proc."""
    try:
        with open("/proc/self/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def socket_paths(directories: List[str]) -> List[str]:
    """Where the agent may put its socket, the first choice first."""
    import os

    name = "%d-%d.sock" % (os.getpid(), start_ticks())
    return ["%s/tensortui-%d/%s" % (directory, os.geteuid(), name) for directory in directories]


def report(text: str, payload: Dict[str, Any]) -> None:
    """Say why the agent could not start, where the one who sent us looks for it."""
    import os

    address, path = payload["report_address"], payload["report_path"]
    data = text.encode("utf-8", "replace")[: REPORT_SIZE - 1] + b"\0"
    try:
        if address:
            file = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
            try:
                os.pwrite(file, data, address)
            finally:
                os.close(file)
        elif path:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(file, data)
            finally:
                os.close(file)
    except OSError:
        pass


def block_signals() -> None:
    """No signal handler runs on this thread."""
    import signal

    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def answers(paths: List[str]) -> bool:
    """Whether an agent of this process accepts connections."""
    import socket

    for path in paths:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(1.0)
                client.connect(path)
                return True
        except OSError:
            pass
    return False


def claim(key: str, me: object, paths: List[str]) -> bool:
    """Become the one agent of this process; False when another one serves it. One that is about to end is awaited."""
    end = time.monotonic() + OTHER_SECONDS
    while sys.__dict__.setdefault(key, me) is not me:  # atomic, under the GIL
        if answers(paths):
            return False
        if time.monotonic() > end:
            raise RuntimeError("another agent is in this process and does not answer")
        time.sleep(0.005)
    return True


def begin(sources: Sources, payload: Dict[str, Any]) -> None:
    """Run the agent in this thread until it ends."""
    import os

    key = "_tensortui_%d" % os.getpid()  # with the pid, for a forked child inherits the name but not the agent
    me = object()
    modules = None
    try:
        block_signals()
        options = dict(payload["options"])
        options.setdefault("path", socket_paths(payload["directories"]))
        if not claim(key, me, options["path"]):
            return
        modules = Modules(sources)
        modules.load(payload["entry"]).start(options)
    except BaseException as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        at = " (%s:%d)" % (where.tb_frame.f_code.co_filename, where.tb_lineno) if where is not None else ""
        try:
            said = str(error)
        except BaseException:
            said = ""
        report(type(error).__name__ + ": " + said + at, payload)
        where = None
    finally:
        if sys.__dict__.get(key) is me:
            del sys.__dict__[key]
        if modules is not None:
            modules.forget()
