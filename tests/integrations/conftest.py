"""Tests of a framework are collected where the framework is installed, and record that framework."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from blamespan.testing import SpanRecorder
from tests.integrations.hosts import INSTALLED, PACKAGES, recording

collect_ignore_glob = [
    pattern
    for framework, pattern in (
        ("autogen", "*autogen*"),
        ("langgraph", "*langgraph*"),
        ("agent_framework", "*test_agent_framework*"),
    )
    if framework not in INSTALLED
]


@pytest.fixture
def recorder(request: pytest.FixtureRequest) -> Iterator[SpanRecorder]:
    """Keeps the spans of the test; the framework that its file is named for is instrumented."""
    named = (name for name in PACKAGES if name in request.path.name)
    with recording(next(named, "langgraph")) as spans:
        yield spans


@pytest.fixture(scope="module", autouse=True)
def _small_process(request: pytest.FixtureRequest) -> None:
    """Leave what earlier tests left behind out of what a guard looks through for tools, each time that it opens."""
    if request.path.name.startswith("test_guard"):
        gc.collect()
        gc.freeze()
