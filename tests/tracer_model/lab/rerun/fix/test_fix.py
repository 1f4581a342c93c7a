"""`blamespan fix`: the blamed step put right, run on with and without, and what to change where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.cli import cli
from tests.tracer_model.alternatives.llm_judge.serving import served_as_judge
from tests.tracer_model.lab.rerun.fix.conftest import run_graph
from tests.tracer_model.lab.rerun.fix.programs import CALLS, MOOD, RIGHT, TASK, without_models
from tests.tracer_model.lab.rerun.recording import record

_HERE = "tests.tracer_model.lab.rerun.fix.programs"
_CHECK = ("--check", f"{_HERE}:is_42")


def _fix(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["fix", *map(str, arguments)])


def _done(*arguments: object) -> dict[str, Any]:
    result = _fix(*arguments, "--json")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def _counts(document: dict[str, Any]) -> tuple[tuple[int, int], tuple[int, int]]:
    with_it, without = ((document[key]["succeeded"], document[key]["repeats"]) for key in ("corrected", "unchanged"))
    return with_it, without


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("run", "program", "step"), [("graph_run", "graph", 4), ("team_run", "team_later", 3)])
def test_users_correction_is_proved_by_running_on(
    request: pytest.FixtureRequest, run: str, program: str, step: int, tmp_path: Path
) -> None:
    """With it the run is solved each time, without never; the prompt to change is named, and the test written."""
    out = tmp_path / "test_adder.py"
    path = request.getfixturevalue(run)
    done = _done(path, f"{_HERE}:{program}", *_CHECK, "--correction", RIGHT, "--repeats", 3, "--case", out)

    assert (done["proved"], done["step"], done["by"], done["says"]) == (True, step, "user", RIGHT)
    assert _counts(done) == ((3, 3), (0, 3))
    assert done["finding"]["check"] == "sum-holds"
    assert done["change"]["where"] == 'the prompt of "adder", which begins "Add the figures."'
    assert done["repeatable"] is True
    assert f'check="{_HERE}:is_42"' in out.read_text()


@pytest.mark.usefixtures("in_this_process")
def test_without_a_check_solved_means_that_the_finding_is_gone(graph_run: Path) -> None:
    """And the command says so; what was wrong stays wrong without the correction."""
    done = _done(graph_run, f"{_HERE}:graph", "--repeats", 3)

    assert (done["proved"], done["by"], _counts(done)) == (True, "feedback", ((3, 3), (0, 3)))
    assert "the finding is gone" in done["success"]


@pytest.mark.usefixtures("in_this_process")
def test_correction_that_is_wrong_itself_proves_nothing(graph_run: Path) -> None:
    """Another wrong sum is a finding again, and a wrong answer; the exit code is 1."""
    wrong = ("--correction", "40 + 2 = 62, so there are 62 birds.", "--repeats", 2)
    by_finding = _done(graph_run, f"{_HERE}:graph", *wrong)
    result = _fix(graph_run, f"{_HERE}:graph", *_CHECK, *wrong)

    assert (by_finding["proved"], by_finding["verified"]) == (False, "refuted")
    assert result.exit_code == 1
    assert "0 of 2 with it (0-66 %)" in result.stdout
    assert "Nothing is proved: put right, the run fails all the same" in result.stdout


@pytest.mark.usefixtures("in_this_process")
def test_lucky_program_is_not_solved_by_a_correction(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the run succeeds without it, too, chance is not ruled out, and the next suspect is tried."""
    monkeypatch.setenv(MOOD, "lucky")
    done = _done(graph_run, f"{_HERE}:graph", *_CHECK, "--correction", RIGHT, "--repeats", 2)

    assert done["proved"] is False
    assert "too often to tell that from chance" in done["reason"]


@pytest.mark.usefixtures("in_this_process")
def test_tools_answer_as_recorded_and_others_do_not_run(
    graph_run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A call that was not recorded is trouble, unless the factory says that tools may run, or --run-tools does."""
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    monkeypatch.setenv(MOOD, "counts cats")
    refused = _done(graph_run, f"{_HERE}:graph", *_CHECK, "--correction", "3=There are 40.", "--repeats", 1)
    is_called = (tmp_path / "calls").exists()
    allowed = _done(graph_run, f"{_HERE}:graph_with_sandbox", *_CHECK, "--correction", "3=There are 40.")

    assert refused["reason"].startswith("it calls stock(")
    assert (
        "--run-tools"
        in _fix(graph_run, f"{_HERE}:graph", *_CHECK, "--correction", "3=There are 40.", "--repeats", 1).stdout
    )
    assert not is_called
    assert not allowed["reason"].startswith("it calls stock(")
    assert "cats" in (tmp_path / "calls").read_text()


@pytest.mark.usefixtures("in_this_process")
def test_endpoint_is_asked_before_the_agents_own_model(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it gives nothing, the agent's own model is told what is wrong."""
    arguments = (graph_run, f"{_HERE}:graph", *_CHECK, "--tracer", "checks", "--repeats", 2)
    with served_as_judge(monkeypatch, {"say": {"reasoning": "", "message": "It is 42."}}):
        judged = _done(*arguments)
    with served_as_judge(monkeypatch, {"say": {"reasoning": "", "message": ""}}):
        told = _done(*arguments)

    assert (judged["proved"], judged["by"], judged["says"]) == (True, "judge", "It is 42.")
    assert (told["proved"], told["by"], told["says"]) == (True, "feedback", RIGHT)


@pytest.mark.usefixtures("in_this_process")
def test_report_fits_100_columns(graph_run: Path) -> None:
    """It says who, what, how often with and without, what that means, what is deterministic, and what to change."""
    result = _fix(graph_run, f"{_HERE}:graph", *_CHECK, "--repeats", 2)

    for said in (
        'blamed "adder", step 4,',
        "found sum-holds: comes to 42",
        "solved 2 of 2 with it (34-100 %), 0 of 2 without (0-66 %)",
        "3 answers of models came from the recording",
        'What to change: the prompt of "adder"',
        "blamespan case ",
    ):
        assert said in " ".join(result.stdout.split())
    assert max(len(line) for line in result.stdout.splitlines() if "blamespan case" not in line) <= 100


@pytest.mark.usefixtures("in_this_process")
def test_other_program_proves_nothing(graph_run: Path) -> None:
    """The report says why, and what to do."""
    result = _fix(graph_run, "tests.tracer_model.lab.rerun.user_programs:graph", "--suspects", 1, "--repeats", 1)

    assert result.exit_code == 1
    assert "Give the program as it was when the run was recorded" in " ".join(result.stdout.split())


def test_program_that_hangs_proves_nothing(graph_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is ended after the time that was given; the report says why, and what to do."""
    monkeypatch.setenv(MOOD, "hangs")
    result = _fix(graph_run, f"{_HERE}:graph", "--suspects", 1, "--repeats", 1, "--timeout", 1)

    assert result.exit_code == 1
    assert "did not end within 1 s. Give a higher --timeout" in " ".join(result.stdout.split())


@pytest.mark.usefixtures("in_this_process")
def test_sound_run_has_nothing_to_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the check, and without one by the tracer's word."""
    monkeypatch.setenv(MOOD, "mended")
    path = record(tmp_path / "sound.jsonl", run_graph)

    assert "expected a run that failed, got one that the check calls right" in str(
        _fix(path, f"{_HERE}:graph", *_CHECK).exception
    )
    assert "expected a" in str(_fix(path, f"{_HERE}:graph").exception)


@pytest.mark.usefixtures("in_this_process")
def test_program_without_models_is_mended_in_its_code(tmp_path: Path) -> None:
    """Where no model says the step, nothing can be put in its place: that is said, and what to do instead."""
    path = record(tmp_path / "run.jsonl", lambda: without_models().invoke({"messages": [("user", TASK)]}))
    done = _fix(path, f"{_HERE}:without_models", *_CHECK, "--correction", RIGHT, "--repeats", 1)

    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "Nothing is proved: no model was asked" in said
    assert "Mend the code that says it; `blamespan case` keeps the run as a test." in said
