"""The tau-bench importer: a conversation with tools becomes a run whose outcome is its reward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of
from blamespan.importing.recorded import RecordedRun, importers
from blamespan_integrations.importers.tau_bench import TauBenchImporter


def result(**changed: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "find_user", "arguments": '{"id":"ann"}'}}
    return {
        "task_id": 3,
        "reward": 1.0,
        "info": {},
        "traj": [
            {"role": "system", "content": "Be polite."},
            {"role": "user", "content": "Cancel my flight."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "find_user", "content": '{"flight": "HAT1"}'},
            {"role": "assistant", "content": "HAT1 is cancelled."},
            {"role": "user", "content": "###STOP###"},
        ],
        "trial": 0,
        **changed,
    }


def read(tmp_path: Path, *results: Any) -> list[RecordedRun | UnreadableInput]:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    return list(TauBenchImporter().read(path))


def test_conversation_becomes_a_run_of_one_assistant(tmp_path: Path) -> None:
    """The tool's answer belongs to the call; only the assistant can be blamed."""
    (run,) = read(tmp_path, result())

    assert isinstance(run, RecordedRun)
    trace = run.trace
    assert (trace.task, trace.outcome, run.faults) == ("Cancel my flight.", "succeeded", ())
    assert [(step.agent, step.kind, step.inputs) for step in trace.steps] == [
        ("assistant", "tool_call", ()),
        ("assistant", "tool_result", (0,)),
        ("assistant", "message", (1,)),
        ("user", "message", (2,)),
    ]
    assert [trace.can_be_blamed(step) for step in trace.steps] == [True, False, True, False]


def test_failed_run_has_no_labels(tmp_path: Path) -> None:
    """The reward says that it failed, and nobody says where."""
    (run,) = read(tmp_path, result(reward=0.0))

    assert isinstance(run, RecordedRun)
    assert (run.trace.outcome, run.faults) == ("failed", None)


def test_trials_of_one_task_are_runs_of_their_own(tmp_path: Path) -> None:
    """Their ids differ, even where every word is the same."""
    first, second = read(tmp_path, result(), result(trial=1))

    assert isinstance(first, RecordedRun)
    assert isinstance(second, RecordedRun)
    assert first.trace.trace_id != second.trace.trace_id


@pytest.mark.parametrize(
    "broken", [{"traj": None}, {"traj": [1]}, {"traj": []}, {"reward": "1"}, {"reward": True}, {"reward": None}]
)
def test_what_is_no_result_is_an_error_in_its_place(tmp_path: Path, broken: dict[str, Any]) -> None:
    """The runs around it are read."""
    before, error, after = read(tmp_path, result(), result(**broken), result())

    assert isinstance(error, UnreadableInput)
    assert "results.json:1[1]" in str(error)
    assert isinstance(before, RecordedRun)
    assert isinstance(after, RecordedRun)


def test_file_is_told_from_its_content(tmp_path: Path) -> None:
    """No other importer takes it for its own."""
    path = tmp_path / "anything"
    path.write_text(json.dumps([result()], indent=1), encoding="utf-8")
    takers = [importer.name for importer in importers() if importer.matches(path, head_of(path))]

    assert takers == ["tau-bench"]


@pytest.mark.data
def test_recorded_results_are_read(recorded_runs: Path) -> None:
    """Every result of the recorded files becomes a run."""
    path = recorded_runs / "tau_bench" / "gpt-4o-airline.json.xz"
    runs = list(TauBenchImporter().read(path))

    assert len(runs) == 200
    assert sum(isinstance(run, RecordedRun) and run.trace.outcome == "succeeded" for run in runs) == 84
