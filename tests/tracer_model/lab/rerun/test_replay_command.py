"""`blamespan lab replay`: up to the step nothing is asked, at it the text is said, after it the program lives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blamespan.cli import cli
from tests.tracer_model.lab.rerun import user_programs
from tests.tracer_model.lab.rerun.recording import record
from tests.tracer_model.lab.rerun.user_programs import asked, looked_up, prompts

_HERE = "tests.tracer_model.lab.rerun.user_programs"
_GRAPH = (f"{_HERE}:graph", "--check", f"{_HERE}:is_42")
_BIRDS = "How many birds?"


@pytest.fixture(autouse=True)
def _nobody_asked_yet() -> Iterator[None]:
    asked.clear()
    looked_up.clear()
    yield
    prompts["adder"] = "Add the numbers."


def _recorded(path: Path, run: Callable[[], Any], **settings: Any) -> Path:
    """Write the spans of what *run* does to a file, and forget whom it asked."""
    record(path, run, **settings)
    asked.clear()
    looked_up.clear()
    return path


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    """The graph's run: 0 adder calls, 1 call, 2 answer 40, 3 adder adds, 4 reporter."""
    return _recorded(tmp_path / "birds.jsonl", lambda: user_programs.graph().invoke({"messages": [("user", _BIRDS)]}))


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A simulated AutoGen team's run."""
    return _recorded(tmp_path / "team.jsonl", lambda: user_programs.SWARM.run())


def _replay(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["lab", "replay", *map(str, arguments)])


def _done(*arguments: object) -> dict[str, Any]:
    result = _replay(*arguments, "--json")
    assert result.exception is None, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_before_the_step_no_model_is_asked_and_no_tool_called(birds: Path) -> None:
    """Only what comes after the step is live; what it was told is what was said at the step."""
    done = _done(birds, *_GRAPH, "--step", 3, "--with", "It makes 7.")

    assert asked == ["reporter"]
    assert looked_up == []
    assert done["original"] == {"answer": "The answer is 42.", "succeeded": True, "error": ""}
    assert done["replay"] == {"answer": "The answer is 7.", "succeeded": False, "error": ""}
    assert (done["outcome_changed"], done["answers_differ"]) == (True, True)
    assert (done["answered_from_recording"], done["models_asked"]) == (2, 1)


def test_a_tools_answer_can_be_put_right(birds: Path) -> None:
    """What the tool is said to have answered is what its agent reads."""
    done = _done(birds, *_GRAPH, "--step", 2, "--with", "50")

    assert done["replay"]["answer"] == "The answer is 52."
    assert (asked, looked_up) == (["adder", "reporter"], [])


def test_a_call_can_be_put_right(birds: Path) -> None:
    """The corrected call is made, by the real tool."""
    done = _done(birds, *_GRAPH, "--step", 1, "--with", 'number({"of": "cats"})')

    assert looked_up == ["cats"]
    assert done["outcome_changed"] is False


def test_instead_of_calling_an_agent_can_speak(birds: Path) -> None:
    """A step that asked for a tool says something instead, and the tool is not called."""
    done = _done(birds, *_GRAPH, "--step", 0, "--with", "It makes 9.")

    assert (asked, looked_up) == (["reporter"], [])
    assert done["replay"]["answer"] == "The answer is 9."


def test_the_last_step_is_the_answer(birds: Path, tmp_path: Path) -> None:
    """A text may come from a file; nothing is asked when nothing follows."""
    text = tmp_path / "answer.txt"
    text.write_text("The answer is 42, of course.")
    done = _done(birds, *_GRAPH, "--step", 4, "--with", f"@{text}")

    assert asked == []
    assert done["replay"]["answer"] == "The answer is 42, of course."


def test_an_autogen_team_goes_on_from_the_step(team: Path) -> None:
    """What an agent is made to say is heard by those who come next."""
    done = _done(team, f"{_HERE}:team", "--step", 0, "--with", "I have no plan.")

    assert done["original"]["succeeded"] is True
    assert done["answered_from_recording"] == 1
    assert done["models_asked"] > 0


def test_without_a_check_both_answers_are_shown_and_compared(birds: Path) -> None:
    """It says that nobody can tell what is right."""
    result = _replay(birds, f"{_HERE}:graph", "--step", 3, "--with", "It makes 7.")

    assert result.exception is None
    assert "unchecked  The answer is 42." in result.stdout
    assert "unchecked  The answer is 7." in result.stdout
    assert "name a check with --check. The answers differ." in result.stdout


def test_a_program_that_has_changed_is_refused_with_the_difference(birds: Path) -> None:
    """Another prompt before the step is found by content, and no model is asked."""
    prompts["adder"] = "Multiply the numbers."
    result = _replay(birds, *_GRAPH, "--step", 3, "--with", "It makes 7.")

    assert "has changed since it was recorded: at step 1: 'adder' is told something else" in str(result.exception)
    assert "Multiply" in str(result.exception)
    assert asked == []


def test_another_task_is_a_change_too(birds: Path) -> None:
    """What was answered to one question is no answer to another."""
    result = _replay(birds, *_GRAPH, "--step", 3, "--with", "It makes 7.", "--task", "How many cats?")

    assert "How many cats?" in str(result.exception)


def test_another_program_is_refused(birds: Path) -> None:
    """One that never comes to the step did not make the recording."""
    result = _replay(birds, f"{_HERE}:plain", "--step", 3, "--with", "It makes 7.")

    assert "it ended without coming to step 3" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--step", 3), "--with must say what the step says instead, got nothing"),
        (("--step", 5, "--with", "x"), "step must be one of the run's, 0 to 4, got 5"),
        (("--step", -1, "--with", "x"), "step must be one of the run's, 0 to 4, got -1"),
        (("--step", 1, "--with", "x"), "step 1 calls a tool: expected a call in its place, got 'x'"),
        (("--step", 3, "--with", "@/no/such/file"), "expected a readable file"),
        (
            ("--step", 3, "--with", "x", "--run", "ffff"),
            "expected a number from 1 to 1, or a trace id, got --run 'ffff'",
        ),
    ],
)
def test_bad_input_is_named(birds: Path, arguments: tuple[object, ...], said: str) -> None:
    """Each says what was expected, what came and what to do; nothing was run."""
    result = _replay(birds, *_GRAPH, *arguments)

    assert said in str(result.exception)
    assert asked == []


def test_of_several_runs_one_must_be_named(birds: Path, team: Path, tmp_path: Path) -> None:
    """The ids are listed; the start of one is enough."""
    both = tmp_path / "both.jsonl"
    both.write_text(birds.read_text() + team.read_text().replace('"traceId":"0', '"traceId":"f'))
    refused = _replay(both, *_GRAPH, "--step", 3, "--with", "It makes 7.")
    done = _done(both, *_GRAPH, "--step", 3, "--with", "It makes 7.", "--run", "000")

    assert "got 2" in str(refused.exception)
    assert done["replay"]["answer"] == "The answer is 7."


@pytest.mark.parametrize(
    ("settings", "said"), [({"capture_content": False}, "withheld"), ({"max_content_bytes": 64}, "was cut")]
)
def test_contents_that_are_not_there_cannot_be_replayed(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    """Withheld or cut contents are no answers."""
    path = _recorded(
        tmp_path / "cut.jsonl", lambda: user_programs.graph().invoke({"messages": [("user", _BIRDS)]}), **settings
    )
    result = _replay(path, *_GRAPH, "--step", 4, "--with", "42", "--task", _BIRDS)

    assert "cannot be replayed" in str(result.exception)
    assert said in str(result.exception)
    assert asked == []
