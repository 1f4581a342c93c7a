"""What of LangChain and LangGraph we hook into, and only that."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

from blamespan_integrations.langgraph import _current, _loop
from blamespan_integrations.langgraph._callbacks import GraphCallbacks
from blamespan_integrations.langgraph._graphs import GraphRecorder
from blamespan_integrations.patching import Patches
from blamespan_integrations.recording import Recorder


class _Hook:
    """What LangChain asks for a handler whenever it makes a callback manager.

    LangChain wants a `ContextVar` and only ever calls `get()`. A real one could not be switched off
    again: hooks cannot be unregistered, and a `ContextVar`'s default cannot change.
    """

    def __init__(self) -> None:
        self.handler: GraphCallbacks | None = None
        self._is_registered = False

    def get(self) -> BaseCallbackHandler | None:
        """Return the handler while recording is on."""
        return self.handler

    def register(self) -> None:
        """Register once for the life of the process."""
        if not self._is_registered:
            register_configure_hook(cast("ContextVar[Any | None]", self), inheritable=True)
            self._is_registered = True


_hook = _Hook()


def wrap(recorder: Recorder, *, stamps_checkpoints: bool) -> Callable[[], None]:
    """Have every run of every graph recorded by *recorder*; return what ends that.

    Args:
        recorder: Where to record.
        stamps_checkpoints: Whether the run that saves a checkpoint is written into the checkpoint's metadata.
    """
    graphs, patches = GraphRecorder(recorder), Patches("langgraph")
    _hook.handler = GraphCallbacks(graphs, _current.announce)
    _hook.register()
    _current.wrap(patches, graphs.context_of)
    _current.lead(patches, lambda handler: handler is _hook.handler)
    _loop.wrap(patches, graphs, stamps_checkpoints=stamps_checkpoints)

    def restore() -> None:
        patches.undo()
        _hook.handler = None
        graphs.close()

    return restore
