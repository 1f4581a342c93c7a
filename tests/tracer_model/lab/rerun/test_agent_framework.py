"""Agent Framework programs run again: a workflow that a factory makes is asked, replayed, its suspects put right."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blamespan.cli import cli

pytest.importorskip("agent_framework")

from agent_framework_orchestrations import SequentialBuilder

from blamespan_lab.rerun.user_program import Ran, load_program
from tests.integrations.test_agent_framework_verdicts import RIGHT, TASK, WRONG, _members
from tests.tracer_model.lab.rerun.recording import record

_HERE = "tests.tracer_model.lab.rerun.test_agent_framework"


def shop() -> Any:
    """A workflow whose clerk misreads a table."""
    return SequentialBuilder(participants=_members(WRONG), name="shop").build()


def alone() -> Any:
    """One agent."""
    return _members(RIGHT)[0]


def is_right(answer: str, _: str) -> bool:
    return "47,700" in answer


def test_workflows_and_agents_are_programs() -> None:
    """A workflow or an agent that a factory gives is run on a task, each time anew, and its answer is read."""
    program = load_program(f"{_HERE}:shop", f"{_HERE}:is_right")

    assert [program.run(TASK).succeeded, program.run(TASK).succeeded] == [False, False]
    assert load_program(f"{_HERE}:alone").run(TASK) == Ran(RIGHT, None)


@pytest.mark.usefixtures("in_this_process")
def test_verify_confirms_the_culprit(tmp_path: Path) -> None:
    """The clerk put right mends the run, replayed up to there; the accountant is not confirmed."""
    path = record(tmp_path / "shop.jsonl", lambda: asyncio.run(shop().run(TASK)))

    arguments = [str(path), f"{_HERE}:shop", "--check", f"{_HERE}:is_right", "--correction", f"2={RIGHT}"]
    result = CliRunner().invoke(cli, ["verify", *arguments, "--repeats", "2", "--processes", "1", "--json"])

    assert result.exception is None, result.output
    suspects = {suspect["step"]: suspect for suspect in json.loads(result.stdout)["suspects"]}
    assert (suspects[2]["agent"], suspects[2]["verified"]) == ("clerk", "confirmed")
    assert suspects[3]["verified"] != "confirmed"
