"""References to the program's objects that do not keep them."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

__all__ = ["reference"]


def reference(referent: object) -> Callable[[], object]:
    """Return a function that gives *referent* while it lives, else None; one without weak references is kept."""
    try:
        return ref(referent)
    except TypeError:
        return lambda: referent
