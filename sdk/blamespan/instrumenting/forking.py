"""Locks in a forked process: whoever held one in the parent does not exist in the child."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from blamespan.instrumenting.host_safety import shield_host

__all__ = ["renewed_after_fork"]

_renewals: WeakKeyDictionary[object, Callable[[Any], None]] = WeakKeyDictionary()
"""What `os.register_at_fork` was given stays for good; these go with their holders."""


def renewed_after_fork(holder: object, renew: Callable[[Any], None]) -> None:
    """Call *renew* with *holder* in every forked child while it lives; there it is given new locks."""
    _renewals[holder] = renew


def _renew_all() -> None:
    for holder, renew in list(_renewals.items()):
        with shield_host("renew locks after a fork"):
            renew(holder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
