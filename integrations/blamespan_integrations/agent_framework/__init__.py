"""Microsoft Agent Framework: a span per run, agent message, tool call and model call, in one trace.

Agent Framework's own spans are silent while this instrumentation is on: they say the same runs again, without what
was said. Its metrics go on.

One call from `instrument()` to its span: `_wrap` names each method that is patched and what makes its frame. The
wrappers of `_frames` make that frame's context current around Agent Framework's own code, show it what the call
returns or streams, and close it. The frames are in `_runs` (workflows), `_executors` (who passes messages on in a
workflow), `_agents` and `_tools` (tools and models); each starts its span by `blamespan_integrations.recording`.
`_convert` turns Agent Framework's objects into records.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from blamespan.instrumenting.settings import links_checkpoints
from blamespan_integrations.patching import AfterImport, LateInstrumentor
from blamespan_integrations.recording import Recorder

__all__ = ["AgentFrameworkInstrumentor"]


class AgentFrameworkInstrumentor(LateInstrumentor):
    """Records Microsoft Agent Framework; `blamespan.instrument()` and `opentelemetry-instrument` switch it on."""

    _imported = AfterImport("agent_framework")

    def instrumentation_dependencies(self) -> Collection[str]:
        """Name the versions this was written against."""
        return ("agent-framework-core >= 1.20",)

    def _instrument(self, **kwargs: Any) -> None:
        recorder = Recorder.of("blamespan.agent_framework", kwargs)
        stamps_checkpoints = links_checkpoints(kwargs.get("link_checkpoints"))
        who = "agent_framework: instrument this version of Agent Framework"
        self._record_later(lambda: _record(recorder, stamps_checkpoints=stamps_checkpoints), who)


def _record(recorder: Recorder, *, stamps_checkpoints: bool) -> Callable[[], None]:
    from blamespan_integrations.agent_framework._wrap import wrap  # imports Agent Framework

    return wrap(recorder, stamps_checkpoints=stamps_checkpoints).undo
