"""Classes of a framework and all that anybody derives from them, now or later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from blamespan.instrumenting.guard import guard
from blamespan_integrations.wrappers import exchange, wrappers

__all__ = ["class_tree", "watch_subclasses"]

_INIT = "__init_subclass__"


def class_tree(root: type) -> Iterator[type]:
    """Yield *root* and every class below it, each once."""
    seen: set[type] = set()
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting.extend(found.__subclasses__())
            yield found


def watch_subclasses(root: type, tell: Callable[[type], None], *, who: str) -> Callable[[], None]:
    """Call *tell* with every class that is defined below *root* from now on.

    Args:
        root: A class that takes attributes.
        tell: An exception of it is logged, never raised.
        who: Named in that log.

    Returns:
        Puts everything back, also inside wrappers that others have put around it since.
    """
    own: Any = vars(root).get(_INIT)
    above: Any = root

    def __init_subclass__(cls: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that
        if own is not None:
            own.__get__(None, cls)(*args, **kwargs)
        else:
            super(above, cls).__init_subclass__(*args, **kwargs)
        with guard(f"{who}: watch a new class"):
            tell(cls)

    hook: Any = classmethod(__init_subclass__)
    vars(__init_subclass__)["__wrapped__"] = getattr(own, "__func__", None)

    def restore() -> None:
        outer = vars(root).get(_INIT)
        if outer is not hook:  # wrapped since: those wrappers go on without us
            for holder in wrappers(getattr(outer, "__func__", outer)):
                exchange(holder, hook, own)
                exchange(holder, hook.__func__, getattr(own, "__func__", None))
        elif own is not None:
            setattr(root, _INIT, own)
        else:
            delattr(root, _INIT)

    setattr(root, _INIT, hook)
    return restore
