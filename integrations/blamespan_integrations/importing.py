"""Frameworks that the program imports later: they are patched when it does, and never imported for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType

import wrapt

from blamespan.instrumenting.forking import renewed_after_fork

__all__ = ["AfterImport"]


class AfterImport:
    """Calls something once, as soon as the program has imported a module; at once where it has already.

    Args:
        module: Its full name. All that the call imports of the framework must be loaded by then, or load without it:
            whatever imported the module is half way through itself.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._call: Callable[[], None] | None = None
        self._is_registered = False
        self._renew()
        renewed_after_fork(self, AfterImport._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        """Held for a moment only, never while something is imported: that takes locks of its own."""

    def arm(self, call: Callable[[], None]) -> None:
        """Have *call* called, in place of what was to be called before; what it raises goes to who imports."""
        with self._lock:
            self._call = call
            is_known, self._is_registered = self._is_registered, True
        if not is_known:
            wrapt.register_post_import_hook(self._imported, self._module)
        elif self._module in sys.modules:
            self._imported(sys.modules[self._module])

    def disarm(self) -> None:
        """Have nothing called."""
        with self._lock:
            self._call = None

    def _imported(self, _: ModuleType) -> None:
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call()
