"""`blamespan verify`: suspects of a recorded run put right in the user's own team, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import blamespan
from blamespan.cli import cli
from blamespan.labels.file import read_labels
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.recorded_run import read_replayable, recording_quietly
from blamespan_lab.rerun.trials import try_corrections
from blamespan_lab.rerun.user_program import load_program
from tests.tracer_model.alternatives.llm_judge.serving import served_as_judge
from tests.tracer_model.lab.rerun.causes import programs
from tests.tracer_model.lab.rerun.causes.programs import MOOD, TASK
from tests.tracer_model.lab.rerun.recording import record

_HERE = "tests.tracer_model.lab.rerun.causes.programs"
_CHECK = ("--check", f"{_HERE}:is_42", "--tracer", "lexical", "--processes", "1")


def _record(path: Path, run: Callable[[], Any]) -> Path:
    record(path, run)
    programs.asked.clear()
    return path


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """A failed run: 0 counter, 1 adder (52), 2 reporter."""
    return _record(tmp_path / "birds.jsonl", lambda: programs.team().invoke({"messages": [("user", TASK)]}))


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["verify", *map(str, arguments)])


def _outcomes(*arguments: object) -> dict[int, dict[str, Any]]:
    result = _run(*arguments, "--json")
    assert result.exception is None, result.exception
    document = json.loads(result.stdout)
    return {suspect["step"]: suspect for suspect in document["suspects"]}


def test_users_correction_confirms_the_culprit_and_writes_verdict_and_label(birds: Path, tmp_path: Path) -> None:
    """The adder put right mends the run; spans, and a label that says so, are written; the reporter is cleared."""
    out, labels = tmp_path / "verified.jsonl", tmp_path / "labels.jsonl"
    suspects = _outcomes(
        *(birds, f"{_HERE}:team", *_CHECK, "--correction", "1=It makes 42.", "--repeats", 2),
        *("--correction", "2=The answer is 50.", "--suspects", 1, "--out", out, "--labels", labels),
    )
    [label] = read_labels(labels)
    verified = json.loads(out.read_text().splitlines()[1])
    attributes = {
        item["key"]: item["value"] for item in verified["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    }

    assert suspects[1]["verified"] == "confirmed"
    assert suspects[1]["corrected"] == {"succeeded": 2, "repeats": 2, "interval": suspects[1]["corrected"]["interval"]}
    assert suspects[1]["unchanged"]["succeeded"] == 0
    assert suspects[2]["verified"] == "refuted"
    assert (label.by, label.decisive.step if label.decisive else None) == ("verify", 1)
    assert attributes["blamespan.verified"] == {"stringValue": "confirmed"}
    assert attributes["blamespan.revision"] == {"intValue": "1"}


@pytest.mark.usefixtures("in_this_process")
def test_without_a_correction_the_agent_is_asked_again(birds: Path) -> None:
    """Told what is wrong, the adder adds right, and the run succeeds; the counter says the same again."""
    suspects = _outcomes(birds, f"{_HERE}:team", *_CHECK, "--repeats", 2)

    assert (suspects[1]["verified"], suspects[1]["by"], suspects[1]["says"]) == (
        "confirmed",
        "feedback",
        "It makes 42.",
    )
    assert suspects[0]["verified"] == "undecided"
    assert "says the same again" in suspects[0]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("deaf", "the team ignores the correction"),
        ("lucky", "succeeds too often to tell that from chance"),
        ("slow", "it did not end within 3 s"),
    ],
)
def test_team_that_hangs_or_ignores_or_is_lucky_decides_nothing(
    birds: Path, monkeypatch: pytest.MonkeyPatch, mood: str, reason: str
) -> None:
    """The command comes to an end, and says why nothing is known."""
    monkeypatch.setenv(MOOD, mood)
    limits = ("--timeout", 3) if mood == "slow" else ()
    suspects = _outcomes(
        *(birds, f"{_HERE}:team", *_CHECK, "--correction", "1=It makes 42.", "--suspects", 1, "--repeats", 2, *limits)
    )

    assert suspects[1]["verified"] == "undecided"
    assert reason in suspects[1]["reason"]


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("program", "said"),
    [(f"{_HERE}:raises", "raised RuntimeError: no key"), (f"{_HERE}:other_team", "told something else")],
)
def test_program_that_is_not_the_recorded_one_is_named(birds: Path, program: str, said: str) -> None:
    """A factory that fails or gives another team is an error with its reason, not a verdict."""
    result = _run(birds, program, *_CHECK, "--correction", "1=It makes 42.", "--suspects", 1, "--json")
    told = str(result.exception) if isinstance(result.exception, blamespan.errors.BlamespanError) else result.output

    assert said in told


@pytest.mark.usefixtures("in_this_process")
def test_run_that_the_check_calls_right_has_nothing_to_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound run is refused."""
    monkeypatch.setenv(MOOD, "lucky")
    path = _record(tmp_path / "sound.jsonl", lambda: programs.team().invoke({"messages": [("user", TASK)]}))
    result = _run(path, f"{_HERE}:team", *_CHECK)

    assert "expected a run that failed, got one that the check calls right" in str(result.exception)


@pytest.mark.parametrize(
    ("correction", "said"),
    [
        ("It makes 42.", "expected a correction as STEP=TEXT"),
        ("9=It makes 42.", "expected corrections of agents' steps, 0 to 2, got one of step 9"),
    ],
)
def test_bad_correction_is_named(birds: Path, correction: str, said: str) -> None:
    """It says what was expected and what came."""
    result = _run(birds, f"{_HERE}:team", *_CHECK, "--correction", correction)

    assert said in str(result.exception)


def test_graph_with_a_checkpoint_goes_on_from_it(tmp_path: Path) -> None:
    """Nothing before the step runs again, and the user's thread stays as it was; without the thread all runs again."""
    config = {"configurable": {"thread_id": "birds"}}
    path = _record(
        tmp_path / "birds.jsonl", lambda: programs.remembering().invoke({"messages": [("user", TASK)]}, config)
    )
    script = read_replayable(path).script
    before = list(programs.remembering().get_state_history(config))
    correction = Correction(1, "It makes 42.")
    with recording_quietly() as models:
        kept, fresh = (load_program(f"{_HERE}:{name}", f"{_HERE}:is_42") for name in ("remembering", "team"))
        from_checkpoint = try_corrections(kept, script, [correction], TASK, models)
        asked = list(programs.asked)
        from_start = try_corrections(fresh, script, [correction], TASK, models)

    assert (from_checkpoint.ran.answer, from_checkpoint.ran.succeeded) == ("The answer is 42.", True)
    assert from_checkpoint.is_from_checkpoint
    assert asked == ["reporter"]
    assert from_checkpoint.said == from_start.said
    assert not from_start.is_from_checkpoint
    assert list(programs.remembering().get_state_history(config)) == before


def test_coalition_goes_on_from_the_checkpoint_of_its_first_step(tmp_path: Path) -> None:
    """Further steps are put right when they come, as in a run from the start; what nobody corrects is asked live."""
    config = {"configurable": {"thread_id": "coalition"}}
    path = _record(
        tmp_path / "birds.jsonl", lambda: programs.remembering().invoke({"messages": [("user", TASK)]}, config)
    )
    script = read_replayable(path).script
    both = [Correction(0, "I see 30 birds, and 2 more."), Correction(2, "The answer is 32.")]
    with recording_quietly() as models:
        kept, fresh = (load_program(f"{_HERE}:{name}", f"{_HERE}:is_42") for name in ("remembering", "team"))
        from_checkpoint = try_corrections(kept, script, both, TASK, models)
        asked = list(programs.asked)
        from_start = try_corrections(fresh, script, both, TASK, models)

    assert from_checkpoint.is_from_checkpoint
    assert not from_start.is_from_checkpoint
    assert asked == ["adder"]
    assert from_checkpoint.ran.answer == from_start.ran.answer == "The answer is 32."
    assert from_checkpoint.said == from_start.said


@pytest.mark.usefixtures("in_this_process")
def test_judge_writes_the_correction_where_it_is_set(birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are said at the step; where it gives none, the suspect is undecided, and its reason is told."""
    arguments = (birds, f"{_HERE}:team", "--check", f"{_HERE}:is_42", "--tracer", "checks", "--processes", 1)
    with served_as_judge(monkeypatch, {"say": {"reasoning": "", "message": "It makes 42."}}):
        judged = _outcomes(*arguments, "--repeats", 2)[1]
    with served_as_judge(monkeypatch, {"say": {"reasoning": "", "message": ""}}):
        unanswered = _outcomes(*arguments, "--repeats", 2)[1]

    assert (judged["verified"], judged["by"], judged["says"]) == ("confirmed", "judge", "It makes 42.")
    assert unanswered["verified"] == "undecided"
    assert "the judge gave no correction" in unanswered["reason"]


@pytest.mark.usefixtures("in_this_process")
def test_table_shows_each_suspect_with_counts_and_reason(birds: Path) -> None:
    """People read the outcome, how often of how many with its interval, by whom, why, and what is decisive now."""
    result = _run(birds, f"{_HERE}:team", *_CHECK, "--correction", "1=It makes 42.", "--suspects", 1, "--repeats", 2)

    assert result.exception is None, result.exception
    assert "confirmed" in result.stdout
    assert "2 of 2 (34-100)" in result.stdout
    assert "0 of 2 (0-66)" in result.stdout
    assert "decisive: step 1 of adder" in result.stdout
    assert "2 runs each" in result.stderr
