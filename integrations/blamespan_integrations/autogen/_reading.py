"""Reading what a program hands around: where that raises, the program gets its object and the span says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["Reading"]

T = TypeVar("T")


class Reading:
    """Reads, and remembers what could not be read.

    Attributes:
        lost: What, and the kind of error; never a content.
    """

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost: list[str] = []

    def of(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        """Give what *read* gives; *otherwise* where an object of the program's own makes it raise."""
        try:
            return read()
        except Exception as error:
            self.lost.append(f"{what}: {type(error).__name__}")
            return otherwise

    def each(self, what: str, read: Callable[[], list[T]]) -> list[T]:
        """Give the list that *read* gives; an empty one where that raises."""
        nothing: list[T] = []
        return self.of(what, read, nothing)

    def report(self, lose: Callable[[str], None]) -> None:
        """Tell *lose* what could not be read."""
        for what in self.lost:
            lose(what)
        self.lost.clear()
