"""A program with an embedded processor, and what goes out of it; and programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan import conventions as words
from blamespan_collector.embedded import EmbeddedProcessor
from tests.sdk.builders import said

HERE = Path(__file__).parents[2]


class EmbeddedProgram:
    """A program with an embedded processor and an exporter in memory."""

    def __init__(self, processor: EmbeddedProcessor, exporter: InMemorySpanExporter | None = None) -> None:
        self.processor = processor
        self.exporter = exporter or InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("test")

    def step(self, agent: str, content: str = "hello") -> None:
        attributes = {words.OPERATION: words.OPERATION_AGENT, words.AGENT_NAME: agent, words.STEP_CONTENT: content}
        with self.tracer.start_as_current_span(f"invoke_agent {agent}", attributes=attributes):
            pass

    def run(self, task: str = "", content: str = "hello") -> trace.Span:
        """Record a run of two steps; gives its own span."""
        attributes = {words.OPERATION: words.OPERATION_WORKFLOW, words.RUN_COMPLETE: True}
        if task:
            attributes[words.INPUT_MESSAGES] = said(task, "user")
        with self.tracer.start_as_current_span("invoke_workflow", attributes=attributes) as root:
            self.step("planner", content)
            self.step("coder", content)
        return root

    def tell(self, run: trace.Span, outcome: str, reason: str = "expected 36") -> None:
        """Record how a run ended."""
        parent = trace.set_span_in_context(trace.NonRecordingSpan(run.get_span_context()), Context())
        attributes = {words.RUN_OUTCOME: outcome, words.RUN_OUTCOME_REASON: reason}
        self.tracer.start_span(words.RUN_OUTCOME_SPAN, parent, attributes=attributes).end()

    def exported(self, count: int, timeout_s: float = 20) -> Sequence[ReadableSpan]:
        """Wait for so many exported spans, and return what there is."""
        deadline = time.monotonic() + timeout_s
        while len(self.exporter.get_finished_spans()) < count and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.exporter.get_finished_spans()


def run_python(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with no variables of ours or OpenTelemetry's but those given."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "BLAMESPAN_"))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=HERE,
    )
