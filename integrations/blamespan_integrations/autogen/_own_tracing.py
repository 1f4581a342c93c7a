"""AutoGen's own tracing, silenced: it tells the same runs again, torn into many traces."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from autogen_core import AgentId, SingleThreadedAgentRuntime, _single_threaded_agent_runtime
from autogen_core._telemetry import EnvelopeMetadata, _genai, _tracing
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span

from blamespan_integrations.autogen._mail import Letters
from blamespan_integrations.autogen._patches import Patches
from blamespan_integrations.autogen._runtime import received_block

__all__ = ["silence"]

_SILENCE = nullcontext(INVALID_SPAN)
_RECEIVING = ("process", "ack")


def silence(patches: Patches, letters: Letters) -> None:
    """Have AutoGen record no spans of its own: neither its runtime's nor its agents' and tools'.

    Spans a program makes with a tracer of its own stay, also those made with AutoGen's helpers. What the
    runtime's spans knew of the process that sent a message goes on in the context.
    """

    def trace_block(
        _: object, operation: object, destination: object, parent: object, *, attributes: Any = None, **__: Any
    ) -> AbstractContextManager[Span]:
        if type(parent) is not EnvelopeMetadata and operation in _RECEIVING and isinstance(parent, Mapping):
            return received_block(letters, operation, parent, is_rpc="request_id" in (attributes or ()))
        return _SILENCE

    patches.replace(_tracing.TraceHelper, "trace_block", trace_block)
    patches.replace(_genai, "trace", _SilentTrace())
    patches.replace(SingleThreadedAgentRuntime, "_create_otel_attributes", _no_attributes)
    patches.replace(_single_threaded_agent_runtime, "get_telemetry_envelope_metadata", EnvelopeMetadata)


async def _no_attributes(
    self: Any, sender_agent_id: AgentId | None = None, recipient_agent_id: AgentId | None = None, *_: Any, **__: Any
) -> Mapping[str, str]:
    """Make the attributes of a span that is not made: none. Agents that it would have brought to life still are."""
    for agent_id in (sender_agent_id, recipient_agent_id):
        if agent_id:
            await self._get_agent(agent_id)
    return {}


class _SilentTrace(ModuleType):
    """Stands where `autogen_core._telemetry._genai` has `opentelemetry.trace`; only its tracers differ."""

    def __init__(self) -> None:
        super().__init__(trace.__name__, trace.__doc__)

    def __getattr__(self, name: str) -> Any:  # the module has all kinds of things
        return getattr(trace, name)

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return _SilentTracer()


class _SilentTracer(NoOpTracer):
    """Makes nothing current either: AutoGen holds its spans across `yield`, where OpenTelemetry's tracer would."""

    def start_as_current_span(self, *_: Any, **__: Any) -> AbstractContextManager[Span]:  # type: ignore[override]
        return _SILENCE
