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

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.host_safety import shield_host
from blamespan.instrumenting.settings import links_checkpoints
from blamespan_integrations.patching import AfterImport
from blamespan_integrations.recording import Recorder

if TYPE_CHECKING:
    from blamespan_integrations.patching import Patches

__all__ = ["AgentFrameworkInstrumentor"]


class AgentFrameworkInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # see pyproject: mypy cannot read its module
    """Records Microsoft Agent Framework; `blamespan.instrument()` and `opentelemetry-instrument` switch it on."""

    _patches: Patches | None = None
    _framework = AfterImport("agent_framework")

    def instrumentation_dependencies(self) -> Collection[str]:
        """Name the versions this was written against."""
        return ("agent-framework-core >= 1.20",)

    def _instrument(self, **kwargs: Any) -> None:
        recorder = Recorder.of("blamespan.agent_framework", kwargs)
        stamps_checkpoints = links_checkpoints(kwargs.get("link_checkpoints"))
        self._framework.arm(lambda: self._wrap(recorder, stamps_checkpoints))

    def _wrap(self, recorder: Recorder, stamps_checkpoints: bool) -> None:
        with shield_host("agent_framework: instrument this version of Agent Framework"):
            from blamespan_integrations.agent_framework._wrap import wrap  # imports Agent Framework

            self._patches = wrap(recorder, stamps_checkpoints=stamps_checkpoints)

    def _uninstrument(self, **kwargs: Any) -> None:
        self._framework.disarm()
        if self._patches is not None:
            self._patches.undo()
            self._patches = None
