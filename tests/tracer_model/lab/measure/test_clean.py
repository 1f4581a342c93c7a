"""`blamespan lab evaluate clean` counts verdicts that call a run failed that was not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.attribution import Attribution, TracerIdentity
from blamespan_lab.command import evaluate
from blamespan_lab.measure.clean import evaluate_clean
from tests.tracer_model.teams import random_team

WHO = TracerIdentity("any", "1")


def verdict(failure_score: float) -> Attribution:
    trace = random_team(1)
    shares = [1.0 if trace.can_be_blamed(step) else 0.0 for step in trace.steps]
    return Attribution.of(trace, shares, failure_score=failure_score, tracer=WHO)


def test_alarm_is_a_verdict_that_says_rather_failed_than_not() -> None:
    """A half says that it does not know, an abstention says nothing: neither is an alarm."""
    silent = Attribution.abstain(random_team(1), "probably sound", WHO)

    found = evaluate_clean([verdict(0.9), verdict(0.5), verdict(0.1), silent], tracer="any")

    assert (found["n"], found["false_alarms"], found["abstained"]) == (4, 25.0, 1)
    assert found["failure_score"] == 0.5


def test_none_of_few_does_not_mean_none() -> None:
    """Of 48 sound runs without an alarm the interval goes up to 7.4 %, not to 0."""
    assert evaluate_clean([verdict(0.1)] * 48, tracer="any")["false_alarms_ci"] == pytest.approx([0, 7.41], abs=0.01)


def result(reward: float, number: int) -> dict[str, object]:
    said = [{"role": "user", "content": "Cancel it."}, {"role": "assistant", "content": f"Done, flight {number}."}]
    return {"task_id": number, "reward": reward, "info": {}, "traj": said, "trial": 0}


def test_only_runs_that_succeeded_are_asked_about(tmp_path: Path) -> None:
    """Of a file with both, those that failed are left out."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps([result(1.0, 1), result(0.0, 2), result(1.0, 3)]), encoding="utf-8")

    answer = CliRunner().invoke(evaluate, ["clean", str(path), "--json"], catch_exceptions=False)

    assert json.loads(answer.stdout)["n"] == 2


def test_file_without_such_runs_is_refused(tmp_path: Path) -> None:
    """There is nothing to count."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps([result(0.0, 1)]), encoding="utf-8")

    answer = CliRunner().invoke(evaluate, ["clean", str(path)])

    assert "expected runs that succeeded" in str(answer.exception)


def test_tracer_is_not_told_how_a_run_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer that knows would be silent about every one of them."""
    seen: list[str] = []

    class Listening:
        identity = WHO

        def attribute(self, traces: list[object]) -> list[Attribution]:
            seen.extend(trace.outcome for trace in traces)  # type: ignore[attr-defined]
            return [replace(verdict(0.1)) for _ in traces]

    path = tmp_path / "results.json"
    path.write_text(json.dumps([result(1.0, 1)]), encoding="utf-8")
    monkeypatch.setattr("blamespan.tracers.load_tracer", lambda name: Listening())

    CliRunner().invoke(evaluate, ["clean", str(path)], catch_exceptions=False)

    assert seen == ["unknown"]
