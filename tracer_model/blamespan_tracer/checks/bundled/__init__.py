"""The checks that come with blamespan: every one that a file of this folder defines.

A new check is a function with `@check` in one of them, or in a file of its own; nothing else lists it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from blamespan_tracer.checks.check import Check

__all__ = ["CHECKS"]

_FIRST = ("arithmetic", "contradictions", "repetition", "tool_calls", "numbers", "teamwork", "endings")
"""Files whose checks are reported first, in this order."""


def _collect() -> tuple[Check, ...]:
    """Import every file of this folder and return its checks, as they are written one after the other.

    Raises:
        ValueError: if two checks have one name.
    """
    names = dict.fromkeys((*_FIRST, *sorted(module.name for module in iter_modules(__path__))))
    checks: dict[str, Check] = {}
    for name in names:
        for check in vars(import_module(f"{__name__}.{name}")).values():
            if isinstance(check, Check) and checks.setdefault(check.name, check) is not check:
                raise ValueError(f"expected every check to have its own name, got {check.name!r} twice. Rename one")
    return tuple(checks.values())


CHECKS: tuple[Check, ...] = _collect()
"""In the order in which they are reported."""
