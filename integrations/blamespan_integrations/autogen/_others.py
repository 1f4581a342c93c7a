"""Other instrumentations that are switched off: they give methods back as they found them, ours among them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.instrumenting.guard import guard

__all__ = ["after_uninstrument"]

_listeners: list[Callable[[], None]] = []
_original: Any = None
_ours: Any = None


def after_uninstrument(listener: Callable[[], None]) -> Callable[[], None]:
    """Call *listener* whenever an instrumentation has been switched off; return what ends that."""
    global _original, _ours
    if not _listeners and vars(BaseInstrumentor)["uninstrument"] is not _ours:
        _original = vars(BaseInstrumentor)["uninstrument"]
        _ours = _reporting(_original)
        BaseInstrumentor.uninstrument = _ours
    _listeners.append(listener)

    def end() -> None:
        if listener in _listeners:
            _listeners.remove(listener)
        if not _listeners and vars(BaseInstrumentor)["uninstrument"] is _ours:
            BaseInstrumentor.uninstrument = _original

    return end


def _reporting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def uninstrument(self: Any, **kwargs: Any) -> Any:
        result = original(self, **kwargs)
        for listener in tuple(_listeners):  # one may end itself
            with guard("autogen: go on without another instrumentation"):
                listener()
        return result

    return uninstrument
