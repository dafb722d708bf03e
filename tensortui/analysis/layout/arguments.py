"""The arguments of an operation as typed, taken out one by one by what they are."""

from __future__ import annotations

from tensortui.analysis.layout.casting import dtype_of
from tensortui.analysis.layout.expression import Call, Value
from tensortui.analysis.layout.place import LayoutError
from tensortui.model.strided import MEMORY_FORMATS

FORMATS = ("contiguous", *MEMORY_FORMATS, "preserve")


class UnclearError(LayoutError):
    """Arguments that are not what an operation takes."""


class Arguments:
    """The arguments of a call, taken out by what they are; `end` complains of what is left."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._args = list(call.args)
        self._kwargs = dict(call.kwargs)

    def _unclear(self, wanted: str) -> UnclearError:
        return UnclearError(f"{self._call} is not understood: {wanted}")

    def _take(self, *names: str) -> Value:
        for name in names:
            if name in self._kwargs:
                return self._kwargs.pop(name)
        return self._args.pop(0) if self._args else None

    def number(self, wanted: str, *names: str, default: int | None = None) -> int:
        """A whole number."""
        value = self._take(*names)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._unclear(wanted)
        return value

    def numbers(self, wanted: str, *names: str) -> tuple[int, ...]:
        """Whole numbers, one after the other or in brackets; the rest of the arguments."""
        value: Value = next((self._kwargs.pop(name) for name in names if name in self._kwargs), None)
        if value is None:
            if not self._args:
                raise self._unclear(wanted)
            value = tuple(self._args)
            self._args = []
            if len(value) == 1 and isinstance(value[0], tuple):
                value = value[0]
        return self._ints(value, wanted)

    def group(self, wanted: str, *names: str) -> tuple[int, ...]:
        """One argument: a number, or several in brackets."""
        value = self._take(*names)
        return self._ints((value,) if isinstance(value, int) else value, wanted)

    def _ints(self, value: Value, wanted: str) -> tuple[int, ...]:
        if not isinstance(value, tuple) or any(not isinstance(each, int) or isinstance(each, bool) for each in value):
            raise self._unclear(wanted)
        return tuple(each for each in value if isinstance(each, int))

    def word(self, *names: str) -> str | None:
        """A dtype, device or memory format by its name; None where none is given."""
        if not any(name in self._kwargs for name in names) and (not self._args or not isinstance(self._args[0], str)):
            return None
        value = self._take(*names)
        if value is not None and not isinstance(value, str):
            raise self._unclear("that should be a name")
        return value

    def memory_format(self, default: str) -> str:
        """A memory format."""
        word = (self.word("memory_format") or default).removesuffix("_format")
        if word not in FORMATS:
            raise self._unclear(f"memory formats are {', '.join(FORMATS)}")
        return word

    def dtype(self, word: str | None = None) -> str:
        """A dtype."""
        word = word or self.word("dtype")
        found = dtype_of(word) if word is not None else None
        if found is None:
            raise self._unclear(f"{word} is no dtype")
        return found

    def flag(self, name: str) -> bool:
        """A keyword that is true or false."""
        return self._kwargs.pop(name, False) is True

    @property
    def empty(self) -> bool:
        """Whether none are left."""
        return not self._args and not self._kwargs

    @property
    def starts_with_word(self) -> bool:
        """Whether a name comes first, or a dtype by keyword."""
        return (bool(self._args) and isinstance(self._args[0], str)) or "dtype" in self._kwargs

    def end(self) -> None:
        """All must have been taken."""
        if not self.empty:
            raise self._unclear("too many arguments")
