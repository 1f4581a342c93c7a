"""Recorded runs of the shop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import blamespan
from blamespan.otlp.json import request_to_json
from blamespan.testing import SpanRecorder
from tests.tracer_model.lab.rerun.fix import programs
from tests.tracer_model.lab.rerun.fix.programs import TASK


def record(path: Path, run: Callable[[], Any], **settings: Any) -> Path:
    """Write the spans of what *run* does to a file."""
    recorder = SpanRecorder()
    blamespan.instrument(tracer_provider=recorder.provider, **settings)
    try:
        run()
    finally:
        blamespan.uninstrument()
    path.write_text(request_to_json(encode_spans(recorder.finished())) + "\n")
    return path


def run_graph() -> Any:
    """Run the graph once."""
    return programs.graph().invoke({"messages": [("user", TASK)]})


def run_team() -> Any:
    """Run the team once."""
    return asyncio.run(programs.team().run(task=TASK))


@pytest.fixture
def graph_run(tmp_path: Path) -> Path:
    """A failed run of the graph."""
    return record(tmp_path / "graph.jsonl", run_graph)


@pytest.fixture
def team_run(tmp_path: Path) -> Path:
    """A failed run of the team."""
    return record(tmp_path / "team.jsonl", run_team)
