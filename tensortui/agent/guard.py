"""Short pieces of work during which no other thread runs Python, and the question whether a backward is running.

What is read in such a piece (fast locals of a running frame, tensors that a graph node saved) is only safe to touch
while nobody else can free it.
"""

import _thread
import gc
import operator
import os
import sys
import time
from itertools import chain, islice, repeat
from types import CodeType, FrameType, FunctionType
from typing import Any, Dict, Iterable, List, Optional, Tuple

PAUSE = 5e-5  # seconds without the interpreter lock before a piece, where no second thread can be had
ALONE = 0.02  # seconds that who waits from now on waits before asking for the lock: a few may, once it is free again
PIECE = 4e-4  # seconds that the work in one piece may take
MOST_FRAMES = 4_000  # of all threads together that are gone through in one piece
LATER = 0.004  # what work yields when it can do nothing more for so many seconds, as while a backward runs
APART = "apart"  # what work yields before a step that gives up the lock, as reading a file does
HALF_MICROSECOND = 5e-7  # the interval is kept in whole microseconds and cut down when it is set


class Partner:
    """A second thread of the agent that takes the interpreter lock when it is told to, and gives it back at once.

    A thread that waits for the lock asks for it when one switch interval has passed and nobody else got it meanwhile.
    Giving the lock up and taking it back does not start that time anew for all who wait: on a crowded machine none of
    them may have come to it, and one piece in a thousand was then interrupted. A lock that went through another thread
    has changed hands for certain.
    """

    def __init__(self) -> None:
        """Start the thread; where the system has none left, there is only the pause."""
        self._go, self._done = _thread.allocate_lock(), _thread.allocate_lock()
        self._go.acquire()
        self._done.acquire()
        self._over = False
        self.pid = os.getpid()
        self.ident: Optional[int] = None
        try:
            self.ident = _thread.start_new_thread(self._serve, ())
        except RuntimeError:
            pass

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            over = self._over
            self._done.release()
            if over:
                return

    def take_turn(self) -> None:
        """Let the interpreter lock go through the other thread and come back."""
        if self.ident is None:
            time.sleep(PAUSE)
        else:
            self._go.release()
            self._done.acquire()

    def dismiss(self) -> None:
        """End the thread."""
        self._over = True
        self.take_turn()
        self.ident = None


class Company:
    """The threads that belong to the agent: the partner lives from the first piece until `dismiss`."""

    def __init__(self) -> None:
        """Nobody yet."""
        self._partner: Optional[Partner] = None
        self.alone: Optional[Alone] = None  # the outermost block that is open
        self.holder = 0  # the thread that opened it
        self.pieces = 0  # how many such blocks there have been: within one of them nobody else has run

    def partner(self) -> Partner:
        """Return the partner of this process: a fork leaves it behind."""
        if self._partner is None or self._partner.pid != os.getpid():
            self._partner = Partner()
        return self._partner

    def idents(self) -> Tuple[int, ...]:
        """Return the identifiers of the calling thread and of the partner."""
        me = _thread.get_ident()
        partner = None if self._partner is None else self._partner.ident
        return (me,) if partner is None else (me, partner)

    def dismiss(self) -> None:
        """End the partner's thread; the next piece would start another."""
        partner, self._partner = self._partner, None
        if partner is not None and partner.pid == os.getpid():
            partner.dismiss()


COMPANY = Company()


def not_alone() -> None:
    """Say that what follows gives up the interpreter lock, as all of torch's operators do: a mistake inside a block."""
    assert COMPANY.alone is None or COMPANY.holder != _thread.get_ident(), "the lock would be given up in a piece"


def collecting() -> bool:
    """Whether the target lets its collector run: in a block of ours it sleeps anyway."""
    return gc.isenabled() if COMPANY.alone is None else COMPANY.alone.collecting


class Alone:
    """A `with` block in which the interpreter lock stays with this thread and the collector stays asleep.

    The lock is given up and goes through another thread first, so that whoever waits for it waits anew; then the
    switch interval is raised, so that nobody who starts to wait asks for it before the block is over, if that takes
    well under `ALONE`. Both settings are changed and put back while the lock is held: as long as nothing in the block
    gives it up, no other thread ever sees them, and a fork inherits neither. The collector sleeps because it could run
    a finalizer of the target in the middle.

    So nothing in a block may give up the lock: no file is read and no socket written, and no torch operator called
    (what is learned from one is learned outside: see `not_alone`). And no exception may be in flight when a block ends:
    the frames it came through hold what they had in hand. A block inside another one changes nothing; it ends its
    pieces by its own limit or by that of the outer one, whichever comes first.
    """

    def __init__(self, limit: float = PIECE) -> None:
        """Prepare a block whose work stops after `limit` seconds, told by `over`. It may be entered again and again."""
        self.limit = limit  # of the piece under way
        self._wanted = limit
        self._end = 0.0
        self._begun = False
        self._interval: Optional[float] = None
        self.collecting = False

    def __enter__(self) -> "Alone":
        """Take the lock afresh and keep it."""
        self.begin()
        return self

    def __exit__(self, *_: Any) -> None:
        """Put both settings back as they were."""
        self.end()

    def begin(self) -> None:
        """Do as `with` does, which makes objects of these methods first: outside of a block, the collector counts."""
        self._begun = False
        outer = COMPANY.alone
        if outer is not None and COMPANY.holder == _thread.get_ident():
            self._end = min(outer._end, time.perf_counter() + self._wanted)
            return
        asked = time.perf_counter()
        COMPANY.partner().take_turn()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(ALONE)
        self._interval = interval
        self.collecting = gc.isenabled()
        if self.collecting:
            gc.disable()
        # Who began to wait in the microsecond before the interval was raised still asks after the old one, so a quarter
        # of that is the most. Where a thread runs that never lets go by itself turns are rare: all of it is used.
        now = time.perf_counter()
        self.limit = interval / 4 if now - asked > interval / 2 else min(self._wanted, interval / 4)
        self._end = now + self.limit
        COMPANY.alone, COMPANY.holder = self, _thread.get_ident()
        COMPANY.pieces += 1

    def end(self) -> None:
        """Do as the end of a `with` block does."""
        if self._interval is None:
            return
        COMPANY.alone = None
        sys.setswitchinterval(self._interval + HALF_MICROSECOND)
        self._interval = None
        if self.collecting:
            gc.enable()

    def over(self) -> bool:
        """Whether the time for this piece is used up.

        The first answer is no: each piece does something, however short the interval that the target has set.
        """
        if not self._begun:
            self._begun = True
            return False
        return time.perf_counter() >= self._end


class DisturbedError(Exception):
    """Another thread has run although this one was to be alone: what was to be read was not touched."""


ONLY_TRUE = {True: None}.__getitem__  # a C function that raises KeyError(False) where a proof fails


class Stillness:
    """Proof, at the very moment of a read, that no other thread has entered or left a Python function since.

    A thread may have gone on inside the function in which it was; whether that is harmless is for the reader to know.

    However long this thread may be kept from a processor in the middle of a piece, the interpreter lock is only given
    up between two instructions. So the proof and the read are made by one call of a C function, which goes through a
    chain of lazy iterators that are written in C as well.
    """

    def __init__(self) -> None:
        """Note where every thread is now."""
        self._frames: Dict[int, Any] = dict(sys._current_frames())
        self._me = _thread.get_ident()
        self._frames[self._me] = None  # our own frame leads to this object: it would keep all callers' variables alive

    @property
    def frames(self) -> Dict[int, FrameType]:
        """The innermost frame of every thread that is not the agent's, by its identifier."""
        ours = COMPANY.idents()
        return {thread: frame for thread, frame in self._frames.items() if thread not in ours}

    def read(self, values: Iterable[Any]) -> List[Any]:
        """Return what the lazy iterator `values` gives.

        Raises DisturbedError, with nothing read, if another thread has run, and what `values` itself raises.
        """
        frames = self._frames
        frames[self._me] = sys._getframe()
        now = map(operator.eq, islice(iter(sys._current_frames, None), 1), repeat(frames))
        try:
            return list(chain(map(ONLY_TRUE, now), values))[1:]
        except KeyError as error:
            if error.args == (False,):
                raise DisturbedError from None
            raise
        finally:
            frames[self._me] = None


_ENGINE = "run_backward"  # the method of the C++ engine: no function can start a backward without naming it


class Backward:
    """Tells whether any thread is inside a backward that Python started."""

    def __init__(self, modules: Dict[str, Any]) -> None:
        """Look in `modules` (sys.modules) whether torch starts it as expected, without importing anything."""
        graph = modules.get("torch.autograd.graph")
        function = vars(graph).get("_engine_run_backward") if graph is not None else None
        self.known = type(function) is FunctionType and starts_backward(function.__code__)

    def running(self, now: Stillness) -> bool:
        """Whether one is running in that moment, or may be: stacks of absurd depth are not gone through.

        A function that names the engine's method may call it at any time without entering another: it counts as one
        that does. So where no backward runs, none begins before some thread has entered a function.
        """
        left = MOST_FRAMES
        for frame in now.frames.values():
            at: Any = frame
            while at is not None:
                if starts_backward(at.f_code):
                    return True
                at = at.f_back
                left -= 1
                if not left:
                    return True
        return False


def starts_backward(code: CodeType) -> bool:
    """Whether a function may start a backward by itself."""
    return _ENGINE in code.co_names
