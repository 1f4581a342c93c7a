"""Processes that a program makes: locks after a fork, whose holders exist in the parent alone, and how workers end."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process, util
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from blamespan.host_safety import shield_host

_AFTER_QUEUES = -50
"""A finalizer's priority: results that wait in queues of the program's go out before (-5)."""

_renewals: WeakKeyDictionary[object, Callable[[Any], None]] = WeakKeyDictionary()
"""What `os.register_at_fork` was given stays for good; these go with their holders."""


def renewed_after_fork(holder: object, renew: Callable[[Any], None]) -> None:
    """Call *renew* with *holder* in every forked child while it lives; there it is given new locks."""
    _renewals[holder] = renew


def call_at_worker_end(holder: object, end: Callable[[Any], None]) -> None:
    """Call *end* with *holder*, while it lives, at the end of each worker process of `multiprocessing`.

    Forked ones and those of a fork server end by `os._exit`, which runs no hook of `atexit`.
    """
    # Workers forget the finalizers that they have as they begin
    util.register_after_fork(holder, partial(_end_later, end=end))
    if parent_process() is not None:
        _end_later(holder, end)


def _end_later(holder: object, end: Callable[[Any], None]) -> None:
    util.Finalize(None, _end_held, (ref(holder), end), exitpriority=_AFTER_QUEUES)


def _end_held(held: ReferenceType[object], end: Callable[[Any], None]) -> None:
    holder = held()
    if holder is not None:
        end(holder)


def _renew_all() -> None:
    for holder, renew in list(_renewals.items()):
        with shield_host("renew locks after a fork"):
            renew(holder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
