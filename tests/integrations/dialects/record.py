"""Record one program under one instrumentation as OTLP-JSON: run by `scripts/record-dialects` in its environment.

    python record.py openinference langgraph-nodes recorded/openinference.langgraph-nodes.jsonl

Each span is written on a line of its own, in the order they ended. What tells of the machine (host, process,
paths) is left out of the resource; everything else is as the instrumentation made it.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

KEPT_OF_RESOURCE = ("service.name", "telemetry.sdk.name", "telemetry.sdk.language")


def main(peer: str, program: str, out: str) -> None:
    """Run *program* instrumented by *peer*; write its spans to *out*."""
    os.environ.setdefault("OTEL_SERVICE_NAME", "recorded")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    logs = PEERS[peer](provider)
    programs: dict[str, Callable[[], None]] = {}
    for path in Path(__file__).parent.glob("programs*.py"):
        programs |= importlib.import_module(path.stem).PROGRAMS
    programs[program]()
    for finish in FINISH:
        finish()
    provider.force_flush()
    lines = [as_line(span) for span in memory.get_finished_spans()]
    Path(out).write_text("".join(f"{line}\n" for line in lines))
    if logs is not None:
        Path(out).with_suffix(".logs.json").write_text(json.dumps(logs(), indent=1))
    sys.stderr.write(f"{out}: {len(lines)} spans\n")


FINISH: list[Callable[[], None]] = []


def as_line(span: Any) -> str:
    """Write one SDK span as an OTLP-JSON document on one line."""
    from google.protobuf import json_format
    from opentelemetry.exporter.otlp.proto.common._internal.trace_encoder import encode_spans

    document = json_format.MessageToDict(encode_spans([span]), use_integers_for_enums=True)
    for group in document["resourceSpans"]:
        kept = [item for item in group["resource"]["attributes"] if item["key"] in KEPT_OF_RESOURCE]
        group["resource"]["attributes"] = kept
        for scoped in group["scopeSpans"]:
            for written in scoped["spans"]:
                for owner in (written, *written.get("links", ())):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in owner:
                            owner[key] = base64.b64decode(owner[key]).hex()
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def bare(provider: Any) -> None:
    """The framework's own spans alone."""


def agent_framework(provider: Any) -> None:
    from agent_framework.observability import enable_instrumentation

    enable_instrumentation(enable_sensitive_data=True)


def openinference(provider: Any) -> None:
    from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor
    from openinference.instrumentation.langchain import LangChainInstrumentor

    AutogenAgentChatInstrumentor().instrument(tracer_provider=provider)
    LangChainInstrumentor().instrument(tracer_provider=provider)


def openinference_openai_agents(provider: Any) -> None:
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


def openinference_crewai(provider: Any) -> None:
    from openinference.instrumentation.crewai import CrewAIInstrumentor

    CrewAIInstrumentor().instrument(tracer_provider=provider)


def pydantic_ai(provider: Any) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))


def traceloop(provider: Any) -> None:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=provider)


def genai(provider: Any) -> None:
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider)


def genai_openai_agents(provider: Any) -> None:
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


def openllmetry_openai(provider: Any) -> None:
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)


def genai_openai(provider: Any) -> None:
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)


def openai_v2(provider: Any) -> Callable[[], Any]:
    """The form with one log record for each message; those are kept beside the spans."""
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogExporter, SimpleLogRecordProcessor

    memory = InMemoryLogExporter()
    logger_provider = LoggerProvider()
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
    from opentelemetry.sdk._events import EventLoggerProvider

    OpenAIInstrumentor().instrument(
        tracer_provider=provider,
        logger_provider=logger_provider,
        event_logger_provider=EventLoggerProvider(logger_provider),
    )
    return lambda: encoded_logs(memory.get_finished_logs())


def encoded_logs(logs: Any) -> Any:
    """Write log records as one OTLP-JSON document."""
    from google.protobuf import json_format
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs

    document = json_format.MessageToDict(encode_logs(logs), use_integers_for_enums=True)
    for group in document["resourceLogs"]:
        group["resource"]["attributes"] = [i for i in group["resource"]["attributes"] if i["key"] in KEPT_OF_RESOURCE]
        for scoped in group["scopeLogs"]:
            for record in scoped["logRecords"]:
                for key in ("traceId", "spanId"):
                    record[key] = base64.b64decode(record[key]).hex()
    return document


def langsmith(provider: Any) -> None:
    os.environ |= {
        "LANGSMITH_OTEL_ENABLED": "true",
        "LANGSMITH_OTEL_ONLY": "true",
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "none",
    }
    from langchain_core.tracers.langchain import wait_for_all_tracers

    FINISH.append(wait_for_all_tracers)


def langfuse(provider: Any) -> None:
    os.environ |= {
        "LANGFUSE_PUBLIC_KEY": "pk-lf-none",
        "LANGFUSE_SECRET_KEY": "none",
        "LANGFUSE_HOST": "http://127.0.0.1:9",
    }
    from contextvars import ContextVar

    from langchain_core.tracers.context import register_configure_hook
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler

    Langfuse(tracer_provider=provider, tracing_enabled=True)
    variable: ContextVar[Any] = ContextVar("langfuse", default=None)
    register_configure_hook(variable, inheritable=True)
    variable.set(CallbackHandler())


def mlflow(provider: Any) -> None:
    os.environ |= {"MLFLOW_USE_DEFAULT_TRACER_PROVIDER": "false", "MLFLOW_ALLOW_FILE_STORE": "true"}
    os.environ["MLFLOW_TRACKING_URI"] = Path(tempfile.mkdtemp()).as_uri()
    import mlflow as mlflow_package

    mlflow_package.langchain.autolog()
    mlflow_package.autogen.autolog()


def openlit(provider: Any) -> None:
    import openlit as openlit_package

    openlit_package.init(disable_metrics=True, disable_batch=True)


PEERS: dict[str, Callable[[Any], Any]] = {
    "autogen": bare,
    "agent-framework": agent_framework,
    "openinference": openinference,
    "openinference-openai-agents": openinference_openai_agents,
    "openinference-crewai": openinference_crewai,
    "pydantic-ai": pydantic_ai,
    "openllmetry": traceloop,
    "genai": genai,
    "genai-openai-agents": genai_openai_agents,
    "genai-openai": genai_openai,
    "openai-v2": openai_v2,
    "openllmetry-openai": openllmetry_openai,
    "langsmith": langsmith,
    "langfuse": langfuse,
    "mlflow": mlflow,
    "openlit": openlit,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
