"""AutoGen AgentChat: a span per run, agent message, tool call and model call, in one trace.

AutoGen's own tracing is silent while this instrumentation is on: it says less, in many traces.

One call from `instrument()` to its span: `_wrap` names each method that is patched and what starts its frame. The
wrappers of `_frames` make that frame's context current around AutoGen's own code, pass it what the call returns or
yields, and close it. The frames are in `_runs`, `_agents`, `_managers`, `_tools`, `_models` and, for messages between
agents, in `_runtime`; each starts its span by `blamespan_integrations.recording`. `_convert` turns AutoGen's objects
into records, `_memory` and `_participants` say what is new and who is who.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.host_safety import shield_host
from blamespan_integrations.patching import AfterImport
from blamespan_integrations.recording import Recorder

if TYPE_CHECKING:
    from blamespan_integrations.patching import Patches

__all__ = ["AutoGenInstrumentor"]


class AutoGenInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # see pyproject: mypy cannot read its module
    """Records AutoGen AgentChat; `blamespan.instrument()` and `opentelemetry-instrument` switch it on."""

    _patches: Patches | None = None
    _framework = AfterImport("autogen_agentchat")

    def instrumentation_dependencies(self) -> Collection[str]:
        """Name the versions this was written against."""
        return ("autogen-agentchat >= 0.7.5",)

    def _instrument(self, **kwargs: Any) -> None:
        recorder = Recorder.of("blamespan.autogen", kwargs)
        self._framework.arm(lambda: self._wrap(recorder))

    def _wrap(self, recorder: Recorder) -> None:
        with shield_host("autogen: instrument this version of AutoGen"):
            from blamespan_integrations.autogen._wrap import wrap  # imports AutoGen

            self._patches = wrap(recorder)

    def _uninstrument(self, **kwargs: Any) -> None:
        self._framework.disarm()
        if self._patches is not None:
            self._patches.undo()
            self._patches = None
