"""AutoGen's own tracing, silenced: it tells the same runs again, torn into many traces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from autogen_core import AgentId, SingleThreadedAgentRuntime, _single_threaded_agent_runtime
from autogen_core._telemetry import EnvelopeMetadata, _genai, _tracing, get_telemetry_envelope_metadata
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span

from blamespan.host_safety import shield_host
from blamespan_integrations.autogen._runtime import SentMessages, handle_received
from blamespan_integrations.patching import Patches

_SILENCE = nullcontext(INVALID_SPAN)
_RECEIVING = ("process", "ack")


def silence_own_tracing(patches: Patches, sent_messages: SentMessages) -> None:
    """Have AutoGen record no spans of its own: neither its runtime's nor its agents' and tools'.

    Spans a program makes with a tracer of its own stay, also those made with AutoGen's helpers, and those of a runtime
    that the program gave another provider than the global one. What the runtime's spans knew of the process that sent
    a message goes on in the context.
    """
    own_providers = _OwnProviders()
    record, envelope_metadata = _tracing.TraceHelper.trace_block, get_telemetry_envelope_metadata
    attributes_of = vars(SingleThreadedAgentRuntime).get("_create_otel_attributes")

    def trace_block(
        self: Any, operation: Any, destination: Any, parent: Any, *, attributes: Any = None, **options: Any
    ) -> AbstractContextManager[Span]:
        is_received = type(parent) is not EnvelopeMetadata and operation in _RECEIVING and isinstance(parent, Mapping)
        received = (
            handle_received(sent_messages, operation, parent, is_rpc="request_id" in (attributes or ()))
            if is_received
            else _SILENCE
        )
        if not own_providers.has(self):
            return received
        return _both(record(self, operation, destination, parent, attributes=attributes, **options), received)

    async def create_attributes(
        self: Any,
        sender_agent_id: AgentId | None = None,
        recipient_agent_id: AgentId | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Mapping[str, str]:
        """Make the attributes of a span, which may not be made; agents that it brings to life are all the same."""
        if attributes_of is not None and own_providers.has(getattr(self, "_tracer_helper", None)):
            attributes_made: Mapping[str, str] = await attributes_of(
                self, sender_agent_id, recipient_agent_id, *args, **kwargs
            )
            return attributes_made
        for agent_id in (sender_agent_id, recipient_agent_id):
            if agent_id:
                await self._get_agent(agent_id)
        return {}

    patches.wrap(_tracing.TraceHelper, "__init__", own_providers.wrap_init)
    patches.replace(_tracing.TraceHelper, "trace_block", functools.wraps(record)(trace_block))
    patches.replace(_genai, "trace", _SilentTrace())
    patches.replace(SingleThreadedAgentRuntime, "_create_otel_attributes", create_attributes)
    patches.replace(
        _single_threaded_agent_runtime,
        "get_telemetry_envelope_metadata",
        lambda: envelope_metadata() if own_providers.is_any else EnvelopeMetadata(),
    )


@contextmanager
def _both(own: AbstractContextManager[Span], received: AbstractContextManager[Span]) -> Iterator[Span]:
    with own as span, received:
        yield span


class _OwnProviders:
    """Which of AutoGen's runtimes trace with a provider of their own, not the global one: those are left alone.

    Attributes:
        is_any: Whether there has been one.
    """

    def __init__(self) -> None:
        self.is_any = False
        self._known: WeakKeyDictionary[object, bool] = WeakKeyDictionary()

    def has(self, helper: Any) -> bool:
        """Check a runtime's helper; of one that was made before us by its provider not being the global one."""
        is_own = self._known.get(helper) if helper is not None else False
        if is_own is None:
            provider = getattr(helper, "tracer_provider", None)
            is_default = isinstance(provider, _DEFAULTS) or provider in (None, trace.get_tracer_provider())
            is_own = self._note(helper, not is_default)
        return is_own

    def wrap_init(self, original: Callable[..., None]) -> Callable[..., None]:
        """Make the wrapper of `TraceHelper.__init__(tracer_provider, ...)`."""

        @functools.wraps(original)
        def __init__(helper: Any, tracer_provider: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands in for it
            original(helper, tracer_provider, *args, **kwargs)
            with shield_host("autogen: note who gave a provider"):
                self._note(helper, tracer_provider not in (None, trace.get_tracer_provider()))

        return __init__

    def _note(self, helper: object, is_given: bool) -> bool:
        self._known[helper] = is_given
        self.is_any |= is_given
        return is_given


_DEFAULTS = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)


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
