"""The one line: `blamespan.instrument()`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from opentelemetry import trace
from opentelemetry.environment_variables import OTEL_TRACES_EXPORTER
from opentelemetry.instrumentation.dependencies import DependencyConflictError
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_PROTOCOL,
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
    OTEL_SDK_DISABLED,
)
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from blamespan.errors import ConfigError, MissingExtra
from blamespan.plugins import load_entry, load_plugin, plugins
from blamespan.tracers import DEFAULT_TRACER

__all__ = ["instrument", "uninstrument"]

_logger = logging.getLogger("blamespan")
_GROUP = "opentelemetry_instrumentor"
_EXPORTERS_GROUP = "opentelemetry_traces_exporter"

_embedded_provider: TracerProvider | None = None
"""Made by `instrument(embedded=True)`, shut down by `uninstrument()`."""


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    embedded: bool = False,
    exporter: SpanExporter | None = None,
    tracer: str | None = None,
) -> list[str]:
    """Record every AutoGen and LangGraph run of this program as OpenTelemetry spans.

    Call it once, before the runs; a second call changes nothing. Spans go to *tracer_provider*, else
    to the program's own TracerProvider, else to a new one that exports OTLP as the standard `OTEL_*`
    variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, `OTEL_SERVICE_NAME`, ...).

    Args:
        tracer_provider: Where the spans go.
        embedded: Attribute inside this program: a run's spans are held until it is complete,
            annotated, then exported. Needs `pip install 'blamespan[collector,model]'`. The program's
            own TracerProvider keeps its other spans; the agents' spans go to *exporter*.
        exporter: Where finished spans go, instead of what the `OTEL_*` variables say. With a
            TracerProvider of the program's own, give it the program's exporter when *embedded*.
        tracer: Name of the tracer that *embedded* uses; `lexical` by default.

    Returns:
        Names of the instrumented frameworks; a framework that is not installed is left out.

    Raises:
        ConfigError: if the arguments contradict each other or a variable is wrong.
        MissingExtra: if *embedded* and its packages are not installed.
    """
    if tracer_provider is not None and (embedded or exporter is not None):
        raise ConfigError("expected tracer_provider alone, or embedded/exporter, got both. Leave one out")
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return []
    if all(instrumentor.is_instrumented_by_opentelemetry for _, instrumentor in _instrumentors()):
        return [name for name, _ in _instrumentors()]
    provider = tracer_provider or _provider(embedded, exporter, tracer)
    done = [name for name, instrumentor in _instrumentors() if _switched_on(instrumentor, provider)]
    if not done:
        _logger.warning(
            "expected AutoGen AgentChat >= 0.7.5 or LangGraph >= 1.0 in this environment, got neither: nothing is "
            "recorded. Install one with: pip install 'blamespan[autogen]' or pip install 'blamespan[langgraph]'"
        )
    return done


def uninstrument() -> None:
    """Stop recording and give the frameworks back as they were; spans held in process are flushed."""
    global _embedded_provider
    for _, instrumentor in _instrumentors():
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()
    if _embedded_provider is not None:
        _embedded_provider.shutdown()
        _embedded_provider = None


def _instrumentors() -> Iterator[tuple[str, BaseInstrumentor]]:
    for name, entry in plugins(_GROUP).items():
        if not entry.value.startswith("blamespan"):
            continue  # other people's instrumentations are theirs to switch on
        try:
            yield name.removeprefix("blamespan_"), cast(BaseInstrumentor, load_entry(entry)())
        except MissingExtra as missing:
            _logger.debug("%s", missing)


def _switched_on(instrumentor: BaseInstrumentor, provider: trace.TracerProvider) -> bool:
    if not instrumentor.is_instrumented_by_opentelemetry:
        try:
            instrumentor.instrument(tracer_provider=provider, raise_exception_on_conflict=True)
        except DependencyConflictError as conflict:
            if conflict.conflict and conflict.conflict.found:  # installed, but not a version we know
                _logger.warning("%s is left alone: %s", type(instrumentor).__name__, conflict)
    return bool(instrumentor.is_instrumented_by_opentelemetry)


def _provider(embedded: bool, exporter: SpanExporter | None, tracer: str | None) -> trace.TracerProvider:
    global _embedded_provider
    existing = trace.get_tracer_provider()
    has_own = not isinstance(existing, trace.ProxyTracerProvider)
    if not embedded and has_own:
        if exporter is not None:
            raise ConfigError(
                "exporter= needs embedded=True here: this program has a TracerProvider of its own. "
                "Add the exporter to it with add_span_processor()"
            )
        return existing
    provider = TracerProvider(resource=existing.resource) if isinstance(existing, TracerProvider) else TracerProvider()
    for target in [exporter] if exporter is not None else _standard_exporters():
        provider.add_span_processor(_embedded(target, tracer) if embedded else BatchSpanProcessor(target))
    if embedded:
        _embedded_provider = provider
    if not has_own:
        trace.set_tracer_provider(provider)
    return provider


def _embedded(exporter: SpanExporter, tracer: str | None) -> SpanProcessor:
    name = tracer if tracer is not None else DEFAULT_TRACER
    load_plugin("blamespan.tracers", name)  # a wrong name or a missing package shows now, not in the background
    make = cast(Callable[..., SpanProcessor], load_plugin("blamespan.embedded", "embedded"))
    return make(exporter, tracer_name=name)


def _standard_exporters() -> list[SpanExporter]:
    """Make the exporters that `OTEL_TRACES_EXPORTER` names; OTLP over HTTP by default."""
    named = [name.strip() for name in os.environ.get(OTEL_TRACES_EXPORTER, "otlp").split(",")]
    return [_standard_exporter(name) for name in named if name and name != "none"]


def _standard_exporter(name: str) -> SpanExporter:
    if name == "otlp":
        said = os.environ.get(OTEL_EXPORTER_OTLP_TRACES_PROTOCOL) or os.environ.get(OTEL_EXPORTER_OTLP_PROTOCOL)
        name = "otlp_proto_grpc" if (said or "").strip() == "grpc" else "otlp_proto_http"
    found: dict[str, EntryPoint] = {entry.name: entry for entry in entry_points(group=_EXPORTERS_GROUP)}
    if name not in found:
        raise ConfigError(
            f"{OTEL_TRACES_EXPORTER} must name installed exporters ({', '.join(sorted(found))}), got {name!r}. "
            "For OTLP over gRPC: pip install 'blamespan[collector]'"
        )
    return cast(SpanExporter, load_entry(found[name])())
