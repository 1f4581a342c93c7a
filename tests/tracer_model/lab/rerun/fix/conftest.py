"""Recorded runs of the shop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.tracer_model.lab.rerun.fix import programs
from tests.tracer_model.lab.rerun.fix.programs import TASK
from tests.tracer_model.lab.rerun.recording import record


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
