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

PAUSE = 5e-5  # seconds without the interpreter lock before a piece: whoever waited for it can have it
ALONE = 1.0  # seconds that who waits from now on waits before asking for the lock
PIECE = 4e-4  # seconds that the work in one piece may take
MOST_FRAMES = 4_000  # of all threads together that are gone through in one piece
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
        if self.ident is not None:
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


class Alone:
    """A `with` block in which the interpreter lock stays with this thread and the collector stays asleep.

    The lock is given up and goes through another thread first, so that whoever waits for it waits anew; then the
    switch interval is raised, so that nobody who starts to wait asks for it before the block is over, if that takes
    well under a second. Both settings are changed and put back while the lock is held: no other thread ever sees them,
    and a fork inherits neither. The collector sleeps because it could run a finalizer of the target in the middle.
    """

    def __init__(self, limit: float = PIECE) -> None:
        """Prepare a block whose work stops after `limit` seconds, told by `over`."""
        self.limit = limit
        self._end = 0.0
        self._interval: Optional[float] = None
        self._collecting = False

    def __enter__(self) -> "Alone":
        """Take the lock afresh and keep it."""
        time.sleep(PAUSE)
        COMPANY.partner().take_turn()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(ALONE)
        self._interval = interval
        self._collecting = gc.isenabled()
        if self._collecting:
            gc.disable()
        # Who began to wait in the microsecond before the interval was raised still asks after the old one.
        self.limit = min(self.limit, interval / 4)
        self._end = time.perf_counter() + self.limit
        return self

    def __exit__(self, *_: Any) -> None:
        """Put both settings back as they were."""
        if self._collecting:
            gc.enable()
        if self._interval is not None:
            sys.setswitchinterval(self._interval + HALF_MICROSECOND)
            self._interval = None

    def over(self) -> bool:
        """Whether the time for this piece is used up."""
        return time.perf_counter() >= self._end


class DisturbedError(Exception):
    """Another thread has run although this one was to be alone: what was to be read was not touched."""


_ONLY_TRUE = {True: None}.__getitem__


class Stillness:
    """Proof, at the very moment of a read, that no other thread has called or returned since this was made.

    However long this thread may be kept from a processor in the middle of a piece, the interpreter lock is only given
    up between two instructions. So the proof and the read are made by one call of a C function, which goes through a
    chain of lazy iterators that are written in C as well.
    """

    def __init__(self) -> None:
        """Note where every thread is now."""
        self._frames: Dict[int, Any] = sys._current_frames()
        self._me = _thread.get_ident()

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
            return list(chain(map(_ONLY_TRUE, now), values))[1:]
        except KeyError as error:
            if error.args == (False,):
                raise DisturbedError from None
            raise
        finally:
            frames[self._me] = None


_BACKWARDS = (
    ("torch.autograd.graph", "_engine_run_backward"),
    ("torch.autograd", "backward"),
    ("torch.autograd", "grad"),
)


class Backward:
    """Tells whether any thread is inside a backward that Python started."""

    def __init__(self, modules: Dict[str, Any]) -> None:
        """Look the entry points up in `modules` (sys.modules) without importing anything."""
        self._codes: Tuple[CodeType, ...] = ()
        for module, name in _BACKWARDS:
            function = vars(modules[module]).get(name) if module in modules else None
            if type(function) is FunctionType:
                self._codes += (function.__code__,)

    @property
    def known(self) -> bool:
        """Whether the entry points were found: without them no saved tensor may be read."""
        return bool(self._codes)

    def running(self, now: Stillness) -> bool:
        """Whether one is running in that moment, or may be: stacks of absurd depth are not gone through."""
        codes = self._codes
        left = MOST_FRAMES
        for frame in now.frames.values():
            at: Any = frame
            while at is not None:
                code = at.f_code
                for one in codes:
                    if code is one:
                        return True
                at = at.f_back
                left -= 1
                if not left:
                    return True
        return False
