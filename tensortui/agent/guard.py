"""Short pieces of work during which no other thread runs Python, and the question whether a backward is running.

What is read in such a piece (fast locals of a running frame, tensors that a graph node saved) is only safe to touch
while nobody else can free it.
"""

import _thread
import gc
import sys
import time
from types import CodeType, FunctionType
from typing import Any, Dict, Optional, Tuple

PAUSE = 5e-5  # seconds without the interpreter lock before a piece: whoever waited for it has had it
ALONE = 1.0  # seconds that who waits from now on waits before asking for the lock
PIECE = 4e-4  # seconds that the work in one piece may take
HALF_MICROSECOND = 5e-7  # the interval is kept in whole microseconds and cut down when it is set


class Alone:
    """A `with` block in which the interpreter lock stays with this thread and the collector stays asleep.

    The lock is given up and taken back first, so nobody has been waiting for long; then the switch interval is raised,
    so that nobody who starts to wait asks for the lock before the block is over, if it takes well under a second. Both
    settings are changed and put back while the lock is held: no other thread ever sees them, and a fork inherits
    neither. The collector sleeps because it could run a finalizer of the target in the middle of the block.
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
        interval = sys.getswitchinterval()
        sys.setswitchinterval(ALONE)
        self._interval = interval
        self._collecting = gc.isenabled()
        if self._collecting:
            gc.disable()
        # A thread that began to wait just before the interval was raised still asks after the old one.
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

    def running(self) -> bool:
        """Whether one is running now. Only true for as long as the caller is `Alone`."""
        codes = self._codes
        me = _thread.get_ident()
        for thread, frame in sys._current_frames().items():
            if thread == me:
                continue
            at: Any = frame
            while at is not None:
                code = at.f_code
                for one in codes:
                    if code is one:
                        return True
                at = at.f_back
        return False
