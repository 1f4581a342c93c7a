"""Tests of a framework are collected where the framework is installed, and record that framework."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import pytest

from blamespan.testing import SpanRecorder

collect_ignore_glob = [
    pattern
    for package, pattern in (
        ("autogen_agentchat", "*autogen*"),
        ("langgraph", "*langgraph*"),
        ("agent_framework", "*test_agent_framework*"),
    )
    if find_spec(package) is None
]


@pytest.fixture
def recorder(request: pytest.FixtureRequest) -> Iterator[SpanRecorder]:
    """Keeps the spans of the test; the framework that its file is named for is instrumented."""
    framework, name = next(
        names
        for names in (
            ("autogen", "AutoGenInstrumentor"),
            ("agent_framework", "AgentFrameworkInstrumentor"),
            ("langgraph", "LangGraphInstrumentor"),
        )
        if names[0] in request.path.name or names[0] == "langgraph"
    )
    instrumentor = getattr(import_module(f"blamespan_integrations.{framework}"), name)()
    spans = SpanRecorder()
    instrumentor.instrument(tracer_provider=spans.provider)
    yield spans
    instrumentor.uninstrument()
