"""AutoGen AgentChat: a span per run, agent message, tool call and model call, in one trace.

AutoGen's own tracing is silent while this instrumentation is on: it says less, in many traces.

One call from `instrument()` to its span: `_wrap` names each method that is patched and what starts its frame. The
wrappers of `_frames` make that frame's context current around AutoGen's own code, pass it what the call returns or
yields, and close it. The frames are in `_runs`, `_agents`, `_managers`, `_tools`, `_models` and, for messages between
agents, in `_runtime`; each starts its span by `blamespan_integrations.recording`. `_convert` turns AutoGen's objects
into records, `_memory` and `_participants` say what is new and who is who.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from blamespan_integrations.patching import AfterImport, LateInstrumentor
from blamespan_integrations.recording import Recorder

__all__ = ["AutoGenInstrumentor"]


class AutoGenInstrumentor(LateInstrumentor):
    """Records AutoGen AgentChat; `blamespan.instrument()` and `opentelemetry-instrument` switch it on."""

    _imported = AfterImport("autogen_agentchat")

    def instrumentation_dependencies(self) -> Collection[str]:
        """Name the versions this was written against."""
        return ("autogen-agentchat >= 0.7.5",)

    def _instrument(self, **kwargs: Any) -> None:
        recorder = Recorder.of("blamespan.autogen", kwargs)
        self._record_later(lambda: _record(recorder), "autogen: instrument this version of AutoGen")


def _record(recorder: Recorder) -> Callable[[], None]:
    from blamespan_integrations.autogen._wrap import wrap  # imports AutoGen

    return wrap(recorder).undo
