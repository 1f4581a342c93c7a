"""The one line: `blamespan.instrument()`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
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
from blamespan.injection import inject_from_environment
from blamespan.plugins import load_entry, load_plugin, plugins
from blamespan.settings import ContentSettings, Mask
from blamespan.tracers import DEFAULT_TRACER

__all__ = ["instrument", "uninstrument"]

_logger = logging.getLogger("blamespan")
_GROUP = "opentelemetry_instrumentor"
_EXPORTERS_GROUP = "opentelemetry_traces_exporter"

_switching = threading.RLock()
"""Held while recording is switched on or off: two threads that call `instrument()` at once switch it on once."""

_embedded_provider: TracerProvider | None = None
"""Made by `instrument(embedded=True)`, shut down by `uninstrument()`."""


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    embedded: bool = False,
    exporter: SpanExporter | None = None,
    tracer: str | None = None,
    capture_content: bool | None = None,
    mask_secrets: bool | None = None,
    mask_keys: Collection[str] | None = None,
    mask: Mask | None = None,
    max_content_bytes: int | None = None,
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
        tracer: Name of the tracer that *embedded* uses; `network` by default.
        capture_content: Whether texts, arguments, results, descriptions and error messages are recorded;
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` if None, and they are where that is not set.
            Without them, who acted, when and on what remains, and tracers that read texts abstain.
        mask_secrets: Whether keys, tokens, passwords, e-mail addresses and card numbers are masked;
            `BLAMESPAN_MASK_SECRETS` if None, and they are where that is not set.
        mask_keys: JSON keys whose values are masked at any depth; `BLAMESPAN_MASK_KEYS` if None.
        mask: Gives a text back as it may be recorded. It sees every text but names, after the other masks,
            before it is cut; of one that is far over *max_content_bytes* only the start. Where it raises,
            the text is withheld. Called wherever the program runs: from several threads, perhaps.
        max_content_bytes: Most bytes of one content attribute; `BLAMESPAN_MAX_CONTENT_BYTES` or 32 KiB if None.

    Returns:
        Names of the instrumented frameworks; a framework that is not installed is left out.

    Raises:
        ConfigError: if the arguments contradict each other or a variable is wrong.
        MissingExtra: if *embedded* and its packages are not installed.
    """
    if tracer_provider is not None and (embedded or exporter is not None):
        raise ConfigError("expected tracer_provider alone, or embedded/exporter, got both. Leave one out")
    content: dict[str, object] = {"capture_content": capture_content, "max_content_bytes": max_content_bytes}
    content |= {"mask_secrets": mask_secrets, "mask_keys": mask_keys, "mask": mask}
    ContentSettings.among(content)  # what is wrong shows now
    inject_from_environment()
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return []
    with _switching:
        if all(instrumentor.is_instrumented_by_opentelemetry for _, instrumentor in _instrumentors()):
            return [name for name, _ in _instrumentors()]
        provider = tracer_provider or _provider(embedded, exporter, tracer)
        done = [name for name, instrumentor in _instrumentors() if _switched_on(instrumentor, provider, content)]
    if not done:
        _warn_of_nothing()
    return done


def uninstrument() -> None:
    """Stop recording and give the frameworks back as they were; spans held in process are flushed."""
    global _embedded_provider
    with _switching:
        for _, instrumentor in _instrumentors():
            if instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.uninstrument()
        embedded, _embedded_provider = _embedded_provider, None
    if embedded is not None:
        embedded.shutdown()


def _warn_of_nothing() -> None:
    _logger.warning(
        "expected AutoGen AgentChat >= 0.7.5 or LangGraph >= 1.0 in this environment, got neither: nothing is "
        "recorded. Install one with: pip install 'blamespan[autogen]' or pip install 'blamespan[langgraph]'"
    )


def _instrumentors() -> Iterator[tuple[str, BaseInstrumentor]]:
    for name, entry in plugins(_GROUP).items():
        if not entry.value.startswith("blamespan"):
            continue  # other people's instrumentations are theirs to switch on
        try:
            yield name.removeprefix("blamespan_"), cast(BaseInstrumentor, load_entry(entry)())
        except MissingExtra as missing:
            _logger.debug("%s", missing)


def _switched_on(instrumentor: BaseInstrumentor, provider: trace.TracerProvider, content: Mapping[str, object]) -> bool:
    if not instrumentor.is_instrumented_by_opentelemetry:
        try:
            instrumentor.instrument(tracer_provider=provider, raise_exception_on_conflict=True, **content)
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
