"""The part of the bootstrap that runs first in the target: it runs the agent's modules from memory.

Its source is sent, it is never imported there. Python 3.9 syntax, built-in modules alone. It must not raise, print,
put a name into __main__ or a module into sys.modules. What `begin` is given comes from bootstrap.py: the modules, cut
into pieces that each compile in a moment (compile() holds the GIL); the options for the agent; where to report why it
could not start.

What is made in the course of that is much: the collector would be due again and again, and whoever makes something then
runs it, with the finalizers of the target. So it sleeps meanwhile: see `Piece`.
"""

# ruff: noqa: UP006, UP031, UP035 - it also runs where Python is 3.9

import __future__

import gc
import sys
import time
from typing import Any, Dict, List, Tuple

Sources = Dict[str, List[Tuple[int, str]]]  # the (line, text) pieces of each module

# Annotations stay text: evaluated, they would leave classes of ours behind in typing's caches.
FLAGS = __future__.annotations.compiler_flag
PAUSE = 0.0005  # lets go of the GIL between two pieces
ALONE = 0.02  # seconds that who waits from now on waits before asking for the lock: several times what a piece takes
HALF_MICROSECOND = 5e-7  # the interval is kept in whole microseconds and cut down when it is set
OTHER_SECONDS = 10.0
REPORT_SIZE = 0xC00


class Piece:
    """What is compiled and run in one go, for some milliseconds at most, while the collector sleeps.

    The lock is given up first, and then kept: the switch interval is raised, so that nobody asks for it before the end,
    where both settings are put back. Nothing in a piece gives the lock up, so no other thread sees them or can change
    them meanwhile. That does not hold for a thread that has waited since before the pause and did not get a processor
    in all of it: it asks after the old interval, and sees the collector asleep until the lock is ours again. Should it
    put the collector to sleep itself in that moment, it is woken. The agent lets a thread of its own go in between to
    exclude that (`guard.Partner`); to have that here, its code would have to be loaded without any care first.
    """

    def __init__(self) -> None:
        """Nothing has begun."""
        self._interval = 0.0
        self._collecting = False
        self.open = False
        self._used = False

    def begin(self) -> None:
        """Take the lock afresh and keep it."""
        time.sleep(PAUSE)
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(ALONE)
        self._collecting = gc.isenabled()
        gc.disable()
        self.open = True
        self._used = False

    def use(self) -> None:
        """Be ready for another part of the work: one that was begun for nothing yet will do."""
        if self._used:
            self.end()
            self.begin()
        self._used = True

    def end(self) -> None:
        """Put the settings back. A system call is to come next: who makes something may have to collect."""
        if self.open:
            self.open = False
            sys.setswitchinterval(self._interval + HALF_MICROSECOND)
            if self._collecting:
                gc.enable()


PIECE = Piece()  # there is one thread that this is for


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
        within = PIECE.open
        if not within:
            PIECE.begin()
        try:
            parent, _, last = name.rpartition(".")
            package = self.load(parent) if parent else None
            module = self._loaded[name] = type(sys)(name)
            space = module.__dict__
            space["__builtins__"] = self._builtins
            if name in self._packages:
                space["__path__"] = []
            for line, text in self._sources.get(name, ()):
                PIECE.use()
                exec(compile("\n" * (line - 1) + text, "<%s>" % name, "exec", FLAGS, True, 2), space)
            if package is not None:
                setattr(package, last, module)
            return module
        except BaseException:
            self._loaded.pop(name, None)
            raise
        finally:
            if not within:  # else what is left of the module that imports this one belongs to the last piece of it
                PIECE.end()

    def find(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """What `import` does in the agent's modules."""
        if level or not self._ours(name):
            if not level and is_there(name, fromlist):
                return sys.modules[name]
            return self._import(name, globals, locals, fromlist, level)
        module = self.load(name)
        if not fromlist:
            return self.load(name.partition(".")[0])
        for each in fromlist:
            if self._ours(name + "." + each) and not hasattr(module, each):
                self.load(name + "." + each)
        return module

    def _import(self, name: str, globals: Any, locals: Any, fromlist: Any, level: int) -> Any:
        """Have the target import it. That may give up the lock: a piece ends here and goes on in another."""
        within = PIECE.open
        PIECE.end()
        try:
            return self._real(name, globals, locals, fromlist, level)
        finally:
            if within:
                PIECE.begin()

    def _ours(self, name: str) -> bool:
        return name in self._sources or name in self._packages

    def forget(self) -> None:
        """Drop every module, and what they hold."""
        for module in self._loaded.values():
            module.__dict__.clear()
        self._loaded.clear()
        self._sources.clear()


def is_there(name: str, fromlist: Any) -> bool:
    """Whether a module of the target was imported, with all that is asked of it: then nothing need be run for that."""
    module = sys.modules.get(name)
    if type(module) is not type(sys) or (not fromlist and "." in name):
        return False
    space = module.__dict__
    if getattr(space.get("__spec__"), "_initializing", False):
        return False  # another thread is at it
    return all(each in space for each in fromlist or ())


def own_stat() -> bytes:
    """What /proc says of this process, b"" where there is no /proc. Nothing is made here that the collector counts."""
    import os

    try:
        file = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 4096)
    except OSError:
        return b""
    finally:
        os.close(file)


def start_ticks(stat: bytes) -> int:
    """When this process started, as /proc says it; 0 where it does not."""
    try:
        return int(stat.rpartition(b")")[2].split()[19])
    except (ValueError, IndexError):
        return 0


def socket_paths(directories: List[str], stat: bytes) -> List[str]:
    """Where the agent may put its socket, the first choice first."""
    import os

    name = "%d-%d.sock" % (os.getpid(), start_ticks(stat))
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
    import _signal  # type: ignore[import-not-found]  # `signal` makes an object of each number

    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())


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
        stat = own_stat()
        PIECE.begin()
        block_signals()
        options = dict(payload["options"])
        options.setdefault("path", socket_paths(payload["directories"], stat))
        modules = Modules(sources)
        PIECE.end()
        if not claim(key, me, options["path"]):
            return
        modules.load(payload["entry"]).start(options)
    except BaseException as error:
        PIECE.end()
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
