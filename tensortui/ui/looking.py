"""The tensor that the Layout screen looks at: its place, its storage with who else is on it, and one element of it."""

from __future__ import annotations

from itertools import chain, combinations

from tensortui.analysis.accounting import Accounts
from tensortui.analysis.layout import Element, LayoutError, Place, Ribbon, absent_devices, element, ribbon
from tensortui.analysis.layout.windows import last_two
from tensortui.analysis.overlaps import Beside
from tensortui.model import Sample, Storage, Tensor

MOST = 4096  # tensors on one storage that are all drawn
NOBODY = -1
Dims = tuple[int | None, int | None]


class Look:
    """Follows one tensor from sample to sample; what was seen last stays when the tensor goes."""

    def __init__(self, tensor: Tensor) -> None:
        """Look at a tensor; the first sample taken tells of its storage."""
        self.tensor = tensor
        self.storage: Storage | None = None
        self.mates: tuple[Tensor, ...] = ()  # all tensors over its memory, this one too, by where they begin
        self.beside = Beside({}, 0)  # other storages over the same memory
        self._records: tuple[Tensor, ...] = ()  # the same, as the sample has them
        self._drawn: tuple[object, object, Ribbon] | None = None
        self.live_bytes: int | None = None  # of the storage, that any tensor reaches
        self.gone = False
        self.heir: Tensor | None = None  # what goes by its name since it is gone
        self.place: Place | None = None
        self.why_not = ""  # why there is no place
        self.absent: frozenset[str] = frozenset()  # kinds of device that the process cannot have
        self.index: tuple[int, ...] = ()  # of the element under the cursor
        self.dims: Dims = (None, None)
        self._begin()

    @property
    def tid(self) -> int:
        """The tensor's id."""
        return self.tensor.id

    @property
    def example(self) -> str:
        """An index of an element, as it can be typed: as many numbers as there are dimensions, each in its range."""
        shape = self.tensor.shape or ()
        return str([max(min(dim, size - 1), 0) for dim, size in enumerate(shape, 1)])

    def choose(self, tensor: Tensor) -> None:
        """Look at another tensor, from its first element on; the next sample taken tells of its storage."""
        self.tensor, self.storage, self.mates, self._records, self.gone, self.heir = tensor, None, (), (), False, None
        self.beside = Beside({}, 0)
        self._begin()

    def _begin(self) -> None:
        dims = len(self.tensor.shape or ())
        self.index = (0,) * dims
        self.dims = last_two(dims)
        self._place()

    def _place(self) -> None:
        try:
            self.place, self.why_not = Place.of(self.tensor, self.storage), ""
        except LayoutError as error:
            self.place, self.why_not = None, str(error)

    def take(self, sample: Sample, accounts: Accounts) -> bool:
        """Move on to a sample; returns whether anything that is shown differs."""
        tensor = sample.tensors.get(self.tid)
        if tensor is None:
            before = self.gone, self.heir
            self.gone, self.heir = True, heir_of(self.tensor, sample)
            return before != (self.gone, self.heir)
        storage = sample.storages.get(tensor.storage) if tensor.storage is not None else None
        account = accounts.account(tensor.storage) if tensor.storage is not None else None
        ids = account.tensors if account is not None else (self.tid,)
        beside = accounts.beside(tensor.storage) if tensor.storage is not None else Beside({}, 0)
        others = (other.tensors for number in beside.starts if (other := accounts.account(number)) is not None)
        records = tuple(filter(None, map(sample.tensors.get, chain(ids, *others))))
        now = (tensor, storage, records, beside, False)
        if (self.tensor, self.storage, self._records, self.beside, self.gone) == now:
            return False
        moved = (self.tensor.shape, self.tensor.strides) != (tensor.shape, tensor.strides)
        self.tensor, self.storage, self._records, self.beside, self.gone = now
        self.mates = tuple(sorted(records, key=lambda mate: _begins(mate, self.start_of(mate))))
        self.live_bytes = account.live_bytes if account is not None else None
        self.heir = None
        self.absent = absent_devices(sample.process)
        if moved:
            self._begin()
        else:
            self._place()
        return True

    def start_of(self, mate: Tensor) -> int:
        """The byte at which the storage of a mate starts, where that is another one over the same memory."""
        return 0 if mate.storage is None else self.beside.starts.get(mate.storage, 0)

    @property
    def element(self) -> Element | None:
        """The element under the cursor; None where there is none, or it has no known address."""
        if self.place is None or not self.place.numel:
            return None
        try:
            return element(self.place, self.index, self.storage.address if self.storage is not None else None)
        except LayoutError:
            return None

    def go(self, index: tuple[int, ...]) -> None:
        """Put the cursor on an element."""
        self.index = index

    def move(self, down: int, across: int) -> None:
        """Move the cursor along the two dimensions that are shown; it stops at their ends."""
        index = list(self.index)
        for dim, step in zip(self.dims, (down, across), strict=True):
            if dim is not None and self.place is not None:
                index[dim] = min(max(index[dim] + step, 0), max(self.place.shape[dim] - 1, 0))
        self.index = tuple(index)

    def slice(self, step: int) -> None:
        """Go to the next index of the dimensions that are not shown, the last of them first."""
        if self.place is None:
            return
        index = list(self.index)
        for dim in reversed([dim for dim in range(len(index)) if dim not in self.dims]):
            size = self.place.shape[dim]
            index[dim] += step
            if 0 <= index[dim] < size:
                break
            index[dim] %= max(size, 1)
        self.index = tuple(index)

    def turn(self) -> None:
        """Show the next two dimensions."""
        dims = len(self.index)
        if dims > 1:
            pairs: list[Dims] = list(combinations(range(dims), 2))
            pairs = [*reversed(pairs), *((two, one) for one, two in reversed(pairs))]
            self.dims = pairs[(pairs.index(self.dims) + 1) % len(pairs)]

    def neighbour(self, step: int) -> Tensor | None:
        """The next tensor on the storage; None where there is no other."""
        ids = [mate.id for mate in self.mates]
        if len(ids) < 2 or self.tid not in ids:
            return None
        return self.mates[(ids.index(self.tid) + step) % len(ids)]

    def ribbon(self, width: int, shown: tuple[int, ...]) -> Ribbon | None:
        """The storage in `width` cells; None where its size is not known, or nothing."""
        if self.storage is None or not self.storage.bytes:
            return None
        what = (self.storage.bytes, width, shown)
        if self._drawn is None or self._drawn[0] is not self.mates or self._drawn[1] != what:
            places = {mate.id: place_of(mate) for mate in self.mates if len(self.mates) <= MOST or mate.id in shown}
            if len(self.mates) > MOST:
                places[NOBODY] = None  # those left out may lie anywhere
            starts = {mate.id: self.start_of(mate) for mate in self.mates if mate.storage in self.beside.starts}
            self._drawn = self.mates, what, ribbon(self.storage.bytes, places, width, shown, starts)
        return self._drawn[2]


def heir_of(tensor: Tensor, sample: Sample) -> Tensor | None:
    """The tensor that goes by the name of one that is gone, as what a loop makes anew does."""
    name = tensor.names[0] if tensor.names else None
    return next((other for other in sample.tensors.values() if name in other.names), None) if name else None


def place_of(tensor: Tensor) -> Place | None:
    """The place of a tensor, None where it has none."""
    try:
        return Place.of(tensor)
    except LayoutError:
        return None


def _begins(tensor: Tensor, start: int) -> tuple[bool, int, int, int]:
    """Where a tensor begins, its storage at `start`; of those that begin together the largest comes first."""
    place = place_of(tensor)
    if place is None:
        return (True, 0, 0, tensor.id)
    return (False, start + place.offset * place.itemsize, -place.bytes, tensor.id)
