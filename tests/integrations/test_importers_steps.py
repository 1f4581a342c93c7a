"""Runs as plain JSON lines are read whole, and what is no run is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun, importers
from blamespan_integrations.importers.steps import StepsImporter

RUN = {
    "id": "r1",
    "task": "Add 2 and 3.",
    "outcome": "succeeded",
    "steps": [
        {"agent": "user", "content": "Please."},
        {"agent": "solver", "kind": "tool_call", "content": "GET /sum?a=2&b=3"},
        {"agent": "solver", "kind": "tool_call", "content": "GET /check"},
        {"agent": "server", "kind": "tool_result", "content": "5"},
        {"agent": "server", "kind": "tool_result", "content": "ok"},
        {"agent": "solver", "kind": "message", "content": "It is 5."},
    ],
}


def read(path: Path, *rows: object) -> list[RecordedRun | UnreadableInput]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(StepsImporter().read(path))


def test_steps_are_read_with_their_inputs(tmp_path: Path) -> None:
    """Answers belong to their calls in order, and the next decision builds on them; a user is never to blame."""
    (run,) = read(tmp_path / "runs.jsonl", RUN)

    assert isinstance(run, RecordedRun)
    assert run.trace.task == "Add 2 and 3."
    assert run.trace.outcome == "succeeded"
    assert [(step.agent, step.kind, step.inputs) for step in run.trace.steps] == [
        ("user", "message", ()),
        ("solver", "tool_call", (0,)),
        ("solver", "tool_call", (0,)),
        ("solver", "tool_result", (1,)),
        ("solver", "tool_result", (2,)),
        ("solver", "message", (0, 3, 4)),
    ]
    assert [run.trace.can_be_blamed(step) for step in run.trace.steps] == [False, True, True, False, False, True]


def test_file_is_recognised_by_this_importer_alone(tmp_path: Path) -> None:
    """No other importer takes it for its own."""
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(RUN) + "\n")

    assert [importer.name for importer in importers() if importer.matches(path, path.read_bytes())] == ["steps"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": "none"}, "'steps' as a list"),
        ({"steps": [1]}, "steps\\[0\\] as an object"),
        ({"steps": [{"agent": "", "content": "x"}]}, "'agent' as text"),
        ({"steps": [{"agent": "a", "kind": "guess", "content": "x"}]}, "'kind' as one of"),
        ({"outcome": "maybe"}, "'outcome' as one of"),
        ({"task": None}, "'task' as text"),
    ],
)
def test_wrong_record_is_named_and_the_next_is_read(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """One bad line costs itself."""
    wrong, right = read(tmp_path / "runs.jsonl", {**RUN, **change}, RUN)

    assert isinstance(right, RecordedRun)
    assert isinstance(wrong, UnreadableInput)
    with pytest.raises(UnreadableInput, match=message):
        raise wrong
