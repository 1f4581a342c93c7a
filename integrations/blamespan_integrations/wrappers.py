"""Wrappers around a framework's function: who wraps whom, and how one in the middle is changed for another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from typing import Any

__all__ = ["exchange", "innermost", "wrappers"]


def wrappers(found: Any) -> Iterator[Any]:
    """List *found* and what it wraps, outermost first."""
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = getattr(found, "__wrapped__", None)


def innermost(found: Any) -> tuple[Any, Any]:
    """Give the function that is wrapped by all others, and the one that wraps it."""
    chain = list(wrappers(found.__func__ if isinstance(found, staticmethod) else found))
    return (chain[-1], chain[-2] if len(chain) >= 2 else None) if chain else (None, None)


def exchange(holder: Any, old: object, new: object) -> bool:
    """Have a wrapper hold *new* where it holds *old*; gives whether it did anywhere."""
    if type(holder) is not FunctionType:  # wrapt's, which calls what it shows
        if getattr(holder, "__wrapped__", None) is not old:
            return False
        holder.__wrapped__ = new
        return True
    done = False
    for cell in holder.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            if cell.cell_contents is old:
                cell.cell_contents = new
                done = True
    for key, value in list(vars(holder).items()):  # by which a wrapper may give back what it found
        if value is old:
            setattr(holder, key, new)
    return done
