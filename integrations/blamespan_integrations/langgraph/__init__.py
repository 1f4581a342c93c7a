"""LangGraph: every run of every graph of this program as spans.

No graph has to be changed: a handler joins every callback manager through LangChain's own
`register_configure_hook`. What callbacks cannot do is wrapped, each where a release has it, and everything
else is recorded all the same without: a node's span is current within the node (`_current`); a run links to
the one whose checkpoint it goes on from, pauses at breakpoints and answers from caches are heard of (`_loop`).

Not recorded, because LangGraph does not tell: which of several fixed edges led to a node.
"""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan_integrations.langgraph import _current, _loop
from blamespan_integrations.langgraph._callbacks import GraphCallbacks
from blamespan_integrations.langgraph._graphs import GraphRecorder
from blamespan_integrations.recording import Recorder

__all__ = ["LangGraphInstrumentor"]

_SCOPE = "blamespan.langgraph"


class _Hook:
    """What LangChain asks for a handler whenever it makes a callback manager.

    LangChain wants a `ContextVar` and only ever calls `get()`. A real one could not be switched off
    again: hooks cannot be unregistered, and a `ContextVar`'s default cannot change.
    """

    def __init__(self) -> None:
        self.handler: GraphCallbacks | None = None
        self._is_registered = False

    def get(self) -> BaseCallbackHandler | None:
        """Give the handler while recording is on."""
        return self.handler

    def register(self) -> None:
        """Register once for the life of the process."""
        if not self._is_registered:
            register_configure_hook(cast("ContextVar[Any | None]", self), inheritable=True)
            self._is_registered = True


_hook = _Hook()


class LangGraphInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # see pyproject: mypy cannot read its base
    """Switches the recording of LangGraph runs on and off.

    `instrument()` takes `tracer_provider`; a second call changes nothing. After `uninstrument()` new runs
    are not recorded, and those going on are ended as abandoned.
    """

    def instrumentation_dependencies(self) -> Collection[str]:
        """List what must be installed for this to work."""
        return ("langgraph >= 1.2",)

    def _instrument(self, **kwargs: Any) -> None:
        graphs = GraphRecorder(Recorder.of(_SCOPE, kwargs))
        _hook.handler = GraphCallbacks(graphs)
        _hook.register()
        _current.wrap(graphs.context_of)
        _loop.wrap(graphs)

    def _uninstrument(self, **_: Any) -> None:
        _current.restore()
        _loop.restore()
        handler, _hook.handler = _hook.handler, None
        if handler is not None:
            handler.graphs.close()
