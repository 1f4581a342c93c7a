"""`opentelemetry-instrument python app.py` gives the trace that the one line gives."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import blamespan
from blamespan import rebuild
from blamespan.otlp.proto import spans_from_proto
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from tests.integrations import coexistence_programs
from tests.integrations.drawing import draw

FRAMEWORKS = {"agent_framework": "agent_framework", "autogen_agentchat": "autogen", "langgraph": "langgraph"}
"""Package of each framework: its program, the one of `coexistence_programs`."""
PROGRAMS = [program for package, program in FRAMEWORKS.items() if find_spec(package) is not None]
CODE = f"""
from tests.integrations import coexistence_programs
for name in {PROGRAMS!r}:
    getattr(coexistence_programs, name)()
"""
OTHERS = "autogen_agentchat,langchain,openai"
"""Entry points of peers that may be installed beside us."""


class _Receiver(HTTPServer):
    """Keeps what is sent to it by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Traces)
        self.spans: list[Span] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Traces(BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        request = ExportTraceServiceRequest.FromString(body)
        self.server.spans += spans_from_proto(request.resource_spans)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def receiver() -> Iterator[_Receiver]:
    server = _Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def zero_code(receiver: _Receiver, **environment: str) -> list[Span]:
    """Run the programs of all frameworks that are installed, one after the other, unchanged; give what was sent."""
    tool = Path(sys.executable).with_name("opentelemetry-instrument")
    if not tool.exists() or not PROGRAMS:
        pytest.skip("opentelemetry-instrument or every framework is missing; the dev group of pyproject.toml has them")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "BLAMESPAN_"))}
    mine = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": OTHERS,
    }
    command = [tool, sys.executable, "-c", CODE]
    done = subprocess.run(
        command, env=clean | mine | environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return receiver.spans


def test_zero_code_gives_the_same_traces(receiver: _Receiver) -> None:
    """Without a line of code, runs are recorded as with the one line, span by span, and by nobody else."""
    no_line = zero_code(receiver)
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider)
    for program in PROGRAMS:
        getattr(coexistence_programs, program)()
    blamespan.uninstrument()
    one_line = recorder.spans()

    drawings = [[draw(rebuild(spans), hide=_IDS) for spans in _traces(each)] for each in (no_line, one_line)]
    assert drawings[0] == drawings[1]
    assert len(drawings[0]) == len(PROGRAMS)
    assert [_shape(span) for span in no_line] == [_shape(span) for span in one_line]
    assert all(span.scope.name.startswith("blamespan.") for span in no_line)


_IDS = {"blamespan.agent.id", "gen_ai.conversation.id", "blamespan.message.id", "gen_ai.input.messages"}


def _traces(spans: list[Span]) -> list[list[Span]]:
    ids = dict.fromkeys(span.trace_id for span in spans)
    return [[span for span in spans if span.trace_id == trace_id] for trace_id in ids]


def _shape(span: Span) -> object:
    return span.name, span.kind, span.scope, span.status, sorted(span.attributes), len(span.links), len(span.events)


def test_variables_are_all_that_zero_code_needs(receiver: _Receiver) -> None:
    """The standard variables switch off content, and by its name each of our instrumentations; the others record."""
    kept, *rest = PROGRAMS
    off = ",".join((OTHERS, *(f"blamespan_{program}" for program in rest)))
    spans = zero_code(
        receiver,
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=off,
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="no_content",
    )
    ours = [span for span in spans if span.scope.name.startswith("blamespan.")]  # AutoGen makes spans of its own
    (run,) = [rebuild(spans) for spans in _traces(ours)]

    assert {span.scope.name for span in ours} == {f"blamespan.{kept}"}
    assert {run.task, *(step.content for step in run.steps)} == {""}
    assert [step.agent for step in run.steps if step.kind == "message"][-1] == "checker"


@pytest.mark.parametrize("name", ["agent_framework", "autogen", "langgraph"])
def test_instrumentation_goes_by_its_name(name: str) -> None:
    """What a program puts into `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS` is `blamespan_` and the framework's name."""
    (entry,) = entry_points(group="opentelemetry_instrumentor", name=f"blamespan_{name}")

    assert entry.module == f"blamespan_integrations.{name}"
