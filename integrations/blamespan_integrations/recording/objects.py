"""Objects of the program's own: read where that may raise, and referred to without being kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import ref

T = TypeVar("T")


class SafeReader:
    """Reads, and remembers what could not be read.

    Attributes:
        lost: What, and the kind of error; never a content.
    """

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost: list[str] = []

    def read(self, what: str, read_value: Callable[[], T], otherwise: T) -> T:
        """Return what *read_value* returns; *otherwise* where an object of the program's own makes it raise."""
        try:
            return read_value()
        except Exception as error:
            self.lost.append(f"{what}: {type(error).__name__}")
            return otherwise

    def read_list(self, what: str, read_value: Callable[[], list[T]]) -> list[T]:
        """Return the list that *read_value* returns; an empty one where that raises."""
        nothing: list[T] = []
        return self.read(what, read_value, nothing)

    def report(self, lose: Callable[[str], None]) -> None:
        """Pass what could not be read to *lose*."""
        for what in self.lost:
            lose(what)
        self.lost.clear()


def reference(referent: object) -> Callable[[], object]:
    """Return a function that returns *referent* while it lives, else None; one without weak references is kept."""
    try:
        return ref(referent)
    except TypeError:
        return lambda: referent
