"""AutoGen AgentChat: a span per run, agent message, tool call and model call, in one trace.

AutoGen's own tracing is silent while this instrumentation is on: it says less, in many traces.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.guard import guard

if TYPE_CHECKING:
    from blamespan_integrations.autogen._patches import Patches

__all__ = ["AutoGenInstrumentor"]


class AutoGenInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # see pyproject: mypy cannot read its module
    """Records AutoGen AgentChat; `blamespan.instrument()` and `opentelemetry-instrument` switch it on."""

    _patches: Patches | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Name the versions this was written against."""
        return ("autogen-agentchat >= 0.7.5",)

    def _instrument(self, **kwargs: Any) -> None:
        with guard("autogen: instrument this version of AutoGen"):
            # Imported here: this module must load where AutoGen is not installed.
            from blamespan_integrations.autogen._wrap import wrap
            from blamespan_integrations.recording import Recorder

            self._patches = wrap(Recorder.of("blamespan.autogen", kwargs))

    def _uninstrument(self, **kwargs: Any) -> None:
        if self._patches is not None:
            self._patches.undo()
            self._patches = None
