"""The one line: `blamespan.instrument()`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from opentelemetry import trace
from opentelemetry.environment_variables import OTEL_TRACES_EXPORTER
from opentelemetry.instrumentation.dependencies import DependencyConflictError
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_EXPORTER_OTLP_PROTOCOL,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
    OTEL_SDK_DISABLED,
)
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from blamespan.errors import ConfigError, MissingExtra
from blamespan.injecting.injection import inject_from_environment
from blamespan.instrumenting.exchange import ExchangeableProvider, LentExporter, new_provider
from blamespan.instrumenting.exporting import AllExporters, PresentExporter
from blamespan.instrumenting.settings import ContentSettings, Mask, links_checkpoints
from blamespan.plugins import find_part, load_entry, load_part, plugins
from blamespan.tracers import DEFAULT_TRACER, load_maker
from blamespan.variables import mistyped_variables

_logger = logging.getLogger("blamespan")
_GROUP = "opentelemetry_instrumentor"
_EXPORTERS_GROUP = "opentelemetry_traces_exporter"
_DEFAULT_ENDPOINTS = {"otlp_proto_http": "http://localhost:4318", "otlp_proto_grpc": "http://localhost:4317"}

_switching = threading.RLock()
"""Held while recording is switched on or off: two threads that call `instrument()` at once switch it on once."""


def _renew_lock() -> None:
    global _switching
    _switching = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

_DESTINATION = ("tracer_provider", "embedded", "exporter", "tracer", "page", "quiet")
"""The arguments of `instrument()` that say where spans go: they are kept or replaced together."""

_PLAIN = (bool, int, str, list, tuple, set, frozenset)
"""Of arguments; exporters, providers and functions of the program's may compare and show as they like."""

_arguments_in_force: dict[str, object] = {}
"""The arguments that recording goes on with while it is on, but for those left out."""
_held_provider: trace.TracerProvider | None = None
_own: ExchangeableProvider | None = None
"""Made where the program has no TracerProvider, and its global one from then on."""
_end_embedded: Callable[[], None] | None = None
"""Shuts down what `instrument(embedded=True)` has made."""


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    embedded: bool = False,
    exporter: SpanExporter | None = None,
    tracer: str | None = None,
    page: bool = False,
    quiet: bool | None = None,
    capture_content: bool | None = None,
    mask_secrets: bool | None = None,
    mask_keys: Collection[str] | None = None,
    mask: Mask | None = None,
    max_content_bytes: int | None = None,
    link_checkpoints: bool | None = None,
) -> list[str]:
    """Record every AutoGen, LangGraph and Agent Framework run of this program as OpenTelemetry spans.

    Where the program imports OpenAI Agents, pydantic-ai, CrewAI, Google ADK, the Claude Agent SDK, LlamaIndex,
    smolagents or Strands, it turns on what is installed to record them, or says in the log what to install.

    Call it once, before the runs. Spans go to *tracer_provider*, else to the program's own TracerProvider,
    else to a new one that exports OTLP as the standard `OTEL_*` variables say (`OTEL_EXPORTER_OTLP_ENDPOINT`,
    `OTEL_TRACES_EXPORTER`, `OTEL_SERVICE_NAME`, ...).

    A second call while recording is on does what its arguments say from then on, and ends runs that are going on as
    incomplete if that is anything new. What it leaves out stays as it is; a warning names what is not the default.

    Args:
        tracer_provider: OpenTelemetry's: where the spans go. It has nothing to do with *tracer*.
        embedded: Attribute inside this program: a run's spans are held until it is complete,
            annotated, then exported and kept on this machine for `blamespan open`. Needs
            `pip install 'blamespan[collector,model]'`. The program's own TracerProvider keeps its other
            spans; the agents' spans go to *exporter*.
        exporter: Where finished spans go, instead of what the `OTEL_*` variables say. With a
            TracerProvider of the program's own, give it the program's exporter when *embedded*.
        tracer: Name of the blamespan tracer that gives *embedded* verdicts, as `--tracer` names it; `auto` by default.
        page: Whether *embedded* serves the page of kept runs on a free port of this machine; stderr says where.
        quiet: Whether *embedded* writes nothing to stderr: else a line for each run that failed, and one at exit.
            `BLAMESPAN_QUIET` if None.
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
        link_checkpoints: Whether the run is noted in the metadata of LangGraph's and Agent Framework's checkpoints, so
            that a run that another process resumes links to it; `BLAMESPAN_LINK_CHECKPOINTS`, else False, if None.

    Returns:
        Names of the frameworks that are recorded: those installed with what records them, whether the program has
        imported them or not.

    Raises:
        ConfigError: if the arguments contradict each other or a variable is wrong.
        MissingExtra: if *embedded* and its packages are not installed.
    """
    if tracer_provider is not None and (embedded or exporter is not None):
        raise ConfigError("expected tracer_provider alone, or embedded/exporter, got both. Leave one out")
    if tracer is not None and not embedded:
        raise ConfigError(f"expected tracer= with embedded=True, got tracer={tracer!r} alone. Add embedded=True")
    if not embedded and (page or quiet is not None):
        raise ConfigError("expected page= and quiet= with embedded=True, got them without. Add embedded=True")
    content: dict[str, object] = {"capture_content": capture_content, "max_content_bytes": max_content_bytes}
    content |= {"mask_secrets": mask_secrets, "mask_keys": mask_keys, "mask": mask}
    ContentSettings.among(content)  # what is wrong shows now
    links_checkpoints(link_checkpoints)
    destination: dict[str, object] = {"tracer_provider": tracer_provider, "embedded": embedded or None}
    destination |= {"exporter": exporter, "tracer": tracer, "page": page or None, "quiet": quiet}
    arguments = {**destination, **content, "link_checkpoints": link_checkpoints}
    inject_from_environment()
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return []
    with _switching:
        done = _switch_on({name: value for name, value in arguments.items() if value is not None})
    if not done:
        _warn_of_nothing(is_embedded=embedded)
    return done


def uninstrument() -> None:
    """Stop recording and give the frameworks back as they were; spans held in process are flushed.

    A TracerProvider that `instrument()` has made goes on with the program's own spans, but for an embedded one.
    """
    with _switching:
        _switch_off(dict(_instrumentors()))


def _switch_on(requested: Mapping[str, object]) -> list[str]:
    global _arguments_in_force, _held_provider
    instrumentors = dict(_instrumentors())
    is_on = any(instrumentor.is_instrumented_by_opentelemetry for instrumentor in instrumentors.values())
    if not is_on and (mistyped := mistyped_variables()):
        _logger.warning("%s", " ".join(mistyped))
    retained = _retain_arguments(requested) if is_on else {}
    arguments = {**retained, **requested}
    if is_on and _are_same(arguments, _arguments_in_force):
        provider = _held_provider or trace.get_tracer_provider()  # of whoever has switched it on
    elif (
        is_on
        and _held_provider is not None
        and _are_same(_destination_of(arguments), _destination_of(_arguments_in_force))
    ):
        provider = _held_provider
        _give_back(instrumentors)
    else:
        wanted = [arguments.get(name) for name in _DESTINATION]
        provider, use = _destination(*wanted)  # type: ignore[arg-type]  # as `instrument` has typed them
        _switch_off(instrumentors)
        use()
    _arguments_in_force, _held_provider = arguments, provider
    if retained:
        _logger.warning(
            "recording was on when instrument() was called again: %s of the call before holds, since this one does not "
            "name it. Call uninstrument() first to begin anew",
            ", ".join(f"{name}={_format_argument(value)}" for name, value in retained.items()),
        )
    settings = {name: value for name, value in arguments.items() if name not in _DESTINATION}
    on = [name for name, one in instrumentors.items() if _switched_on(one, provider, settings)]
    return [name for name in on if getattr(instrumentors[name], "can_record", True)]


def _switch_off(instrumentors: Mapping[str, BaseInstrumentor]) -> None:
    global _arguments_in_force, _held_provider, _end_embedded
    _give_back(instrumentors)
    _arguments_in_force, _held_provider = {}, None
    end, _end_embedded = _end_embedded, None
    if end is not None:
        end()


def _give_back(instrumentors: Mapping[str, BaseInstrumentor]) -> None:
    for instrumentor in instrumentors.values():
        if instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.uninstrument()


def _destination_of(arguments: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if name in _DESTINATION}


def _retain_arguments(requested: Mapping[str, object]) -> dict[str, object]:
    """Return those of the arguments that hold which *requested* does not replace."""
    replaced = {*requested, *(_DESTINATION if any(name in requested for name in _DESTINATION) else ())}
    return {name: value for name, value in _arguments_in_force.items() if name not in replaced}


def _are_same(arguments: Mapping[str, object], others: Mapping[str, object]) -> bool:
    if arguments.keys() != others.keys():
        return False
    return all(_is_same(value, others[name]) for name, value in arguments.items())


def _is_same(value: object, other: object) -> bool:
    return value is other or (type(value) in _PLAIN and type(value) is type(other) and value == other)


def _format_argument(value: object) -> str:
    return repr(value) if type(value) in _PLAIN else type(value).__name__


def _warn_of_nothing(*, is_embedded: bool) -> None:
    if is_embedded:  # runs of others are judged, too: docs/how-to/existing-spans.md
        _logger.info("no framework that blamespan records is installed: spans of other instrumentations are judged")
        return
    needs = {name: instrumentor.instrumentation_dependencies() for name, instrumentor in _instrumentors()}
    _logger.warning(
        "expected %s in this environment, got none of them: nothing is recorded. Install one with: %s. "
        "docs/reference/frameworks.md lists the others that are recorded",
        " or ".join(need for needed in needs.values() for need in needed),
        " or ".join(f"pip install 'blamespan[{name.replace('_', '-')}]'" for name, needed in needs.items() if needed),
    )


def _instrumentors() -> Iterator[tuple[str, BaseInstrumentor]]:
    for name, entry in plugins(_GROUP).items():
        if not entry.value.startswith("blamespan"):
            continue  # other people's instrumentations are theirs to switch on
        try:
            yield name.removeprefix("blamespan_"), cast(BaseInstrumentor, load_entry(entry)())
        except MissingExtra as missing:
            _logger.debug("%s", missing)
    others = find_part("framework_instrumentors", _logger, "frameworks that trace themselves are not recorded")
    if others is not None:
        yield from others().items()


def _switched_on(
    instrumentor: BaseInstrumentor, provider: trace.TracerProvider, settings: Mapping[str, object]
) -> bool:
    if not instrumentor.is_instrumented_by_opentelemetry:
        try:
            instrumentor.instrument(tracer_provider=provider, raise_exception_on_conflict=True, **settings)
        except DependencyConflictError as conflict:
            if conflict.conflict and conflict.conflict.found:  # installed, but not a version we know
                _logger.warning("%s is left alone: %s", type(instrumentor).__name__, conflict)
    return bool(instrumentor.is_instrumented_by_opentelemetry)


def _destination(
    tracer_provider: trace.TracerProvider | None,
    embedded: bool | None,
    exporter: SpanExporter | None,
    tracer: str | None,
    page: bool | None,
    quiet: bool | None,
) -> tuple[trace.TracerProvider, Callable[[], None]]:
    """Return where spans are to go, and what makes them go there; nothing is changed yet."""
    global _own
    make = partial(_make_embedded_processor, tracer, page, quiet)
    existing = trace.get_tracer_provider()
    if tracer_provider is not None:
        return tracer_provider, _do_nothing
    if isinstance(existing, trace.ProxyTracerProvider) or (_own is not None and existing is _own.provider):
        processors = _processors(embedded, exporter, make)
        own = _own = _own or ExchangeableProvider()
        return own.provider, partial(_use_own, own, processors, is_embedded=bool(embedded))
    if embedded:
        processors = _processors(embedded, exporter, make)
        provider = new_provider(existing.resource if isinstance(existing, TracerProvider) else None)
        for processor in processors:
            provider.add_span_processor(processor)
        return provider, partial(_end_later, provider.shutdown)
    if exporter is not None:
        raise ConfigError(
            "exporter= needs embedded=True here: this program has a TracerProvider of its own. "
            "Add the exporter to it with add_span_processor()"
        )
    return existing, _do_nothing


def _use_own(own: ExchangeableProvider, processors: Sequence[SpanProcessor], *, is_embedded: bool) -> None:
    own.send_to(processors)
    if is_embedded:
        _end_later(partial(own.send_to, ()))
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(own.provider)


def _end_later(end: Callable[[], None]) -> None:
    global _end_embedded
    _end_embedded = end


def _do_nothing() -> None:
    return None


def _processors(
    embedded: bool | None, exporter: SpanExporter | None, make: Callable[[SpanExporter], SpanProcessor]
) -> list[SpanProcessor]:
    if not embedded:
        exporters = [LentExporter(exporter)] if exporter is not None else _standard_exporters()
        return [BatchSpanProcessor(each) for each in exporters]
    exporters = [LentExporter(exporter)] if exporter is not None else _standard_exporters(True)
    return [make(exporters[0] if len(exporters) == 1 else AllExporters(exporters))]


def _make_embedded_processor(
    tracer: str | None, page: bool | None, quiet: bool | None, exporter: SpanExporter
) -> SpanProcessor:
    name = tracer if tracer is not None else DEFAULT_TRACER
    load_maker(name)  # a wrong name or a missing package shows now, not in the background
    make = cast(Callable[..., SpanProcessor], load_part("embedded_processor"))
    return make(exporter, tracer_name=name, page=bool(page), quiet=quiet)


def _standard_exporters(keeps_runs: bool = False) -> list[SpanExporter]:
    """Make the exporters that `OTEL_TRACES_EXPORTER` names; OTLP over HTTP by default.

    Args:
        keeps_runs: Whether runs are kept on this machine, so that a back end need not listen.
    """
    names = [name.strip() for name in os.environ.get(OTEL_TRACES_EXPORTER, "otlp").split(",")]
    return [_standard_exporter(name, keeps_runs) for name in names if name and name != "none"]


def _standard_exporter(name: str, keeps_runs: bool) -> SpanExporter:
    if name == "otlp":
        protocol = os.environ.get(OTEL_EXPORTER_OTLP_TRACES_PROTOCOL) or os.environ.get(OTEL_EXPORTER_OTLP_PROTOCOL)
        name = "otlp_proto_grpc" if (protocol or "").strip() == "grpc" else "otlp_proto_http"
    installed: dict[str, EntryPoint] = {entry.name: entry for entry in entry_points(group=_EXPORTERS_GROUP)}
    if name not in installed:
        raise ConfigError(
            f"{OTEL_TRACES_EXPORTER} must name installed exporters ({', '.join(sorted(installed))}), got {name!r}. "
            "For OTLP over gRPC: pip install 'blamespan[collector]'"
        )
    exporter = cast(SpanExporter, load_entry(installed[name])())
    if name not in _DEFAULT_ENDPOINTS:
        return exporter
    endpoint = os.environ.get(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) or os.environ.get(OTEL_EXPORTER_OTLP_ENDPOINT)
    advice: str | None = "spans are dropped until somebody does. Start one with: blamespan collect"
    if keeps_runs:  # who named no back end expects none: the line at exit is enough
        advice = "runs are kept on this machine alone. See them with: blamespan open" if endpoint else None
    return PresentExporter(exporter, endpoint or _DEFAULT_ENDPOINTS[name], advice)
