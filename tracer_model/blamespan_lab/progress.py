"""Progress on stderr, where somebody is watching."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track

__all__ = ["tracked"]

_Item = TypeVar("_Item")


def tracked(items: Iterable[_Item], title: str, *, total: int | None = None) -> Iterator[_Item]:
    """Yield *items*, drawing a bar on stderr if that is a terminal and nothing otherwise."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    yield from track(items, title, total=total, console=console, transient=True)
