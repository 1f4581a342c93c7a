"""Who records the measured programs: nobody, we, each peer; switched on as its own documentation says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

SwitchOn = Callable[[SpanExporter, str], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Recorder:
    """One way to record a program.

    Attributes:
        title: Its name in the table.
        packages: For each framework that it says it can record, the distribution that does; empty for none.
        switch_on: Given where spans go and the framework, starts recording; gives callbacks to pass to the program.
        environment: Variables that its process needs from the start.
    """

    title: str
    packages: Mapping[str, str]
    switch_on: SwitchOn
    environment: Mapping[str, str] = field(default_factory=dict)


def _nobody(exporter: SpanExporter, framework: str) -> Sequence[Any]:
    return ()


def _own_spans(exporter: SpanExporter, framework: str) -> Sequence[Any]:
    _global_provider(exporter)
    return ()


def _blamespan(exporter: SpanExporter, framework: str) -> Sequence[Any]:
    import blamespan

    _global_provider(exporter)
    blamespan.instrument()
    return ()


def _instrumentor(places: Mapping[str, str]) -> SwitchOn:
    """Switch on an OpenTelemetry instrumentor; *places* says for each framework where its class is."""

    def switch_on(exporter: SpanExporter, framework: str) -> Sequence[Any]:
        provider = _global_provider(exporter)
        module, _, name = places[framework].partition(":")
        getattr(import_module(module), name)().instrument(tracer_provider=provider)
        return ()

    return switch_on


def _langfuse(exporter: SpanExporter, framework: str) -> Sequence[Any]:
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler

    provider = TracerProvider()
    Langfuse(
        public_key="pk-lf-none",
        secret_key="sk-lf-none",
        base_url="http://127.0.0.1:9",  # never asked: spans go to the exporter
        tracer_provider=provider,
        span_exporter=exporter,
    )
    trace.set_tracer_provider(provider)
    return (CallbackHandler(public_key="pk-lf-none"),)


def _openlit(exporter: SpanExporter, framework: str) -> Sequence[Any]:
    import openlit

    _global_provider(exporter)
    prices = Path(tempfile.mkdtemp()) / "prices.json"  # or it asks GitHub for them
    prices.write_text("{}")
    openlit.init(disable_metrics=True, disable_events=True, pricing_json=str(prices))
    return ()


def _global_provider(exporter: SpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


RECORDERS: Mapping[str, Recorder] = {
    "none": Recorder("none", {"autogen": "", "langgraph": ""}, _nobody),
    "blamespan": Recorder("blamespan", {"autogen": "blamespan", "langgraph": "blamespan"}, _blamespan),
    "own": Recorder("AutoGen's own spans", {"autogen": "autogen-core"}, _own_spans),
    "openinference": Recorder(
        "OpenInference",
        {
            "autogen": "openinference-instrumentation-autogen-agentchat",
            "langgraph": "openinference-instrumentation-langchain",
        },
        _instrumentor(
            {
                "autogen": "openinference.instrumentation.autogen_agentchat:AutogenAgentChatInstrumentor",
                "langgraph": "openinference.instrumentation.langchain:LangChainInstrumentor",
            }
        ),
    ),
    "openllmetry": Recorder(
        "OpenLLMetry",
        {"langgraph": "opentelemetry-instrumentation-langchain"},
        _instrumentor({"langgraph": "opentelemetry.instrumentation.langchain:LangchainInstrumentor"}),
        {"TRACELOOP_TRACE_CONTENT": "true"},
    ),
    "genai": Recorder(
        "OpenTelemetry genai",
        {"langgraph": "opentelemetry-instrumentation-genai-langchain"},
        _instrumentor({"langgraph": "opentelemetry.instrumentation.genai.langchain:LangChainInstrumentor"}),
        {
            "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
        },
    ),
    "langfuse": Recorder("Langfuse", {"langgraph": "langfuse"}, _langfuse),
    "openlit": Recorder("OpenLIT", {"langgraph": "openlit"}, _openlit),
}
"""In the order of the table. What a recorder lacks is shown as such: it has no integration for that framework."""
