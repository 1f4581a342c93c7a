"""`opentelemetry-instrument python app.py` gives the trace that the one line gives."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan import rebuild
from blamespan.otlp.proto import spans_from_proto
from blamespan.spans import Span
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


def run(receiver: _Receiver, command: list[str], **environment: str) -> list[Span]:
    """Run a program that sends to *receiver*; give what it sent."""
    receiver.spans = []
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "BLAMESPAN_"))}
    mine = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": OTHERS,
    }
    done = subprocess.run(
        command, env=clean | mine | environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return receiver.spans


def zero_code(receiver: _Receiver, **environment: str) -> list[Span]:
    """Run the programs of all frameworks that are installed, one after the other, unchanged."""
    tool = Path(sys.executable).with_name("opentelemetry-instrument")
    if not tool.exists() or not PROGRAMS:
        pytest.skip("opentelemetry-instrument or every framework is missing; the dev group of pyproject.toml has them")
    return run(receiver, [str(tool), sys.executable, "-c", CODE], **environment)


def test_zero_code_gives_the_same_traces(receiver: _Receiver) -> None:
    """Without a line of code, runs are recorded as with the one line, span by span, and by nobody else."""
    no_line = zero_code(receiver)
    one_line = run(receiver, [sys.executable, "-c", f"import blamespan; blamespan.instrument()\n{CODE}"])

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


def test_disabled_instrumentation_stays_off(receiver: _Receiver) -> None:
    """`OTEL_PYTHON_DISABLED_INSTRUMENTATIONS` switches ours off by their names."""
    off = f"{OTHERS},blamespan_agent_framework,blamespan_autogen,blamespan_langgraph"

    spans = zero_code(receiver, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=off)

    assert [span.name for span in spans if span.scope.name.startswith("blamespan.")] == []


def test_variables_are_all_that_zero_code_needs(receiver: _Receiver) -> None:
    """Content capture is switched off by the standard variable: the runs are there, without what was said."""
    spans = zero_code(receiver, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="no_content")
    runs = [rebuild(spans) for spans in _traces(spans)]

    assert {run.task for run in runs} == {""}
    assert {step.content for run in runs for step in run.steps} == {""}
    assert [[step.agent for step in run.steps if step.kind == "message"][-1] for run in runs] == ["checker"] * len(
        PROGRAMS
    )
