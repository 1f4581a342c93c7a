"""Run one framework's desk with the one line, and write its spans as OTLP-JSON, one a line:

python -m tests.integrations.frameworks.record llama-index researcher recorded/llama-index.researcher.jsonl

`scripts/frameworks --record` does that for every framework, each in an environment of its own.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

os.environ.setdefault("OTEL_SERVICE_NAME", "recorded")

from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import blamespan
from tests.integrations.dialects.record import as_line
from tests.integrations.frameworks import desk
from tests.integrations.frameworks.recordings import framework_of


def main(framework: str, fault: str, out: str) -> None:
    """Run the desk of *framework* with *fault* (`sound`: none); write its spans to *out*."""
    memory = InMemorySpanExporter()
    framework = framework_of(framework)
    recorded = blamespan.instrument(exporter=memory)
    if framework not in recorded:
        sys.exit(f"expected that instrument() records {framework}, got {recorded}")
    told: desk.Fault = {"researcher": "researcher", "writer": "writer"}.get(fault, "")  # type: ignore[assignment]
    program = import_module(f"tests.integrations.frameworks.program_{framework.replace('-', '_')}")
    program.run(told)
    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]
    Path(out).write_text("".join(f"{as_line(span)}\n" for span in memory.get_finished_spans()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
